"""How long one call takes, and how much memory it has allocated at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch
from torch._dynamo.utils import counters
from torch.utils.benchmark import Timer

from fx_explorer.instruments.kernels.measure.kernel_timing import by_events, flush_bytes
from fx_explorer.model import BenchClock

Call = Callable[[], object]

MIN_CALLS, MAX_CALLS, MAX_WARM_UP_S = 3, 12, 20.0
"""A warm-up has at least and at most so many calls, and no further one after so many seconds of
calls that compiled nothing.
"""

MAX_COMPILES = 5
"""Calls in a row that compile, after which it is taken to compile at every call."""

STABLE = 1.2
"""Times are stable when a call takes at most so many times what the one before took."""

BLOCKS = 3
"""Blocks of calls in a round, whose figure is the median of them."""

MIN_BLOCK_S = 0.005
"""Least seconds of a block: the clock is read around it, and what that costs is lost in it."""

MAX_EVENTS = 200
"""Most calls of a round that CUDA events are put around."""


@dataclass(frozen=True)
class WarmUp:
    first_call_s: float
    took_s: float
    calls: int
    last_s: float
    is_unstable: bool


def warmed_up(first_s: float, call: Call, is_gpu: bool) -> WarmUp:
    """Call until nothing is compiled any more and the times are stable. ``first_s`` is how long the
    first of these calls took, which was made already.
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
    """Return seconds per call, and how many calls they are of. ``last_s`` is how long a call took."""
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
    """Return the most bytes that a call has allocated at once, beyond those that were there before."""
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
    """Make one call. Return what it gave, and how many seconds it took."""
    began = time.perf_counter()
    output = call()
    if is_gpu:
        torch.cuda.synchronize()
    return output, time.perf_counter() - began


def _compiled() -> int:
    """Return how often torch has compiled a frame, or tried to."""
    return int(counters["frames"]["total"])
