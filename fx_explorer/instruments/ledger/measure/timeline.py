"""This module turns the ticks of calls into steps, gaps and averages. It has no side effects.

Ticks come from three clocks: of the call (``MARKS``), in Dynamo's bytecode and around graphs
(capture/dynamo/frame_clock.py), and in generated wrappers (capture/inductor/wrapper_clock.py). A
step is the time between two consecutive ticks, so the steps of a call add up to it.

A gap is a time between two kernels in which the GPU does nothing, with what the host does
meanwhile. The gaps are those of calls that a profiler looks at, which makes kernels start later:
they are longer than in other calls, and say where and why the GPU waits rather than how much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol

from fx_explorer.model import LedgerKind
from fx_explorer.spread import interquartile_range

RawTick = tuple[float, str, int]
"""Seconds, kind, and the position of a frame or of a part of a wrapper."""

CLEAR, FORWARD, LOSS, BACKWARD, WAIT, RELEASE, OVER = (
    "clear",
    "forward",
    "loss",
    "backward",
    "wait",
    "release",
    "over",
)
MARKS = (CLEAR, FORWARD, LOSS, BACKWARD, WAIT, RELEASE, OVER)
"""The parts of a call, in order; ``OVER`` ends it."""

_OF_MARK: dict[str, LedgerKind] = {
    CLEAR: "gradients",
    LOSS: "loss",
    WAIT: "wait",
    RELEASE: "buffers",
}


class FrameCode(Protocol):
    """Facts about a frame of the timeline: its compilation, whether a graph break ends it, and so
    on.
    """

    @property
    def compilation(self) -> str: ...
    @property
    def is_cut(self) -> bool: ...
    @property
    def has_graph(self) -> bool: ...


class WrapperStatements(Protocol):
    """Statements of a generated wrapper that belong to one step."""

    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, slots=True)
class CallStep:
    """The step of a call between two ticks of the clock."""

    kind: LedgerKind
    frame: int = -1
    """The number of its compiled frame; -1 without one."""
    part: int = -1
    """The number of its part of a wrapper; -1 without one."""
    is_backward: bool = False
    has_lookup: bool = False
    """Whether the step looks up compiled code, which evaluates the guards."""


@dataclass
class _Now:
    """The frames and wrappers that are running at a tick."""

    mark: str = ""
    frames: list[int] = field(default_factory=list)
    wrappers: list[int] = field(default_factory=list)
    """The current part of each wrapper on the stack."""
    around: list[int] = field(default_factory=list)
    """How many wrappers were on the stack when each graph began. Wrappers that an exception ends
    leave no tick.
    """
    resumed: set[int] = field(default_factory=set)
    """The frames that have called their rest, so that their break is over."""
    in_graph: bool = False


def steps(
    ticks: Sequence[RawTick], frames: Sequence[FrameCode], parts: Sequence[WrapperStatements]
) -> list[CallStep]:
    """Return the step behind each tick but the last, which ends the call."""
    now, of_call = _Now(), []
    for (_, kind, number), (_, following, _) in pairwise(ticks):
        _advance(now, kind, number, frames)
        of_call.append(_step(now, kind, following, frames, parts))
    if any(step.part >= 0 for step in of_call if step.is_backward):
        return of_call
    return list(map(_uncompiled_backward, of_call))


def _uncompiled_backward(step: CallStep) -> CallStep:
    """Return the step of a call whose backward runs no generated code: it is work, and not around
    some.
    """
    if step.kind == "autograd":
        return replace(step, kind="graph")
    return step


def _advance(now: _Now, kind: str, number: int, frames: Sequence[FrameCode]) -> None:
    """Bring ``now`` up to date with a tick."""
    if kind in MARKS:
        now.mark, now.frames, now.wrappers, now.around, now.in_graph = kind, [], [], [], False
    elif kind in ("enter", "leave", "raise", "begin", "end", "resume"):
        _follow_frames(now, kind, number, frames)
    elif kind == "wrapper":
        now.wrappers.append(number)
    elif kind == "wrapper_end":
        now.wrappers = now.wrappers[:-1]
    elif now.wrappers:
        now.wrappers[-1] = number


def _follow_frames(now: _Now, kind: str, number: int, frames: Sequence[FrameCode]) -> None:
    if kind == "enter":
        while _was_left(now, frames):
            now.frames.pop()
        now.frames.append(number)
        now.resumed.discard(number)
        return
    # Before Python 3.11 frames that an exception ends leave no tick.
    while now.frames and now.frames[-1] != number:
        now.frames.pop()
    now.in_graph = kind == "begin"
    if kind == "begin":
        now.around.append(len(now.wrappers))
    if kind == "end" and now.around:
        del now.wrappers[now.around.pop() :]
    if kind == "resume":
        now.resumed.add(number)
    if kind in ("leave", "raise") and now.frames:
        now.frames.pop()


def _was_left(now: _Now, frames: Sequence[FrameCode]) -> bool:
    """Return whether the innermost frame must have ended when another one is entered: outside of
    its graph, only a frame with a graph break calls others. An exception ended it without a tick
    (before Python 3.11).
    """
    return bool(now.frames) and not now.in_graph and not frames[now.frames[-1]].is_cut


def _step(
    now: _Now,
    kind: str,
    following: str,
    frames: Sequence[FrameCode],
    parts: Sequence[WrapperStatements],
) -> CallStep:
    frame = now.frames[-1] if now.frames else -1
    backward = now.mark == BACKWARD
    looks_up = following == "enter"
    if kind in ("wrapper", "part", "wrapper_end") and now.wrappers:
        part = now.wrappers[-1]
        # Into the wrapper of a branch (torch.cond), and back from it: the branch's own steps are
        # its work.
        if kind == "wrapper_end" or (kind == "part" and following == "wrapper"):
            return CallStep("wrapper", frame, part, backward)
        return CallStep(_of_part(parts[part]), frame, part, backward)
    if now.in_graph:
        if following == "end" and kind == "begin":
            return CallStep("graph", frame, -1, backward)
        return CallStep("wrapper", frame, -1, backward)
    if kind == "end" and (following in MARKS or (looks_up and _was_left(now, frames))):
        return CallStep("python", -1, -1, backward, looks_up)  # an exception has ended the frame
    if frame >= 0:
        in_frame = _in_frame(kind, frames[frame], frame in now.resumed, looks_up)
        return CallStep(in_frame, frame, -1, backward, looks_up)
    if now.mark in _OF_MARK:
        return CallStep(_OF_MARK[now.mark], is_backward=backward, has_lookup=looks_up)
    if backward:
        return CallStep("autograd", is_backward=True, has_lookup=looks_up)
    # Before the first compiled frame and behind the last one; between two of them the program runs.
    is_edge = kind in MARKS or following in MARKS
    if is_edge and (looks_up or kind == "leave"):
        return CallStep("entry", has_lookup=looks_up)
    return CallStep("python", has_lookup=looks_up)


def _of_part(part: WrapperStatements) -> LedgerKind:
    kinds: dict[str, LedgerKind] = {"call": "library", "checks": "checks"}
    return kinds.get(part.kind, "buffers")


def _in_frame(kind: str, frame: FrameCode, has_resumed: bool, looks_up: bool) -> LedgerKind:
    """Return the kind of step that a frame is at outside of its graph."""
    if kind == "resume":
        return "entry" if looks_up else "python"
    is_behind_graph = kind in ("end", "leave", "raise") or not frame.has_graph
    if frame.is_cut and is_behind_graph and not has_resumed:
        return "break"
    return "bytecode"


def signature(ticks: Sequence[RawTick]) -> tuple[tuple[str, int], ...]:
    """Return which path a call took: calls of the same path have the same steps."""
    return tuple((kind, number) for _, kind, number in ticks)


# Between which two kernels the GPU does nothing.


LEAST_S = 0.5e-6
"""Minimum number of seconds between the starts of two kernels that follow each other directly."""


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """Something that the GPU does, with seconds on the clock of the ticks."""

    name: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """A call with the ticks of the host, and the work of the GPU in it."""

    ticks: Sequence[RawTick]
    work: Sequence[DeviceWork]
    """The GPU's work, in the order in which it begins."""


