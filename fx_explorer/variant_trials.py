"""This module compiles a graph of a session's program a second time with changes, against the
compiler's own choice: the program is captured again in a separate worker, its graph is compiled
again as asked, and both are compared.

What is asked, and why the code is not as asked, is known to the instrument that asks: fusions, and
the other choices of a decision.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.analysis.lineage import kernels_of_variant
from fx_explorer.analysis.measured_times import measured, with_spread
from fx_explorer.analysis.words import size
from fx_explorer.analysis.worker_steps import describe_step
from fx_explorer.client.capture import Capture
from fx_explorer.model import CaptureRequest, Changes, Command, Notice, Outcome
from fx_explorer.session import SessionReader
from fx_explorer.trials import (
    HERE,
    Told,
    TrialWorker,
    ignore_message,
    keep_session,
    recapture,
    straight_through,
)


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
class AskedAgain:
    """What is compiled a second time."""

    compilation: str
    direction: model.Direction
    gate: model.Gate
    """The stage from which it is compiled again."""


WhyNot = Callable[[SessionReader, model.Compilation, model.Compilation, Changes], str]
"""Returns why the code of a variant, the second compilation given, is not as was asked; empty where
it is.
"""


@dataclass(frozen=True, slots=True)
class Asking:
    """How an instrument asks."""

    changes: Callable[[SessionReader], Changes]
    """Returns what is asked, by the names of the capture at hand; no changes where that cannot be
    asked of it.
    """
    nothing: str
    """Why nothing can be asked then."""
    why_not: WhyNot


@dataclass(frozen=True, slots=True)
class VariantTrial:
    """What a second compilation came to."""

    outcome: Outcome
    refused: str
    """Why the compiler's code is not as was asked; empty where it is."""
    before: TrialSide | None
    after: TrialSide | None
    not_measured: str
    """Why no times were measured, if that was asked for; empty otherwise."""
    took_s: float
    session: Path | None = None
    """The session with both, where it was to be kept."""
    original: str = ""
    variant: str = ""
    """Names of both compilations in it."""

    @property
    def is_done(self) -> bool:
        """Return whether the code is as was asked."""
        return not self.refused


async def compile_again(
    request: CaptureRequest,
    again: AskedAgain,
    asking: Asking,
    worker: TrialWorker = HERE,
    *,
    measures: bool = False,
    tell: Told = ignore_message,
    folder: Path | None = None,
) -> VariantTrial:
    """Compile as asked, and compare. ``request`` is that of the session that is asked about. With
    ``measures`` both are built and timed, and with ``folder`` the session is kept there. Raises
    SessionWriteError when there is no room for a session.
    """
    conversation = _Conversation(again, asking, tell, measures=measures)
    result = await recapture(
        straight_through(request, stay=True),
        worker,
        partial(_compare, conversation, folder),
        attend=conversation.attend,
    )
    found = result.found
    refused = found.refused
    if found.before is None and not result.outcome.went_well and result.outcome.message:
        refused = f"The program could not be captured again: {result.outcome.message}"
    return VariantTrial(
        result.outcome,
        conversation.refused or refused,
        found.before,
        found.after,
        conversation.not_measured,
        result.took_s,
        found.session,
        again.compilation,
        found.variant,
    )


class _Conversation:
    """The worker's commands once the program has ended: compile again, then measure."""

    def __init__(self, again: AskedAgain, asking: Asking, tell: Told, *, measures: bool) -> None:
        self.again = again
        self.asking = asking
        self.changes = Changes()
        """What is asked, by the names of this capture; empty until it has ended."""
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
            self.changes = self.asking.changes(reader)
        if not self.changes:
            self.refused = self.asking.nothing
            return
        compilation = self.again.compilation
        again = Command(
            "again",
            gate=self.again.gate,
            compilation=compilation,
            direction=direction_again(self.again.gate, self.again.direction),
            changes=self.changes,
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


def direction_again(gate: model.Gate, direction: model.Direction) -> model.Direction:
    """Return the direction that alone is lowered again; empty, which is all, from an earlier
    stage.
    """
    return "" if gate in ("dynamo", "pre_grad", "joint") else direction


class _Compared(NamedTuple):
    refused: str
    before: TrialSide | None = None
    after: TrialSide | None = None
    session: Path | None = None
    variant: str = ""


def _compare(conversation: _Conversation, folder: Path | None, reader: SessionReader) -> _Compared:
    again = conversation.again
    rows = {row.name: row for row in reader.rows(model.Compilation)}
    original = rows.get(again.compilation)
    variants = [row for row in rows.values() if row.variant_of]
    if original is None or not variants:
        return _Compared("Nothing was compiled a second time.")
    variant = variants[-1]
    if variant.status != "ok":
        return _Compared(f"Compiling it again failed: {variant.error}")
    kept = None
    if folder is not None:
        kept = keep_session(reader, Path(tempfile.mkdtemp(dir=folder)) / "again.fxs")
    return _Compared(
        conversation.asking.why_not(reader, original, variant, conversation.changes),
        side_of(reader, original, again.direction),
        side_of(reader, variant, again.direction),
        kept,
        variant.name,
    )


def side_of(
    reader: SessionReader, variant: model.Compilation, direction: model.Direction
) -> TrialSide:
    """Return the code of a variant in one direction, with its time where it was measured."""
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


def has_same_kernels(
    reader: SessionReader,
    original: model.Compilation,
    variant: model.Compilation,
    direction: model.Direction,
) -> bool:
    """Return whether a variant has the kernels of the original, so that there is nothing to
    compare.
    """
    before, after = side_of(reader, original, direction), side_of(reader, variant, direction)
    return variant.status != "ok" or before.kernels == after.kernels


# in words


MOST_NEW = 8
"""Maximum number of new kernels that are named."""


def describe_sides(trial: VariantTrial) -> list[str]:
    """Return kernels, bytes and times of both sides, as lines."""
    if trial.before is None or trial.after is None:
        return []
    before, after = trial.before, trial.after
    lines = [f"kernels  {len(before.kernels)} → {len(after.kernels)}"]
    if before.moved_bytes >= 0 and after.moved_bytes >= 0:
        lines.append(
            f"reads and writes  {size(before.moved_bytes)} → {size(after.moved_bytes)} (estimated "
            "by Inductor)"
        )
    if not math.isnan(before.call_s) and not math.isnan(after.call_s):
        lines.append(
            f"a call  {with_spread(before.call_s, before.spread_s)} → "
            f"{with_spread(after.call_s, after.spread_s)}"
        )
    elif trial.not_measured:
        lines.append(f"Not measured: {trial.not_measured}")
    new = [name for name in after.kernels if name not in before.kernels]
    if new:
        more = " …" if len(new) > MOST_NEW else ""
        lines.append(f"new  {', '.join(new[:MOST_NEW])}{more}")
    return lines


def trial_as_json(trial: VariantTrial) -> dict[str, object]:
    """Return the trial as JSON; a time that was not measured is null."""
    return {
        "is_done": trial.is_done,
        "refused": trial.refused,
        "before": _side_as_json(trial.before),
        "after": _side_as_json(trial.after),
        "not_measured": trial.not_measured,
        "outcome": trial.outcome.to_json(),
        "took_s": trial.took_s,
    }


def _side_as_json(side: TrialSide | None) -> dict[str, object] | None:
    if side is None:
        return None
    return {
        "kernels": list(side.kernels),
        "moved_bytes": side.moved_bytes if side.moved_bytes >= 0 else None,
        "call_seconds": None if math.isnan(side.call_s) else side.call_s,
    }
