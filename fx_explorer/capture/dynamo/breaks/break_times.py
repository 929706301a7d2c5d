"""This module computes how long a call of a compiled program spends at each graph break, from the
ticks that its compiled frames and graphs left behind. Pure.

Dynamo ends the code of a frame with a call of its rest, the resume function. So a cut is open from
the moment the graph before it is left (where there is none, from the moment the frame is entered)
until the graph of the rest is entered (where it has none, until it comes to a cut of its own, or is
left). What runs meanwhile outside of graphs, guards included, is time at the cut; if a function is
called there that has cuts itself, what passes in these is theirs. A rest that is not compiled is
nobody's: it is time in Python as it would be without torch.compile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

TickKind = Literal["enter", "begin", "end", "resume", "leave", "raise"]
"""A compiled frame is entered, its graph begins and ends, its rest is about to be called, it is
left, or an exception leaves it.
"""


@dataclass(frozen=True, slots=True)
class TimedFrame:
    """The compiled code of one frame."""

    compilation: str
    is_resume: bool
    """Whether it is the rest of another frame."""
    is_cut: bool
    """Whether a graph break ends it."""
    has_graph: bool


@dataclass(frozen=True, slots=True)
class Tick:
    time_s: float
    kind: TickKind
    frame: int
    """Position of the TimedFrame."""


@dataclass
class CallSeconds:
    """Seconds of one call."""

    graphs_s: float = 0.0
    at_cuts_s: dict[int, float] = field(default_factory=dict)
    """Seconds at each cut, by the frame that is cut."""


@dataclass
class _Running:
    frame: int
    is_open: bool = False
    is_resuming: bool = False
    """Whether its rest is being called; open again when that turns out to be compiled."""


def spent(ticks: Iterable[Tick], frames: Sequence[TimedFrame]) -> CallSeconds:
    seconds = CallSeconds()
    running: list[_Running] = []
    in_graph, last_s = False, 0.0
    for tick in ticks:
        passed_s, last_s = tick.time_s - last_s, tick.time_s
        _hear_of_rest(tick, frames[tick.frame], running)
        if in_graph:
            seconds.graphs_s += passed_s
        elif owner := _owner(running):
            seconds.at_cuts_s[owner.frame] = seconds.at_cuts_s.get(owner.frame, 0.0) + passed_s
        in_graph = tick.kind == "begin"
        _follow(tick, frames[tick.frame], running)
    return seconds


def _owner(running: Sequence[_Running]) -> _Running | None:
    """Return the innermost frame with an open cut; None also when a rest that is not compiled runs
    inside it.
    """
    last = next((one for one in reversed(running) if one.is_open or one.is_resuming), None)
    return last if last and last.is_open else None


def _hear_of_rest(tick: Tick, frame: TimedFrame, running: Sequence[_Running]) -> None:
    """Note whether the rest that a frame has called is compiled: it is when its frame is entered
    right after.
    """
    if running and running[-1].is_resuming and tick.kind == "enter" and frame.is_resume:
        running[-1].is_resuming, running[-1].is_open = False, True


def _follow(tick: Tick, frame: TimedFrame, running: list[_Running]) -> None:
    """Bring ``running`` up to date with a tick: which frames run, which of them has an open cut,
    and which waits for its rest.
    """
    if tick.kind == "enter":
        running.append(_Running(tick.frame))
        if frame.is_cut and not frame.has_graph:
            _go_on(frame, running)
            running[-1].is_open = True
        return
    _unwind(tick, running)
    if not running:
        return
    if tick.kind == "end":
        running[-1].is_open = frame.is_cut
    elif tick.kind == "resume":
        running[-1].is_open, running[-1].is_resuming = False, True
    else:
        _go_on(frame, running)
    if tick.kind in ("leave", "raise"):
        running.pop()


def _go_on(frame: TimedFrame, running: list[_Running]) -> None:
    """Close the cut before a rest, because the rest has come as far as it was waited for."""
    if frame.is_resume and len(running) > 1:
        running[-2].is_open = False


def _unwind(tick: Tick, running: list[_Running]) -> None:
    """Take away the frames that an exception ended and that left no tick, as before Python 3.11."""
    while running and running[-1].frame != tick.frame:
        running.pop()
