"""The lines of the user's: what each takes compiled and uncompiled.

How much of what the machine can do a kernel reaches: bytes and operations per second.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.instruments.ledger.figures import WORK, LedgerEntry, LedgerFigures, SourceLine
from fx_explorer.model import LedgerKind
from fx_explorer.model.rows.measured import NOT_KNOWN

COMPILED_KINDS = (*WORK, "launch")
"""Kinds of steps that are of a line: the others are around whole graphs. Python at a graph break is
of none, because it is not known what it takes uncompiled.
"""

UNTIMED_KINDS: tuple[LedgerKind, ...] = ("graph", "python", "break")
"""Steps in which operators may run that are not timed one by one."""

UNTIMED = 0.05
"""Part of a call in such steps, from which on a line without kernels may be in there."""

UNKNOWN = SourceLine("", 0)


@dataclass(frozen=True, slots=True)
class LineTime:
    """Seconds of one line in a call, forward and backward. On a GPU they are the GPU's."""

    line: SourceLine
    compiled_s: float
    """A kernel of several lines counts for each by the number of its operators that are the line's;
    -1 where it is not known.
    """
    uncompiled_s: float
    """-1 where the uncompiled program was not measured."""

    @property
    def gained_s(self) -> float:
        if min(self.uncompiled_s, self.compiled_s) >= 0:
            return self.uncompiled_s - self.compiled_s
        return 0.0


@dataclass(frozen=True, slots=True)
class LineTimes:
    """What is of lines, and what is not."""

    lines: list[LineTime]
    """The longest first."""
    compiled_of_none_s: float
    """Compiled calls: around graphs, or of operators whose line is not known."""
    uncompiled_of_none_s: float
    """Uncompiled calls: Python between operators, and operators whose line is not known; -1 where
    it was not measured.
    """


def line_times(figures: LedgerFigures) -> LineTimes:
    """Return what each line takes. What the lines take and what is of none add up to a call."""
    compiled, uncompiled = _compiled(figures), _uncompiled(figures)
    is_known = bool(figures.operators)
    untimed_s = sum(figures.of_kind(kind) for kind in UNTIMED_KINDS) + of_unknown_lines_s(figures)
    without = NOT_KNOWN if untimed_s > UNTIMED * figures.call.call_s else 0.0
    found = [
        LineTime(
            line, compiled.get(line, without), uncompiled.get(line, 0.0) if is_known else NOT_KNOWN
        )
        for line in {**compiled, **uncompiled}
        if line != UNKNOWN
    ]
    found.sort(key=lambda line_time: -max(line_time.compiled_s, line_time.uncompiled_s))
    whole = figures.call.call_s
    rest = whole - sum(max(0.0, line_time.compiled_s) for line_time in found)
    if is_known:
        rest_uncompiled = figures.call.uncompiled_s - sum(
            line_time.uncompiled_s for line_time in found
        )
    else:
        rest_uncompiled = NOT_KNOWN
    return LineTimes(found, rest, rest_uncompiled)


def of_unknown_lines_s(figures: LedgerFigures) -> float:
    """Return the seconds of kernels and library calls whose lines are not known."""
    return sum(
        entry.seconds
        for entry in figures.entries
        if entry.step.kind in ("kernel", "library") and not entry.lines
    )


def _compiled(figures: LedgerFigures) -> dict[SourceLine, float]:
    found: dict[SourceLine, float] = {}
    for entry in figures.entries:
        for line, part in _parts(entry, figures.is_on_gpu):
            found[line] = found.get(line, 0.0) + part * entry.seconds
    return found


def _parts(entry: LedgerEntry, is_on_gpu: bool) -> tuple[tuple[SourceLine, float], ...]:
    kinds = WORK if is_on_gpu else COMPILED_KINDS
    return entry.lines if entry.step.kind in kinds else ()


def _uncompiled(figures: LedgerFigures) -> dict[SourceLine, float]:
    found: dict[SourceLine, float] = {}
    for operator in figures.operators:
        line = SourceLine(operator.file, operator.line) if operator.line else UNKNOWN
        took_s = operator.device_s if figures.is_on_gpu else operator.host_s
        found[line] = found.get(line, 0.0) + took_s
    return found


GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Rate:
    """What a kernel or library call reaches."""

    bytes_per_s: float
    flops_per_s: float
    """0 where its operations are not counted."""
    of_memory: float
    """Part of the bytes per second of a plain copy on this machine; above 1 where the tensors lie
    in caches. 0 where the machine was not measured.
    """
    of_products: float
    """Part of the operations per second of a large float32 matrix product on this machine; above 1
    for smaller types, and where something else was running while that was measured.
    """

    @property
    def in_words(self) -> str:
        """Return ``12.3 GB/s (48 % of a copy), 0.9 TFLOP/s (85 % of a matrix product)``."""
        if self.bytes_per_s:
            parts = [f"{_three(self.bytes_per_s / GIGA)} GB/s{_of(self.of_memory, 'a copy')}"]
        else:
            parts = []
        if self.flops_per_s:
            rate = self.flops_per_s
            if rate >= TERA:
                shown = f"{_three(rate / TERA)} TFLOP/s"
            else:
                shown = f"{_three(rate / GIGA)} GFLOP/s"
            beyond = " (more than a float32 product reached when it was measured)"
            parts.append(
                shown
                + (beyond if self.of_products > 1 else _of(self.of_products, "a float32 product"))
            )
        return ", ".join(parts)


def rate(figures: LedgerFigures, entry: LedgerEntry) -> Rate | None:
    """Return what a step reaches; None for what moves nothing, or takes no time."""
    step, took_s = entry.step, entry.seconds
    if step.kind not in ("kernel", "library") or took_s <= 0 or step.moved_bytes <= 0:
        return None
    moved, operations = step.moved_bytes / took_s, max(0, step.flops) / took_s
    return Rate(
        moved, operations, _part(figures, "memory", moved), _part(figures, "fp32", operations)
    )


def _part(figures: LedgerFigures, kind: str, reached: float) -> float:
    ceiling = figures.ceilings.get(kind)
    return reached / ceiling.rate if ceiling else 0.0


def _of(part: float, what: str) -> str:
    return f" ({part:.0%} of {what})".replace("%", " %") if part else ""


def _three(number: float) -> str:
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
