"""What it costs to call a generated C++ kernel that does nothing, by the number of its arguments.

Built as Inductor builds its kernels (``CppPythonBindingsCodeCache``, torch/_inductor/codecache.py;
read in 2.11 and 2.13).
"""

from __future__ import annotations

import timeit
from dataclasses import dataclass

import torch

FEW, MANY = 1, 17
RUNS = 5000


@dataclass(frozen=True, slots=True)
class LaunchCost:
    """Seconds of a call, and of each of its arguments."""

    call_s: float
    argument_s: float

    def of(self, arguments: int) -> float:
        return self.call_s + arguments * self.argument_s


def launch_cost() -> LaunchCost:
    """Build two kernels that do nothing, and time them. Raises whatever the C++ compiler's absence
    raises.
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
    return min(timeit.repeat(lambda: kernel(*tensors), number=RUNS, repeat=7)) / RUNS
