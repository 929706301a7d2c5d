"""This module makes the calls that a ledger is based on: rounds that alternate between calls
without a clock, with clocks, uncompiled and without guards; and calls in which torch's profiler
records the GPU's work.

It measures two costs of a compiled call separately: the guards of each compiled frame, and the call
of a generated C++ kernel that does nothing, by the number of its arguments.
"""

from __future__ import annotations

import contextlib
import gc
import time
import timeit
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from statistics import median
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from fx_explorer.capture.dynamo.frame_clock import EnteredFrame, FrameClock
from fx_explorer.capture.inductor.wrapper_clock import WrapperClock
from fx_explorer.instruments.bench.measure.calls import Caller
from fx_explorer.instruments.ledger.measure.timeline import (
    BACKWARD,
    CLEAR,
    FORWARD,
    LOSS,
    OVER,
    RELEASE,
    WAIT,
    DeviceCall,
    DeviceWork,
    RawTick,
)

ROUND_S = 0.04
MIN_ROUNDS, MAX_ROUNDS = 6, 30
MAX_S = 60.0
"""Seconds after which, once the least number of rounds is made, no further round begins."""

MAX_CALLS = 2000
"""Maximum number of calls of each kind in a round."""

TRIED = 3


@dataclass
class Rounds:
    """Seconds of each call, round after round, and the ticks of the calls with clocks."""

    plain_s: list[list[float]] = field(default_factory=list)
    uncompiled_s: list[list[float]] = field(default_factory=list)
    unguarded_s: list[list[float]] = field(default_factory=list)
    clocked: list[list[RawTick]] = field(default_factory=list)


def calls_of(rounds: list[list[float]]) -> list[float]:
    """Return the seconds of all calls."""
    return list(chain.from_iterable(rounds))


def medians(rounds: list[list[float]]) -> tuple[float, ...]:
    """Return the median of each round."""
    return tuple(median(calls) for calls in rounds)


@dataclass(frozen=True)
class Clocks:
    """The clocks in Dynamo's bytecode and in generated wrappers."""

    frames: FrameClock
    wrappers: WrapperClock

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Run both clocks inside the block; outside they are stopped."""
        self.frames.is_running = True
        try:
            with self.wrappers.on():
                yield
        finally:
            self.frames.is_running = False
            self.frames.take_raw()


class TurnTaker:
    """Runs one program in rounds, in which its ways of running (compiled, uncompiled …) take
    turns.
    """

    def __init__(
        self,
        caller: Caller,
        plain: Caller,
        clocks: Clocks,
        is_gpu: bool,
        say: Callable[[str], object],
    ) -> None:
        """``plain`` calls the program in eager mode."""
        self._caller = caller
        self._clocks = clocks
        self._is_gpu = is_gpu
        self._say = say
        self._call = waited_for(caller, is_gpu)
        self._uncompiled = waited_for(plain, is_gpu)

    def try_uncompiled(self) -> bool:
        """Call the program in eager mode. Raises whatever it raises."""
        with torch.compiler.set_stance("force_eager"):
            for _ in range(TRIED):
                self._uncompiled()
        return True

    def try_unguarded(self) -> bool:
        """Call the program without guards. Raises whatever it raises, for instance when torch would
        recompile.
        """
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            self._call()
        return True

    def rounds(self, *, uncompiled: bool, unguarded: bool) -> Rounds:
        """Make the rounds, with calls of these kinds too."""
        rounds, calls = Rounds(), self._calls_of_a_round()
        until = time.perf_counter() + MAX_S
        for number in range(MAX_ROUNDS):
            if number >= MIN_ROUNDS and time.perf_counter() > until:
                break
            if number in (0, MIN_ROUNDS):
                self._say("measuring calls with and without timers, and in eager mode")
            rounds.plain_s.append(times_of(self._call, calls))
            rounds.clocked += self._clocked(calls)
            if uncompiled:
                with torch.compiler.set_stance("force_eager"):
                    rounds.uncompiled_s.append(times_of(self._uncompiled, calls))
            if unguarded:
                with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
                    rounds.unguarded_s.append(times_of(self._call, calls))
        return rounds

    def _calls_of_a_round(self) -> int:
        last_s = min(times_of(self._call, TRIED))
        return max(1, min(MAX_CALLS, int(ROUND_S / max(last_s, 1e-7))))

    def _clocked(self, calls: int) -> list[list[RawTick]]:
        ticks, frames = [], self._clocks.frames
        with self._clocks.running(), without_collections():
            for _ in range(calls):
                marked_call(self._caller, frames.add, self._is_gpu)
                ticks.append(frames.take_raw())
        return ticks


def call_once(call: Call, clocks: Clocks) -> None:
    """Make a call with clocks, while the clock in bytecode also keeps the locals of each frame."""
    clocks.frames.is_looking = True
    try:
        with clocks.running():
            call()
    finally:
        clocks.frames.is_looking = False


# One call of the program with marks between its parts.


Add = Callable[[RawTick], object]
Call = Callable[[], object]


def marked_call(caller: Caller, add: Add, is_gpu: bool) -> None:
    """Make one call (a training step if it trains), with a tick between its parts."""
    now = time.perf_counter
    if caller.trains:
        add((now(), CLEAR, 0))
        caller.clear()
    add((now(), FORWARD, 0))
    output = caller.forward()
    if caller.trains:
        add((now(), LOSS, 0))
        loss = caller.loss(output)
        add((now(), BACKWARD, 0))
        loss.backward()
        del loss
    if is_gpu:
        add((now(), WAIT, 0))
        torch.cuda.synchronize()
    add((now(), RELEASE, 0))
    del output
    add((now(), OVER, 0))


def waited_for(caller: Caller, is_gpu: bool) -> Call:
    """Return a call without marks; on a GPU it is over when the GPU has finished."""

    def call() -> None:
        caller.call()
        torch.cuda.synchronize()

    return call if is_gpu else caller.call


def times_of(call: Call, calls: int) -> list[float]:
    """Return the seconds of each of some calls, including about 0.05 µs for reading the clock."""
    now = time.perf_counter
    times_s = []
    with without_collections():
        for _ in range(calls):
            began = now()
            call()
            times_s.append(now() - began)
    return times_s


@contextmanager
def without_collections() -> Iterator[None]:
    """Keep Python's garbage collector from running meanwhile, as ``timeit`` does."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# Calls while the profiler notes when the GPU does what.


