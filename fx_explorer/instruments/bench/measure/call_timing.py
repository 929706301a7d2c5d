"""This module measures the cost of one call: its time, its peak of allocated memory, the tensors
that a call in eager mode holds at that moment, by the user's line that made them; and the work of
generated wrappers in it: bytes of their tensors, operations, the GPU's time for each part, and the
share of kernels and library calls.

Beside them stands how long the processors take just now to share an operation (``sharing_s``),
which tells a disturbed round from a slow program.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

import fx_explorer
from fx_explorer.capture.inductor.wrapper_clock import PART, WRAPPER, WrapperClock
from fx_explorer.capture.torch_compat.private_names import (
    TorchDispatchMode,
    _current_autograd_node,
    _get_sequence_nr,
    counters,
    tree_leaves,
)
from fx_explorer.capture.torch_flops import formulas
from fx_explorer.instruments.kernels.measure.kernel_timing import by_events, flush_bytes
from fx_explorer.model import BenchClock, HeldLine
from fx_explorer.model.rows.measured import NOT_KNOWN

_NOT_THE_USERS = tuple(
    str(Path(str(package.__file__)).parent) + os.sep for package in (torch, fx_explorer)
)


def users_line(above: int, within: str = "") -> tuple[str, int]:
    """Return the file and number of the innermost line that is neither torch's nor ours, at least
    ``above`` frames above this one; ("", 0) without one, as within a backward. ``within`` names a
    function at whose call the search ends.
    """
    frame = sys._getframe(above)
    while frame is not None and frame.f_code.co_name != within:
        file = frame.f_code.co_filename
        if not file.startswith((*_NOT_THE_USERS, "<")):
            return file, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0


Call = Callable[[], object]

MIN_CALLS, MAX_CALLS, MAX_WARM_UP_S = 3, 12, 20.0
"""Minimum and maximum number of calls of a warm-up, and the seconds of calls without compilation
after which it also ends.
"""

MAX_COMPILES = 5
"""Number of calls in a row that compile, after which the program is taken to compile at every
call.
"""

STABLE = 1.2
"""Largest ratio of a call's time to that of the previous call at which times count as stable."""

BLOCKS = 3
"""Number of blocks of calls in a round. The figure of the round is the median of the blocks."""

MIN_BLOCK_S = 0.005
"""Minimum duration of a block, in seconds. The clock is read before and after it, at a negligible
cost.
"""

MAX_EVENTS = 200
"""Maximum number of calls of a round that CUDA events are put around."""


@dataclass(frozen=True)
class WarmUp:
    first_call_s: float
    took_s: float
    calls: int
    last_s: float
    is_unstable: bool


def warmed_up(first_s: float, call: Call, is_gpu: bool) -> WarmUp:
    """Call until nothing is compiled any more and the times are stable. ``first_s`` is the time of
    the first call, which was made already.
    """
    took_s, running_s, compiles = [first_s], 0.0, 1
    while True:
        before = _compiled()
        took_s.append(timed(call, is_gpu)[1])
        has_compiled = _compiled() != before
        compiles = compiles + 1 if has_compiled else 0
        running_s += 0.0 if has_compiled else took_s[-1]
        is_stable = not has_compiled and took_s[-1] <= STABLE * took_s[-2]
        is_enough = (
            len(took_s) >= MAX_CALLS or compiles >= MAX_COMPILES or running_s > MAX_WARM_UP_S
        )
        if (is_stable and len(took_s) >= MIN_CALLS) or is_enough:
            return WarmUp(took_s[0], sum(took_s), len(took_s), took_s[-1], has_compiled)


def round_of_calls(call: Call, round_s: float, last_s: float, is_gpu: bool) -> tuple[float, int]:
    """Return the seconds per call, and the number of calls they were measured on. ``last_s`` is how
    long a call took.
    """
    if is_gpu:
        return _round_by_events(call, round_s, last_s)
    calls = max(1, int(max(round_s / BLOCKS, MIN_BLOCK_S) / max(last_s, 1e-7)))
    blocks = BLOCKS if last_s < round_s else 1
    # Threads are those of the process: the timer would take one.
    timer = Timer("call()", globals={"call": call}, num_threads=torch.get_num_threads())
    return median(timer.timeit(calls).mean for _ in range(blocks)), calls * blocks


