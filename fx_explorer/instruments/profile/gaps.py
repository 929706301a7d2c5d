"""Times in which the GPU does nothing, and what the program does meanwhile: the thread that
launches what comes after.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fx_explorer.instruments.profile.event_names import COMPILING, OPTIMIZER, is_region, region_of
from fx_explorer.instruments.profile.graph_calls import US, LaunchFinder
from fx_explorer.readers.kineto_trace import NONE, CpuThread, Trace

SHORTEST_US = 1.0
"""Microseconds. Less lies between any two kernels that follow each other."""

MOST_GAPS = 100
"""The longest are told one by one, the others in their sum."""

MOST_DOINGS = 6
MOST_STEPS = 20_000
"""Events that are gone through for one gap; a gap with more of them says so."""

PYTHON = "Python, or what the profile does not record"
LATENCY = "it was launched already: the GPU had not begun it"
CUT = "more, which was not gone through"


@dataclass(frozen=True, slots=True)
class Gap:
    """Time between two works of one GPU. Seconds, of which ``start_s`` counts from its first
    work.
    """

    start_s: float
    seconds: float
    before: int
    after: int
    """Indices of the trace's GPU work."""
    doing: tuple[tuple[str, float], ...]


@dataclass(frozen=True, slots=True)
class DeviceTime:
    """When one GPU computed."""

    device: int
    span_s: float
    busy_s: float
    gap_count: int
    longest: tuple[Gap, ...]


def device_time(trace: Trace) -> DeviceTime | None:
    """Return when the GPU that works the longest computes; None where nothing ran on one."""
    gpu = trace.gpu
    totals: Counter[int] = Counter()
    for device, duration in zip(gpu.device, gpu.durations, strict=True):
        totals[device] += duration  # type: ignore[assignment]  # Counter adds floats as well
    if not totals:
        return None
    device = max(totals, key=lambda one: (totals[one], -one))
    order = sorted(
        (at for at in range(len(gpu)) if gpu.device[at] == device), key=lambda at: gpu.starts[at]
    )
    begin, end, last = gpu.starts[order[0]], gpu.starts[order[0]], order[0]
    busy, found = 0.0, []
    for at in order:
        start, stop = gpu.starts[at], gpu.starts[at] + gpu.durations[at]
        if start > end:
            if start - end >= SHORTEST_US:
                found.append((start - end, end, last, at))
            busy += stop - start
        else:
            busy += max(0.0, stop - end)
        if stop >= end:
            end, last = stop, at
    found.sort(key=lambda gap: (-gap[0], gap[1]))
    launches = LaunchFinder(trace)
    longest = [
        Gap(
            (start - begin) * US,
            took * US,
            before,
            after,
            _doing(trace, launches, after, start, start + took),
        )
        for took, start, before, after in found[:MOST_GAPS]
    ]
    return DeviceTime(device, (end - begin) * US, busy * US, len(found), tuple(longest))


def _doing(
    trace: Trace, launches: LaunchFinder, after: int, start: float, end: float
) -> tuple[tuple[str, float], ...]:
    """Return what was done from ``start`` to ``end``, with the seconds of each, the longest
    first.
    """
    thread, _ = launches.of(after)
    if thread == NONE:
        return ()
    launched = launches.time_of(after)
    took: Counter[str] = Counter()
    if launched < end:
        since = max(start, launched)
        took[LATENCY] += (end - since) * US  # type: ignore[assignment]
        end = since
    if end > start:
        for name, seconds in _own_times(trace, trace.threads[thread], start, end):
            took[name] += seconds  # type: ignore[assignment]
    return tuple(took.most_common(MOST_DOINGS))


def _own_times(
    trace: Trace, events: CpuThread, start: float, end: float
) -> list[tuple[str, float]]:
    """Return the time of each event itself, without those in it, between two moments."""
    first = events.at(start)
    inside = range(bisect_right(events.starts, start), bisect_left(events.starts, end))
    marks = [start, end]
    told = []
    for at in inside[:MOST_STEPS]:
        marks += [events.starts[at], *([events.ends[at]] if events.ends[at] < end else [])]
    for one in events.outwards(first):
        marks += [events.ends[one]] if start < events.ends[one] < end else []
    marks = sorted(set(marks))
    for since, until in pairwise(marks):
        around = [*events.outwards(events.at((since + until) / 2))]
        told.append(
            (_in_words([trace.name(events.names[one]) for one in around]), (until - since) * US)
        )
    return told if len(inside) <= MOST_STEPS else [*told[:MOST_STEPS], (CUT, 0.0)]


def _in_words(names: Sequence[str]) -> str:
    """Return what the program does where these events are around, the innermost first."""
    region = region_of(names)
    if any(name in COMPILING for name in names):
        return f"torch compiles, called from [{region}]" if region else "torch compiles"
    if not names:
        return PYTHON
    if "TorchDynamo Cache Lookup" in names:
        return "guards: which compiled version fits is looked up"
    if is_region(names[0]):
        function = f"the compiled function [{region}]" if region else "a compiled function"
        return f"Python in {function}, between its graphs"
    optimizer = next(
        (name.removeprefix(OPTIMIZER) for name in names if name.startswith(OPTIMIZER)), ""
    )
    if optimizer:
        return f"optimizer {optimizer}" + (f": {names[0]}" if "::" in names[0] else "")
    if "Call CompiledFxGraph" in names[0]:
        return "generated code between its kernels"
    if names[0] in (
        "Pregraph bytecode",
        "AOTDispatcher Runtime Wrapper Prologue",
        "CompiledFunction",
    ):
        return "around a compiled graph: bytecode, AOTAutograd"
    return names[0]