@dataclass(frozen=True, slots=True)
class IdleGap:
    """Time in which the GPU is idle."""

    before: str
    """Name of the work before the gap; empty at the beginning of the call."""
    after: str
    """Name of the work after the gap; empty at the end of the call."""
    seconds: float
    of_steps: Mapping[int, float]
    """Step of the host, by its position among the intervals of the ticks → its seconds in the gap.
    """


def gaps(calls: Sequence[DeviceCall], usual: tuple[tuple[str, int], ...]) -> list[IdleGap]:
    """Return the gaps of the calls that took the path ``usual`` and ran the same on the GPU, in the
    order of the call.
    """
    alike = _alike([call for call in calls if call.work and signature(call.ticks) == usual])
    if not alike:
        return []
    means = map(_mean, zip(*map(_between, alike), strict=True))
    return [gap for gap in means if gap.seconds >= LEAST_S]


def _alike(calls: list[DeviceCall]) -> list[DeviceCall]:
    """Return the calls with the most frequent sequence of work on the GPU."""
    paths = Counter(map(_work_names, calls))
    usual = paths.most_common(1)[0][0] if paths else ()
    return [call for call in calls if _work_names(call) == usual]


def _work_names(call: DeviceCall) -> tuple[str, ...]:
    return tuple(work.name for work in call.work)


