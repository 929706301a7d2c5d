"""From the ticks of one call to its steps. Pure.

Ticks come from three clocks: of the call (``MARKS``), in Dynamo's bytecode and around graphs
(capture/dynamo/breaks/frame_clock.py), and in generated wrappers
(capture/inductor/wrapper_clock.py). A step is what passes between two ticks that follow each other;
so the steps of a call add up to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Protocol

from fx_explorer.model import LedgerKind

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
    """The compiled code of one frame."""

    @property
    def compilation(self) -> str: ...
    @property
    def is_cut(self) -> bool: ...
    @property
    def has_graph(self) -> bool: ...


class WrapperStatements(Protocol):
    """Some statements of a generated wrapper."""

    @property
    def kind(self) -> str: ...


@dataclass(frozen=True, slots=True)
class CallStep:
    """What passes between two ticks."""

    kind: LedgerKind
    frame: int = -1
    """The compiled frame that it belongs to; -1: none."""
    part: int = -1
    """The part of a wrapper; -1: none."""
    is_backward: bool = False
    has_lookup: bool = False
    """Whether compiled code is looked up in it: the guards are evaluated."""


@dataclass
class _Now:
    """What is running at a tick."""

    mark: str = ""
    frames: list[int] = field(default_factory=list)
    wrappers: list[int] = field(default_factory=list)
    """The part that each wrapper on the stack is at."""
    around: list[int] = field(default_factory=list)
    """How many wrappers were on the stack when each graph began: those that an exception ends leave
    no tick.
    """
    resumed: set[int] = field(default_factory=set)
    """The frames that have called their rest: their break is over."""
    in_graph: bool = False


def steps(
    ticks: Sequence[RawTick], frames: Sequence[FrameCode], parts: Sequence[WrapperStatements]
) -> list[CallStep]:
    """Return the step behind each tick but the last, which ends the call."""
    now, found = _Now(), []
    for (_, kind, number), (_, following, _) in pairwise(ticks):
        _advance(now, kind, number, frames)
        found.append(_step(now, kind, following, frames, parts))
    if any(step.part >= 0 for step in found if step.is_backward):
        return found
    return list(map(_uncompiled_backward, found))


def _uncompiled_backward(step: CallStep) -> CallStep:
    """Return the step of a call whose backward runs no generated code: it is work, and not around
    some.
    """
    return replace(step, kind="graph") if step.kind == "autograd" else step


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
    """Return whether the innermost frame cannot be running any more when another one is entered:
    outside of its graph, only a frame that a graph break cuts calls others. An exception ended it,
    without a tick (before Python 3.11).
    """
    return bool(now.frames) and not now.in_graph and not frames[now.frames[-1]].is_cut


def _step(
    now: _Now,
    kind: str,
    following: str,
    frames: Sequence[FrameCode],
    parts: Sequence[WrapperStatements],
) -> CallStep:
    frame, backward = now.frames[-1] if now.frames else -1, now.mark == BACKWARD
    looks_up = following == "enter"
    if kind in ("wrapper", "part", "wrapper_end") and now.wrappers:
        part = now.wrappers[-1]
        # Into the wrapper of a branch (torch.cond), and back from it: the branch's own steps are
        # its work.
        is_around_another = kind == "wrapper_end" or (kind == "part" and following == "wrapper")
        return CallStep(
            "wrapper" if is_around_another else _of_part(parts[part]), frame, part, backward
        )
    if now.in_graph:
        return CallStep(
            "graph" if following == "end" and kind == "begin" else "wrapper", frame, -1, backward
        )
    if kind == "end" and (following in MARKS or (looks_up and _was_left(now, frames))):
        return CallStep("python", -1, -1, backward, looks_up)  # an exception has ended the frame
    if frame >= 0:
        return CallStep(
            _in_frame(kind, frames[frame], frame in now.resumed, looks_up),
            frame,
            -1,
            backward,
            looks_up,
        )
    if now.mark in _OF_MARK:
        return CallStep(_OF_MARK[now.mark], is_backward=backward, has_lookup=looks_up)
    if backward:
        return CallStep("autograd", is_backward=True, has_lookup=looks_up)
    # Before the first compiled frame and behind the last one; between two of them the program runs.
    is_edge = kind in MARKS or following in MARKS
    return CallStep(
        "entry" if is_edge and (looks_up or kind == "leave") else "python", has_lookup=looks_up
    )


def _of_part(part: WrapperStatements) -> LedgerKind:
    kinds: dict[str, LedgerKind] = {"call": "library", "checks": "checks"}
    return kinds.get(part.kind, "buffers")


def _in_frame(kind: str, frame: FrameCode, has_resumed: bool, looks_up: bool) -> LedgerKind:
    """Return what a frame does outside of its graph."""
    if kind == "resume":
        return "entry" if looks_up else "python"
    is_behind_graph = kind in ("end", "leave", "raise") or not frame.has_graph
    return "break" if frame.is_cut and is_behind_graph and not has_resumed else "bytecode"


def signature(ticks: Sequence[RawTick]) -> tuple[tuple[str, int], ...]:
    """Return which path a call took: calls of the same path have the same steps."""
    return tuple((kind, number) for _, kind, number in ticks)
