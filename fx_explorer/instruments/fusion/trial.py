"""This module has two kernels fused, or one taken apart, against Inductor's own choice: the program
is captured once more, its graph is compiled a second time as asked, and both are held side by side.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from functools import partial

from fx_explorer import model
from fx_explorer.analysis.lineage import kernels_of_variant
from fx_explorer.analysis.measured_times import measured
from fx_explorer.analysis.worker_steps import describe_step
from fx_explorer.client.capture import Capture
from fx_explorer.instruments.fusion.asked import GATE, AskedFusion, changes_for
from fx_explorer.instruments.fusion.tried_fusions import are_same_reason, why_still_apart
from fx_explorer.model import (
    CaptureRequest,
    Changes,
    Command,
    FusionChange,
    Notice,
    Outcome,
)
from fx_explorer.session import SessionReader
from fx_explorer.trials import HERE, Told, TrialWorker, ignore_message, recapture, straight_through


@dataclass(frozen=True, slots=True)
class TrialSide:
    """The graph's code on one side."""

    kernels: tuple[str, ...]
    """Names of the kernels that run in the direction, in the order of their first call."""
    moved_bytes: int
    """Bytes that they read and write, by Inductor's estimate; -1 where it has none."""
    call_s: float = math.nan
    """Median time of a call of the compiled graph; NaN where it was not measured."""
    spread_s: float = math.nan
    """Range of the middle half of those times."""


@dataclass(frozen=True, slots=True)
class FusionTrial:
    outcome: Outcome
    is_done: bool
    """Whether Inductor's code is as was asked."""
    refused: str
    """Why it is not; empty where it is."""
    before: TrialSide | None
    after: TrialSide | None
    not_measured: str
    """Why no times were measured, if that was asked for; empty otherwise."""
    took_s: float


async def try_fusion(
    request: CaptureRequest,
    asked: AskedFusion,
    worker: TrialWorker = HERE,
    *,
    measures: bool = False,
    tell: Told = ignore_message,
) -> FusionTrial:
    """Compile as asked, and compare. ``request`` is that of the session with the kernels. With
    ``measures`` both are built and timed. Raises SessionWriteError when there is no room for a
    session.
    """
    conversation = _Conversation(asked, tell, measures=measures)
    again = straight_through(request, stay=True)
    result = await recapture(
        again, worker, partial(_compare, conversation), attend=conversation.attend
    )
    is_done, refused, before, after = result.found
    if before is None and not result.outcome.went_well and result.outcome.message:
        refused = f"The program could not be captured again: {result.outcome.message}"
    return FusionTrial(
        result.outcome,
        is_done,
        conversation.refused or refused,
        before,
        after,
        conversation.not_measured,
        result.took_s,
    )


class _Conversation:
    """The worker's commands once the program has ended: compile again, then measure."""

    def __init__(self, asked: AskedFusion, tell: Told, *, measures: bool) -> None:
        self.asked = asked
        self.changes: tuple[FusionChange, ...] = ()
        """What is asked, by names of buffers; empty until the kernels are found."""
        self.refused = ""
        """Why nothing was compiled a second time; empty where it was."""
        self.not_measured = ""
        self._tell = tell
        self._measures = measures

    async def attend(self, capture: Capture) -> Outcome:
        notices = capture.notices()
        if await self._comes_to_its_end(notices):
            await self._compile(capture, notices)
        return await capture.cancel()

    async def _comes_to_its_end(self, notices: AsyncIterator[Notice]) -> bool:
        """Wait until the program has ended and its worker waits; return whether that happened."""
        async for notice in notices:
            self._tell_step(notice)
            if notice.kind == "gate" and notice.state == "begin" and notice.gate is None:
                return True
        return False

    async def _compile(self, capture: Capture, notices: AsyncIterator[Notice]) -> None:
        with SessionReader(capture.session_path) as reader:
            self.changes = changes_for(reader, self.asked)
        if not self.changes:
            self.refused = _NO_PLACE if self.asked.kind == "together" else _OTHER_PROGRAM
            return
        compilation = self.asked.first.compilation
        again = Command(
            "again",
            gate=GATE,
            compilation=compilation,
            direction=self.asked.first.direction,
            changes=Changes(fusions=self.changes),
        )
        self.refused = await self._say(again, capture, notices)
        if self.refused or not self._measures:
            return
        with SessionReader(capture.session_path) as reader:
            variant = reader.rows(model.Compilation)[-1].name
        for name in (compilation, variant):
            if not self.not_measured:
                measure = Command("measure", compilation=name)
                self.not_measured = await self._say(measure, capture, notices)

    async def _say(self, command: Command, capture: Capture, notices: AsyncIterator[Notice]) -> str:
        """Send a command, and return why it was refused; empty where it was carried out."""
        capture.send(command)
        async for notice in notices:
            self._tell_step(notice)
            if notice.kind == "refused":
                return notice.text
            if notice.kind == "done":
                return ""
        return "the worker ended meanwhile"

    def _tell_step(self, notice: Notice) -> None:
        step = describe_step(notice)
        if step:
            self._tell(step)


