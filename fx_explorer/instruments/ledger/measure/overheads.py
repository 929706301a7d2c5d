"""This module measures two costs of a compiled call separately: the guards of each compiled frame,
and the call of a generated C++ kernel that does nothing, by the number of its arguments.
"""

from __future__ import annotations

import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

import torch

from fx_explorer.capture.dynamo.frame_clock import EnteredFrame

RUNS, MAX_S = 200, 1.0


def guard_times(
    entered: Mapping[int, EnteredFrame], call: Callable[[], object], has_grad: bool
) -> dict[int, float]:
    """Return frame → seconds of its guards, including guards of other compiled code that are tried
    before them and fail. Frames whose guards do not hold here, outside of the call, are left out.

    torch evaluates guards where it looks for compiled code that fits. The same guard managers are
    asked once more here, each time right after a call, so that the processor's caches are as they
    are then, with the locals that the frame has when it is entered. What it takes to ask from
    Python is measured with a guard manager that has no guards, and taken off.

    Hooks: ``_debug_get_cache_entry_list``, the entries of a code object in the order in which they
    are tried (torch/_dynamo/eval_frame.py); ``RootGuardManager`` (torch/csrc/dynamo/guards.cpp).
    Read in 2.11 and 2.13.
    """
    empty = torch._C._dynamo.guards.RootGuardManager()
    until = time.perf_counter() + MAX_S
    with torch.set_grad_enabled(has_grad):
        asked = {number: _managers(frame) for number, frame in entered.items()}
        took_s: dict[int, list[float]] = {
            number: [] for number, managers in asked.items() if managers
        }
        for _ in range(RUNS):
            for number in took_s:
                call()
                f_locals = entered[number].f_locals
                base_s = sum(_timed(empty.check, f_locals) for _ in asked[number])
                took_s[number].append(
                    sum(_timed(guard_manager, f_locals) for guard_manager in asked[number]) - base_s
                )
            if time.perf_counter() > until:
                break
    return {number: max(0.0, median(times)) for number, times in took_s.items() if times}


def _timed(check: Callable[[dict[str, Any]], object], f_locals: dict[str, Any]) -> float:
    began = time.perf_counter()
    check(f_locals)
    return time.perf_counter() - began


def _managers(frame: EnteredFrame) -> list[Callable[[dict[str, Any]], object]]:
    """Return the guard trees up to the first that accepts the call; empty when none does."""
    from fx_explorer.capture.torch_compat.shared_names import _debug_get_cache_entry_list

    checks = []
    for entry in _debug_get_cache_entry_list(frame.code):
        check = entry.guard_manager.root.check
        checks.append(check)
        if check(frame.f_locals):
            return checks
    return []


# The call of a kernel that does nothing.


FEW, MANY = 1, 17
KERNEL_CALLS = 5000


@dataclass(frozen=True, slots=True)
class LaunchCost:
    """Seconds of a call, and of each of its arguments."""

    call_s: float
    argument_s: float

    def of(self, arguments: int) -> float:
        return self.call_s + arguments * self.argument_s


def launch_cost() -> LaunchCost:
    """Build two kernels that do nothing, and time them. Raises an error if there is no C++
    compiler.

    They are built as Inductor builds its kernels (``CppPythonBindingsCodeCache``,
    torch/_inductor/codecache.py; read in 2.11 and 2.13).
    """
    few, many = _seconds(FEW), _seconds(MANY)
    argument_s = max(0.0, (many - few) / (MANY - FEW))
    return LaunchCost(max(0.0, few - FEW * argument_s), argument_s)


def _seconds(arguments: int) -> float:
    from torch._inductor.codecache import CppPythonBindingsCodeCache

    kinds = ["float*"] * arguments
    written = ", ".join(f"float* in_ptr{i}" for i in range(arguments))
    code = f'#include <torch/csrc/inductor/cpp_prefix.h>\nextern "C" void kernel({written}) {{}}\n'
    kernel = CppPythonBindingsCodeCache.load_pybinding(kinds, code)
    tensors = [torch.zeros(1) for _ in range(arguments)]
    return (
        min(timeit.repeat(lambda: kernel(*tensors), number=KERNEL_CALLS, repeat=7)) / KERNEL_CALLS
    )