def _between(call: DeviceCall) -> Iterator[IdleGap]:
    """Yield the idle time before each piece of work and after the last one. Work that runs beside
    other work, on another stream, has a gap of length 0 before it.
    """
    last, until = "", call.ticks[0][0]
    for work in call.work:
        yield _gap(call.ticks, last, work.name, until, work.begin_s)
        if work.end_s > until:
            last, until = work.name, work.end_s
    yield _gap(call.ticks, last, "", until, call.ticks[-1][0])


def _gap(
    ticks: Sequence[RawTick], before: str, after: str, begin_s: float, end_s: float
) -> IdleGap:
    meanwhile = {}
    for at, ((earlier, _, _), (later, _, _)) in enumerate(pairwise(ticks)):
        within = min(later, end_s) - max(earlier, begin_s)
        if within > 0:
            meanwhile[at] = within
    return IdleGap(before, after, max(0.0, end_s - begin_s), meanwhile)


def _mean(of_calls: Sequence[IdleGap]) -> IdleGap:
    """Return the mean of the same gap in several calls."""
    steps = set[int]().union(*(gap.of_steps for gap in of_calls))
    of_steps = {}
    for at in sorted(steps):
        of_steps[at] = middle_mean([gap.of_steps.get(at, 0.0) for gap in of_calls])
    return IdleGap(
        of_calls[0].before,
        of_calls[0].after,
        middle_mean([gap.seconds for gap in of_calls]),
        of_steps,
    )


# From the ticks of many calls to the mean of each step. Pure.


@dataclass(frozen=True, slots=True)
class CallIntervals:
    """The intervals between the ticks of the calls that took the most frequent path."""

    ticks: Sequence[RawTick]
    """The ticks of one of these calls, as an example."""
    means_s: list[float]
    """Mean seconds of each interval, over those calls whose time is in the middle half of all
    calls.
    """
    iqrs_s: list[float]
    """Range of the middle half of each interval, over all these calls."""
    calls: int
    other_calls: int
    clock_s: float
    """Seconds that the clock cost in a call, which are in none of the intervals."""


LEAST_OF_COST, MOST_OF_COST = 0.5, 4.0
"""Bounds of a tick's cost in the program, as multiples of its cost in a loop of its own, where
everything is in the processor's caches.
"""


def account(
    calls: Sequence[Sequence[RawTick]], cost_s: Mapping[str, float], plain_s: float
) -> CallIntervals:
    """Average the calls. ``cost_s``: kind of tick → its cost in a loop of its own. ``plain_s``: the
    time of a call without a clock. The extra time of calls with a clock is distributed over the
    ticks, and subtracted half from the interval before each and half from the one after it.
    """
    paths = Counter(map(signature, calls))
    usual, _ = paths.most_common(1)[0]
    alike = [call for call in calls if signature(call) == usual]
    middle = _middle_half(alike)
    means = [sum(column) / len(column) for column in zip(*map(_intervals, middle), strict=True)]
    in_loop = [
        (cost_s.get(kind, 0.0) + cost_s.get(following, 0.0)) / 2
        for (kind, _), (following, _) in pairwise(usual)
    ]
    multiple = max(
        LEAST_OF_COST, min(MOST_OF_COST, (sum(means) - plain_s) / max(sum(in_loop), 1e-12))
    )
    without = [max(0.0, mean - multiple * cost) for mean, cost in zip(means, in_loop, strict=True)]
    spreads = [interquartile_range(column) for column in zip(*map(_intervals, alike), strict=True)]
    return CallIntervals(
        middle[0], without, spreads, len(alike), len(calls) - len(alike), sum(means) - sum(without)
    )


def _intervals(call: Sequence[RawTick]) -> list[float]:
    return [later - earlier for (earlier, _, _), (later, _, _) in pairwise(call)]


def _middle_half(calls: list[Sequence[RawTick]]) -> list[Sequence[RawTick]]:
    """Return the calls whose times are in the middle half, so that disturbed calls do not affect
    the mean.
    """
    ordered = sorted(calls, key=lambda call: call[-1][0] - call[0][0])
    quarter = len(ordered) // 4
    return ordered[quarter : len(ordered) - quarter]


def middle_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half. Unlike the median it adds up: the means of parts are the
    mean of the whole.
    """
    ordered = sorted(values)
    quarter = len(ordered) // 4
    middle = ordered[quarter : len(ordered) - quarter]
    return sum(middle) / len(middle)