_OTHER_PROGRAM = (
    "The program has no such kernel this time: capture it again, and give the name it has now."
)

_NO_PLACE = (
    "They access no memory in common, so one kernel would save nothing; or the program has other "
    "kernels this time."
)


def _compare(
    conversation: _Conversation, reader: SessionReader
) -> tuple[bool, str, TrialSide | None, TrialSide | None]:
    asked = conversation.asked
    rows = {row.name: row for row in reader.rows(model.Compilation)}
    original = rows.get(asked.first.compilation)
    variants = [row for row in rows.values() if row.variant_of]
    if original is None or not variants:
        return False, "Nothing was compiled a second time.", None, None
    variant = variants[-1]
    refused = why_not_as_asked(reader, original, variant, asked, conversation.changes)
    if variant.status != "ok":
        return False, refused, None, None
    direction = asked.first.direction
    before = _side(reader, original, direction)
    after = _side(reader, variant, direction)
    return not refused, refused, before, after


def why_not_as_asked(
    reader: SessionReader,
    original: model.Compilation,
    variant: model.Compilation,
    asked: AskedFusion,
    changes: Sequence[FusionChange],
) -> str:
    """Return why the code of the variant is not as was asked; empty where it is."""
    if variant.status != "ok":
        return f"Compiling it again failed: {variant.error}"
    if asked.kind == "together":
        refused = why_still_apart(reader, variant, changes)
        as_before = why_still_apart(reader, original, changes)
        # The original's kernels are on screen, with their numbers.
        return as_before if are_same_reason(refused, as_before) else refused
    direction = asked.first.direction
    before, after = _side(reader, original, direction), _side(reader, variant, direction)
    return "" if len(after.kernels) > len(before.kernels) else _NOTHING_APART


def has_same_kernels(
    reader: SessionReader,
    original: model.Compilation,
    variant: model.Compilation,
    direction: model.Direction,
) -> bool:
    """Return whether a variant has the kernels of the original, so that there is nothing to
    compare.
    """
    before, after = _side(reader, original, direction), _side(reader, variant, direction)
    return variant.status != "ok" or before.kernels == after.kernels


_NOTHING_APART = (
    "It has as many kernels as before. What a kernel computes on the way to a result of its own "
    "(an operation that Inductor inlined) cannot be told apart; and C++ writes loops that are not "
    "fused into one function."
)


def _side(
    reader: SessionReader, variant: model.Compilation, direction: model.Direction
) -> TrialSide:
    kernels = kernels_of_variant(reader, variant)
    kernels = [kernel for kernel in kernels if kernel.direction == direction]
    moved = [kernel.estimated_bytes for kernel in kernels]
    times = measured(reader, variant)
    row = times.get("forward+backward" if direction == "backward" else "forward")
    return TrialSide(
        tuple(kernel.name for kernel in kernels),
        sum(moved) if min(moved, default=-1) >= 0 else -1,
        row.median_s if row else math.nan,
        row.iqr_s if row else math.nan,
    )