def _round_by_events(call: Call, round_s: float, last_s: float) -> tuple[float, int]:
    l2_bytes = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    flush = torch.zeros(flush_bytes(l2_bytes) // 4, device="cuda")
    calls = max(BLOCKS, min(MAX_EVENTS, int(round_s / max(last_s, 1e-7))))
    return median(by_events(call, lambda: flush.sum(), calls)), calls


def clock_of(is_gpu: bool) -> BenchClock:
    return "events" if is_gpu else "wall"


def peak_bytes(call: Call, is_gpu: bool) -> int:
    """Return the peak of a call's allocations in bytes, in addition to those before it."""
    if is_gpu:
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    # Kineto notes each allocation (positive) and release (negative) of torch's CPU allocator.
    events = [
        event for event in seen.profiler.kineto_results.events() if event.name() == "[memory]"
    ]
    most = held = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        most = max(most, held)
    return most


def timed(call: Call, is_gpu: bool) -> tuple[object, float]:
    """Make one call. Return its output and the seconds it took."""
    began = time.perf_counter()
    output = call()
    if is_gpu:
        torch.cuda.synchronize()
    return output, time.perf_counter() - began


def _compiled() -> int:
    """Return how often torch has compiled a frame, or tried to."""
    return int(counters["frames"]["total"])


# How long the processors take to share an operation.


PIECE = 20_000
"""Elements per thread: so few that sharing the work takes about as long as the additions."""

SHARED_ADDITIONS = 200


def sharing_s() -> float:
    """Return the seconds of an addition that all of torch's threads share, median of
    ``SHARED_ADDITIONS``; 0 with one thread. Takes some milliseconds.

    Every parallel operation waits until its threads have heard of it, and until the last of them is
    done. On a virtual machine that may take half as long again for seconds or a minute, as its host
    moves the processors, and work on one thread does not show it. Measured on two virtual
    processors within one minute: an addition on two threads took 5.2 µs and then 7.4 µs, a compiled
    ViT 484 µs and 630 µs in the same seconds, while a loop of Python's, a matrix product and the
    ViT on one thread took the same to 2 %.
    """
    threads = torch.get_num_threads()
    if threads < 2:
        return 0.0
    values = torch.ones(PIECE * threads, dtype=torch.float32, device="cpu")
    sums, took_s = torch.empty_like(values), []
    with torch.no_grad():
        for _ in range(SHARED_ADDITIONS):
            began = time.perf_counter()
            torch.add(values, 1.0, out=sums)
            took_s.append(time.perf_counter() - began)
    return median(took_s)


# What a call in eager mode holds, by line.


Place = tuple[str, int]

ENGINE = "_engine_run_backward"
"""The function that starts a backward (torch/autograd/graph.py)."""


def held_by_line(call: Callable[[], object]) -> list[HeldLine]:
    """Make a call, and return the bytes that it holds at its peak, by the line that computed them,
    biggest first. Storages from before the call do not count.

    A dispatch mode sees every tensor that an operator returns, and after each operator which of
    them are still there. What an operator takes while it works is not seen. A backward has its
    forward's line, which autograd's sequence numbers tell.
    """
    seen = _Tensors()
    with seen:
        returned = call()
    del returned
    return [
        HeldLine(file, line, size_bytes) for (file, line), size_bytes in seen.at_most.most_common()
    ]


class _Tensors(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.at_most: Counter[Place] = Counter()
        """Line → bytes, at the moment of the peak."""
        self._most = 0
        self._there: dict[int, StorageWeakRef] = {}
        """Storages that existed before the call."""
        self._made: dict[int, tuple[StorageWeakRef, Place, int]] = {}
        self._of_node: dict[int, Place] = {}
        """Sequence number of an autograd node → the line of its forward."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        for storage in _storages((args, kwargs)):
            if not self._is_known(storage):
                self._there[storage._cdata] = StorageWeakRef(storage)
        place = self._place()
        result = func(*args, **(kwargs or {}))
        self._drop()
        for storage in _storages(result):
            if not self._is_known(storage):
                self._made[storage._cdata] = StorageWeakRef(storage), place, storage.nbytes()
        self._add_up()
        return result

    def _is_known(self, storage: torch.UntypedStorage) -> bool:
        number = storage._cdata
        if number in self._there and self._there[number].expired():  # another one took its place
            del self._there[number]
        return number in self._there or number in self._made

    def _place(self) -> Place:
        node = _current_autograd_node()
        # In a backward, Python of the user's runs again for checkpoints, and in functions with a
        # backward of their own.
        place = users_line(3) if node is None else users_line(3, within=ENGINE)
        if node is not None and not place[1]:
            return self._of_node.get(node._sequence_nr(), ("", 0))
        # The node of this operator was made just now, before anything below autograd. One without a
        # node comes later.
        self._of_node.setdefault(_get_sequence_nr() - 1, place)
        return place

    def _drop(self) -> None:
        for number in [
            number for number, (reference, _, _) in self._made.items() if reference.expired()
        ]:
            del self._made[number]

    def _add_up(self) -> None:
        held = sum(size_bytes for _, _, size_bytes in self._made.values())
        if held > self._most:
            self._most, self.at_most = held, Counter()
            for _, place, size_bytes in self._made.values():
                self.at_most[place] += size_bytes


def _storages(value: object) -> Iterator[torch.UntypedStorage]:
    for leaf in tree_leaves(value):
        if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided:
            yield leaf.untyped_storage()


WARM_UP_CALLS, DEVICE_CALLS = 5, 30

_PART = "fx-explorer part "


@dataclass
class WrapperWork:
    """The work of one part of a wrapper in one call, added up over all its passes."""

    moved_bytes: int = 0
    flops: int = NOT_KNOWN


def work_of_parts(clock: WrapperClock, call: Call) -> dict[int, WrapperWork]:
    """Return part → its work, measured in one call."""
    by_part: dict[int, WrapperWork] = {}

    def seen(part: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        work = by_part.setdefault(part, WrapperWork())
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if _is_generated(function):  # a generated kernel: nothing that could be counted
            result = function(*args, **kwargs)
        else:
            with FlopCounterMode(display=False, custom_mapping=formulas()) as counter:
                result = function(*args, **kwargs)
            flops = counter.get_total_flops()
            if flops:
                work.flops = max(work.flops, 0) + flops
        made = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        work.moved_bytes += _bytes([*given, *made])
        return result

    with clock.seeing(seen):
        call()
    return by_part


def _is_generated(function: object) -> bool:
    name = getattr(function, "__name__", "")
    return (
        hasattr(function, "autotune_to_one_config")
        or name in ("kernel", "kernel_call")
        or "cpp_fused" in name
    )


def _bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Return the bytes of tensors, each place in memory counted once."""
    places = {
        (tensor.data_ptr(), tensor.shape): tensor.numel() * tensor.element_size()
        for tensor in tensors
    }
    return sum(places.values())


@dataclass(frozen=True, slots=True)
class DeviceTimes:
    """Seconds of a call on the GPU."""

    of_parts: dict[int, float]
    busy_s: float


def device_times(clock: WrapperClock, call: Call) -> DeviceTimes:
    """Return how long the GPU computes for each part, and in all, by torch's profiler."""

    def seen(part: int, function: Callable[..., Any], *args: Any, **kwargs: Any) -> object:
        with record_function(f"{_PART}{part}"):
            return function(*args, **kwargs)

    with clock.seeing(seen):
        for _ in range(WARM_UP_CALLS):
            call()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
            for _ in range(DEVICE_CALLS):
                call()
            torch.cuda.synchronize()
    parts: dict[str, list[float]] = {}
    kernels: dict[str, list[float]] = {}
    for event in profiled.events():
        is_part = event.name.startswith(_PART)
        if event.device_type == torch.autograd.DeviceType.CUDA:
            if not is_part:
                kernels.setdefault(event.name, []).append(event.time_range.elapsed_us() / 1e6)
        elif is_part:
            parts.setdefault(event.name, []).append(event.device_time_total / 1e6)
    of_parts = {
        int(name.removeprefix(_PART)): _of_a_call(times_s) for name, times_s in parts.items()
    }
    return DeviceTimes(of_parts, sum(map(_of_a_call, kernels.values())))


def _of_a_call(times_s: list[float]) -> float:
    """Return the median seconds of a call, because the first of many run at a lower clock rate."""
    return median(times_s) * len(times_s) / DEVICE_CALLS


CALLS, LEAST_CALLS, MAX_S = 40, 3, 10.0
"""Maximum and minimum number of calls, and the maximum time in seconds: fewer calls are made where
they take longer.
"""

Tick = tuple[float, str, int]
"""Seconds, kind, and position of the part."""


def kernel_seconds(call: Call, is_gpu: bool, call_s: float) -> float:
    """Return the seconds of a call in kernels and library calls; on a GPU, those in which it
    computes. -1 where the compiled program has no generated wrappers, or calls take too long for
    enough of them. ``call_s`` is the time of one call.
    """
    ticks: list[Tick] = []
    clock = WrapperClock(ticks.append)
    if not any(part.kind == "call" for part in clock.parts):
        return float(NOT_KNOWN)
    calls = min(CALLS, int(MAX_S / max(call_s, 1e-7)))
    if calls < LEAST_CALLS or (is_gpu and calls < CALLS):
        return float(NOT_KNOWN)
    if is_gpu:
        return device_times(clock, call).busy_s
    times_s = []
    with clock.on():
        for _ in range(calls):
            ticks.clear()
            call()
            times_s.append(_in_calls(ticks, clock))
    return median(times_s) if any(times_s) else float(NOT_KNOWN)


def _in_calls(ticks: list[Tick], clock: WrapperClock) -> float:
    """Return the seconds that a wrapper spends in the calls it makes: each lasts from its tick to
    the next tick.
    """
    # A wrapper that another one calls begins right behind the call: what it does is its own.
    times_s = []
    for (earlier, kind, part), (later, following, _) in pairwise(ticks):
        is_call = kind == PART and clock.parts[part].kind == "call"
        if is_call and following != WRAPPER:
            times_s.append(later - earlier)
    return sum(times_s)
