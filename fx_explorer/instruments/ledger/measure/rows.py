"""This module makes the rows of a ledger: the measurements of each step, with the session's names
for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from fx_explorer.capture.dynamo.frame_clock import FrameClock
from fx_explorer.capture.inductor.wrapper_clock import WrapperClock, WrapperPart
from fx_explorer.instruments.bench.measure.call_timing import DeviceTimes, WrapperWork
from fx_explorer.instruments.ledger.measure.eager_operators import EagerOperator
from fx_explorer.instruments.ledger.measure.rounds import LaunchCost
from fx_explorer.instruments.ledger.measure.timeline import CallIntervals, CallStep, IdleGap
from fx_explorer.model import (
    Artifact,
    Compilation,
    Direction,
    LedgerGap,
    LedgerOperator,
    LedgerStep,
)
from fx_explorer.model.rows.measured import NOT_KNOWN
from fx_explorer.session import SessionReader

GENERATED = ("cpp_", "triton_")


@dataclass(frozen=True, slots=True)
class GeneratedCode:
    """Compilation and direction that a file of output code was generated for."""

    compilation: str
    direction: Direction


@dataclass
class Measured:
    """The separate measurements of a call from which its ledger is put together."""

    whole: CallIntervals
    steps: Sequence[CallStep]
    clock: FrameClock
    wrappers: WrapperClock
    guards: Mapping[int, float]
    """Frame → seconds of its guards."""
    launches: LaunchCost | None
    """The cost of calling a generated C++ kernel; None where it is not known."""
    work: Mapping[int, WrapperWork]
    device: DeviceTimes | None
    gaps: Sequence[IdleGap] = ()


def step_rows(measured: Measured, session: Path, call: int) -> Iterator[LedgerStep]:
    """Yield the steps of a call, in order."""
    maker = _Rows(measured, _codes(measured.wrappers, session))
    for position, row in enumerate(maker.rows()):
        yield replace(row, call=call, position=position)


def gap_rows(measured: Measured, call: int) -> Iterator[LedgerGap]:
    """Yield the gaps of a call on the GPU, in order."""
    positions = _Rows(measured, {}).positions()
    for position, gap in enumerate(measured.gaps):
        steps = tuple(positions[at] for at in gap.of_steps)
        yield LedgerGap(
            0,
            call,
            position,
            gap.before,
            gap.after,
            gap.seconds,
            steps,
            tuple(gap.of_steps.values()),
        )


def without_guards(measured: Measured) -> str:
    """Describe the guards whose time is not separated from entering compiled code; empty when all
    are.
    """
    unknown = {
        _entered_next(measured, i) for i, step in enumerate(measured.steps) if step.has_lookup
    } - set(measured.guards)
    if not unknown:
        return ""
    noun = "compiled functions" if len(unknown) > 1 else "compiled function"
    return f"The guard time of {len(unknown)} {noun} is counted as entering torch.compile"


def _entered_next(measured: Measured, step: int) -> int:
    """Return the frame that is entered when a step ends."""
    _, _, frame = measured.whole.ticks[step + 1]
    return frame


class _Rows:
    """Makes the rows of one call."""

    def __init__(self, measured: Measured, codes: Mapping[str, list[GeneratedCode]]) -> None:
        self._measured = measured
        self._codes = codes
        self._passes = Counter(step.part for step in measured.steps if step.part >= 0)

    def rows(self) -> Iterator[LedgerStep]:
        for rows in self._rows_of_steps():
            yield from rows

    def positions(self) -> list[int]:
        """Return the position of each step's first row."""
        counts = [len(rows) for rows in self._rows_of_steps()]
        return [0, *accumulate(counts)][: len(counts)]

    def _rows_of_steps(self) -> Iterator[list[LedgerStep]]:
        whole = self._measured.whole
        for i, (step, host_s, iqr_s) in enumerate(
            zip(self._measured.steps, whole.means_s, whole.iqrs_s, strict=True)
        ):
            row = self._row(step, host_s, iqr_s)
            if step.has_lookup:
                yield list(self._with_guards(row, _entered_next(self._measured, i)))
            elif row.kind == "kernel" and self._measured.launches:
                yield list(
                    self._with_launch(row, self._measured.launches.of(self._part(step).arguments))
                )
            else:
                yield [row]

    def _with_guards(self, row: LedgerStep, frame: int) -> Iterator[LedgerStep]:
        guards_s = min(self._measured.guards.get(frame, 0.0), row.host_s)
        yield replace(row, host_s=row.host_s - guards_s)
        if guards_s:
            compilation = self._measured.clock.frames[frame].compilation
            yield replace(
                row,
                kind="guards",
                compilation=compilation,
                host_s=guards_s,
                iqr_s=0.0,
                file="",
                user_line=0,
            )

    def _with_launch(self, row: LedgerStep, launch_s: float) -> Iterator[LedgerStep]:
        launch_s = min(launch_s, row.host_s)
        yield replace(row, kind="launch", host_s=launch_s, iqr_s=0.0, moved_bytes=NOT_KNOWN)
        yield replace(row, host_s=row.host_s - launch_s)

    def _part(self, step: CallStep) -> WrapperPart:
        return self._measured.wrappers.parts[step.part]

    def _row(self, step: CallStep, host_s: float, iqr_s: float) -> LedgerStep:
        if step.frame >= 0:
            frame = self._measured.clock.frames[step.frame].compilation
        else:
            frame = ""
        row = LedgerStep(
            0, 0, 0, step.kind, "", frame, self._direction(step), 0, "", 0, host_s, iqr_s
        )
        cut = self._measured.clock.cuts.get(step.frame)
        if step.kind == "break" and cut:
            row = replace(row, file=cut.file, user_line=cut.line)
        if step.part >= 0:
            return self._in_wrapper(row, step)
        return row

    def _direction(self, step: CallStep) -> Direction:
        return "backward" if step.is_backward else ""

    def _in_wrapper(self, row: LedgerStep, step: CallStep) -> LedgerStep:
        """Return the row of a step inside a wrapper, with the name, line, compilation and amounts
        of its part.
        """
        part, work = self._part(step), self._measured.work.get(step.part)
        known = self._codes.get(part.file, [])
        of_compilation = [code for code in known if code.compilation == row.compilation]
        code = next(iter([*of_compilation, *known]), None)
        if code:
            row = replace(row, compilation=code.compilation, direction=code.direction)
        name = part.name.removesuffix(".run") if part.kind == "call" else ""
        row = replace(row, name=name, line=part.line)
        if row.kind == "wrapper":
            # Of a branch: what it moves and computes is in the branch's steps.
            return row
        if row.kind == "library" and part.name.startswith(GENERATED):
            row = replace(row, kind="kernel")
        if work:
            moved_bytes = self._each(work.moved_bytes, step)
            row = replace(row, moved_bytes=moved_bytes, flops=self._each(work.flops, step))
        device = self._measured.device
        if device:
            device_s = device.of_parts.get(step.part, 0.0) / self._passes[step.part]
            row = replace(row, device_s=device_s)
        return row

    def _each(self, number: int, step: CallStep) -> int:
        """Return the part of the work of one pass, if several passes share it equally."""
        if number > 0:
            return number // self._passes[step.part]
        return NOT_KNOWN


def _codes(wrappers: WrapperClock, session: Path) -> dict[str, list[GeneratedCode]]:
    """Return file → the compilations whose output code it contains. Equal code is one file."""
    with SessionReader(session) as reader:
        names = {row.id: row.name for row in reader.rows(Compilation)}
        of_text: dict[str, list[GeneratedCode]] = {}
        for artifact in reader.rows(Artifact, kind="output_code"):
            code = GeneratedCode(names.get(artifact.compilation, ""), artifact.direction)
            of_text.setdefault(reader.text(artifact.text).strip(), []).append(code)
    return {file: of_text.get(source.strip(), []) for file, source in wrappers.sources.items()}


def operator_rows(operators: Iterable[EagerOperator], call: int) -> Iterator[LedgerOperator]:
    for position, operator in enumerate(operators):
        yield LedgerOperator(
            0,
            call,
            position,
            operator.name,
            operator.direction,
            operator.file,
            operator.line,
            operator.host_s,
            operator.device_s,
        )