WARM_UP_CALLS, CALLS = 5, 30

NO_WORK = ("sync", "event", "wait", "annotation", "request")
"""Words in the names of profiler events on the GPU's side that are not work."""


def device_calls(caller: Caller, clocks: Clocks) -> list[DeviceCall]:
    """Return some calls with the work of the GPU in each.

    The clocks run on the host while torch's profiler notes when the GPU does what. Only the GPU's
    side is recorded: to record the host's operators, too, would make the gaps several times as
    long. Times of both sides are brought to one clock by reading both of the host's at once.
    """
    calls: list[list[RawTick]] = []
    with (
        clocks.running(),
        without_collections(),
        profile(activities=[ProfilerActivity.CUDA]) as profiled,
    ):
        zero_ns = _unix_of_zero_ns()
        for _ in range(WARM_UP_CALLS + CALLS):
            marked_call(caller, clocks.frames.add, True)
            calls.append(clocks.frames.take_raw())
    if profiled.profiler:
        events = profiled.profiler.kineto_results.events()
    else:
        events = []
    work = [_work(event, zero_ns) for event in events if _is_work(event)]
    return assigned(calls[WARM_UP_CALLS:], sorted(work, key=lambda work: work.begin_s))


def assigned(calls: list[list[RawTick]], work: list[DeviceWork]) -> list[DeviceCall]:
    """Give each work to the call in which it begins: a call ends when the GPU has finished."""
    begins = [ticks[0][0] for ticks in calls]
    of_call: list[list[DeviceWork]] = [[] for _ in calls]
    for device_work in work:
        at = bisect_right(begins, device_work.begin_s) - 1
        if at >= 0 and device_work.begin_s < calls[at][-1][0]:
            of_call[at].append(device_work)
    return [DeviceCall(*pair) for pair in zip(calls, of_call, strict=True)]


def _unix_of_zero_ns() -> int:
    """Return the time of day, in nanoseconds, at which ``perf_counter`` was 0. The smallest of
    several readings is the closest, because a delay between the two clocks makes it larger.
    """
    return min(time.time_ns() - time.perf_counter_ns() for _ in range(20))


def _is_work(event: Any) -> bool:
    is_on_device = event.device_type() == torch.autograd.DeviceType.CUDA
    name = event.name().lower()
    return (
        is_on_device
        and event.duration_ns() > 0
        and not (" " in name and any(word in name for word in NO_WORK))
    )


def _work(event: Any, zero_ns: int) -> DeviceWork:
    begin_s = (event.start_ns() - zero_ns) / 1e9
    return DeviceWork(event.name(), begin_s, begin_s + event.duration_ns() / 1e9)


OVERHEAD_RUNS, OVERHEAD_S = 200, 1.0


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
    from fx_explorer.capture.torch_compat.private_names import RootGuardManager

    empty = RootGuardManager()
    until = time.perf_counter() + OVERHEAD_S
    with torch.set_grad_enabled(has_grad):
        asked = {number: _managers(frame) for number, frame in entered.items()}
        took_s: dict[int, list[float]] = {
            number: [] for number, managers in asked.items() if managers
        }
        for _ in range(OVERHEAD_RUNS):
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
    from fx_explorer.capture.torch_compat.private_names import _debug_get_cache_entry_list

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
    from fx_explorer.capture.torch_compat.private_names import CppPythonBindingsCodeCache

    kinds = ["float*"] * arguments
    written = ", ".join(f"float* in_ptr{i}" for i in range(arguments))
    code = f'#include <torch/csrc/inductor/cpp_prefix.h>\nextern "C" void kernel({written}) {{}}\n'
    kernel = CppPythonBindingsCodeCache.load_pybinding(kinds, code)
    tensors = [torch.zeros(1) for _ in range(arguments)]
    return (
        min(timeit.repeat(lambda: kernel(*tensors), number=KERNEL_CALLS, repeat=7)) / KERNEL_CALLS
    )
