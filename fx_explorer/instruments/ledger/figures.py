"""This module reads the last ledger of a session: its steps with their kernels and lines of the
user's, the time of each line compiled and in eager mode, and the share of the machine's speed that
a kernel reaches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.measured_times import parts_are_known
from fx_explorer.analysis.selected_nodes import line_nodes_at
from fx_explorer.instruments.ledger.guard_counts import GuardCounts, guard_counts
from fx_explorer.model import (
    Artifact,
    CaptureRequest,
    CardCeiling,
    Compilation,
    LedgerCall,
    LedgerGap,
    LedgerKind,
    LedgerOperator,
    LedgerStep,
    Node,
    SourceFile,
)
from fx_explorer.model.rows.measured import NOT_KNOWN
from fx_explorer.session import SessionReader

KIND_IN_WORDS: dict[LedgerKind, str] = {
    "entry": "entering torch.compile",
    "guards": "guards",
    "bytecode": "bytecode around graphs",
    "break": "Python at graph breaks",
    "python": "Python that was not compiled",
    "wrapper": "wrappers around graphs",
    "checks": "checks of sizes and strides",
    "buffers": "buffers and views",
    "launch": "starting kernels",
    "kernel": "generated kernels",
    "library": "library calls",
    "graph": "computing without generated Python",
    "loss": "the loss",
    "autograd": "autograd around backward graphs",
    "gradients": "clearing gradients",
    "wait": "waiting for the GPU",
}

KIND_EXPLAINED: dict[LedgerKind, str] = {
    "entry": (
        "torch.compile puts its hook into Python, looks for compiled code that fits, and removes "
        "the hook again."
    ),
    "guards": "Conditions for reusing the compiled code; view 5 lists them.",
    "bytecode": (
        "Dynamo's bytecode passes the inputs to the graph, and stores its outputs where the "
        "program needs them."
    ),
    "break": "Your code runs in eager mode between two graphs; view 4 says why.",
    "python": "Python code that would run the same without torch.compile.",
    "wrapper": "AOTAutograd and Inductor check and unpack inputs, start the graph, and wrap "
    "outputs.",
    "checks": (
        "The generated code compares sizes, strides and alignment with those it was compiled for."
    ),
    "buffers": "The generated code allocates and releases memory, and makes views.",
    "launch": "A call from Python into the kernel, without the kernel's work.",
    "kernel": "A kernel that Inductor generated.",
    "library": "A call into a library or into ATen.",
    "graph": (
        "No generated Python code could be timed: another backend, a C++ wrapper, a replayed CUDA "
        "graph, or eager autograd."
    ),
    "loss": "The sum of the returned values, if the program returned no loss.",
    "autograd": "The autograd engine, and AOTAutograd before and after the backward's kernels.",
    "gradients": "Gradients of the previous call are removed, so that all calls are equal.",
    "wait": "Everything is launched, and the GPU still computes.",
}
"""Kind of step → its explanation in a sentence."""

WORK: tuple[LedgerKind, ...] = ("kernel", "library", "graph")
"""Kinds of steps in which the program's own operators run. All other steps are overhead around
them.
"""

STARTED: dict[LedgerKind, str] = {
    "kernel": "starting generated kernels",
    "library": "starting library calls",
}
"""Kind → its name on a GPU, where the host only starts the work."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's, or of a library that the user calls."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """A function of the user's that was compiled."""

    name: str
    """Its qualified name, or torch's name of a resume function:
    ``torch_dynamo_resume_in_forward_at_12``.
    """
    line: SourceLine
    """The first line of the function."""


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One step of a call, with its lines of the user's and its line of generated code."""

    step: LedgerStep
    began_s: float
    """Seconds after the call began."""
    lines: tuple[tuple[SourceLine, float], ...]
    """(user's line, its share) of the operators that the step computes; empty for a step without
    operators.
    """
    place: Place | None
    """The line of the generated code; None for a step outside it."""

    @property
    def seconds(self) -> float:
        """Return the seconds in which the step computes: on the GPU if there is one."""
        if self.step.device_s >= 0 and self.step.kind in WORK:
            return self.step.device_s
        return self.step.host_s


@dataclass(frozen=True)
class LedgerFigures:
    """The ledger of one call."""

    call: LedgerCall
    entries: tuple[LedgerEntry, ...]
    operators: tuple[LedgerOperator, ...]
    """The operators of the same call in eager mode, in order."""
    ceilings: Mapping[str, CardCeiling]
    """Kind → the most that the machine was measured to do."""
    request: CaptureRequest | None = None
    """The request with which it was compiled; None where the session does not have it."""
    functions: Mapping[str, SourceFunction] = field(default_factory=dict)
    """Name of a compilation → the function that was compiled."""
    guards: GuardCounts = field(default_factory=GuardCounts)
    """The guards of the compilations that a call runs through."""
    gaps: tuple[LedgerGap, ...] = ()
    """Times in which a GPU is idle, in the order of the call."""

    @property
    def is_on_gpu(self) -> bool:
        return self.call.busy_s >= 0

    @cached_property
    def by_kind(self) -> list[tuple[LedgerKind, float]]:
        """Return the host's seconds in each kind of step, the longest first."""
        sums: dict[LedgerKind, float] = {}
        for entry in self.entries:
            sums[entry.step.kind] = sums.get(entry.step.kind, 0.0) + entry.step.host_s
        return sorted(sums.items(), key=lambda item: -item[1])

    @property
    def accounted_s(self) -> float:
        return sum(entry.step.host_s for entry in self.entries)

    @property
    def unaccounted_s(self) -> float:
        """Return the seconds of a call beyond its steps; below 0 where the steps add up to more."""
        return self.call.call_s - self.accounted_s

    @property
    def are_steps_known(self) -> bool:
        """Return whether the steps say where the time of a call goes."""
        return parts_are_known(self.call.call_s, self.accounted_s, self.call.iqr_s)

    @property
    def runs_compiled(self) -> bool:
        """Return whether any compiled graph runs in a call."""
        return any(
            entry.step.kind in ("kernel", "library", "graph", "wrapper") for entry in self.entries
        )

    @property
    def idle_s(self) -> float:
        """Return the seconds in which a GPU is idle during a call; 0 without one."""
        if self.is_on_gpu:
            return max(0.0, self.call.call_s - self.call.busy_s)
        return 0.0

    @property
    def work_s(self) -> float:
        """Return the seconds of a call in which the program's own operators run."""
        if self.is_on_gpu:
            return self.call.busy_s
        return sum(took_s for kind, took_s in self.by_kind if kind in WORK)

    def of_kind(self, kind: LedgerKind) -> float:
        return dict(self.by_kind).get(kind, 0.0)

    def describe(self, kind: LedgerKind) -> str:
        if self.is_on_gpu:
            return STARTED.get(kind, KIND_IN_WORDS[kind])
        return KIND_IN_WORDS[kind]


def ledger_figures(reader: SessionReader) -> LedgerFigures | None:
    """Return the session's last ledger; None when it has none."""
    with reader.snapshot():
        calls = [
            row for row in reader.rows(LedgerCall) if row.call_s > 0
        ]  # a call that took no time is damage
        if not calls:
            return None
        call = calls[-1]
        places = _Places(reader)
        entries, began_s = [], 0.0
        for step in sorted(reader.rows(LedgerStep, call=call.id), key=lambda row: row.position):
            entries.append(LedgerEntry(step, began_s, places.lines(step), places.place(step)))
            began_s += step.host_s
        operators = sorted(reader.rows(LedgerOperator, call=call.id), key=lambda row: row.position)
        ceilings: dict[str, CardCeiling] = {
            row.kind: row for row in reader.rows(CardCeiling, device=call.device)
        }
        request = reader.request()
        functions = {
            row.name: SourceFunction(row.function, SourceLine(row.file, row.line))
            for row in reader.rows(Compilation)
        }
        guards = guard_counts(reader, {entry.step.compilation for entry in entries} - {""})
        gaps = tuple(sorted(reader.rows(LedgerGap, call=call.id), key=lambda row: row.position))
    return LedgerFigures(
        call, tuple(entries), tuple(operators), ceilings, request, functions, guards, gaps
    )


class _Places:
    """Finds the lines of the generated code, and of the user's, for each step."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        names = {row.id: row.name for row in reader.rows(Compilation)}
        codes = reader.rows(Artifact, kind="output_code")
        self._codes = {(names.get(row.compilation, ""), row.direction): row for row in codes}
        self._files = {row.id: row.path for row in reader.rows(SourceFile)}

    def place(self, step: LedgerStep) -> Place | None:
        code = self._codes.get((step.compilation, step.direction))
        if code is None or not 0 < step.line <= code.line_count:
            return None
        return Place(Document("artifact", code.id), step.line - 1)

    def lines(self, step: LedgerStep) -> tuple[tuple[SourceLine, float], ...]:
        """Return the lines of a step, each with its part of the operators that the step
        computes.
        """
        if step.user_line:
            return ((SourceLine(step.file, step.user_line), 1.0),)
        code = self._codes.get((step.compilation, step.direction))
        if code is None or step.kind not in ("kernel", "library", "launch"):
            return ()
        nodes = {row.node for row in line_nodes_at(self._reader, code.id, step.line)}
        counts = Counter(
            self._line(node) for node in self._reader.by_ids(Node, sorted(nodes)) if node.line
        )
        return tuple((line, count / counts.total()) for line, count in counts.most_common())

    def _line(self, node: Node) -> SourceLine:
        return SourceLine(self._files.get(node.file, ""), node.line)


# What each line takes.


COMPILED_KINDS = (*WORK, "launch")
"""Kinds of steps that belong to lines; the others surround whole graphs. Python code at a graph
break is left out, because its uncompiled time is not known.
"""

UNTIMED_KINDS: tuple[LedgerKind, ...] = ("graph", "python", "break")
"""Kinds of steps in which operators may run that are not timed one by one."""

UNTIMED = 0.05
"""From this fraction of a call in such steps on, a line without kernels may be in one of them."""

UNKNOWN = SourceLine("", 0)


@dataclass(frozen=True, slots=True)
class LineTime:
    """Seconds of one line in a call, forward and backward. With a GPU they are the GPU's."""

    line: SourceLine
    compiled_s: float
    """Seconds of the line, compiled. A kernel of several lines counts for each line by the number
    of its operators that belong to the line; -1 where it is not known.
    """
    uncompiled_s: float
    """Seconds of the line, uncompiled; -1 where the program in eager mode was not measured."""

    @property
    def gained_s(self) -> float:
        if min(self.uncompiled_s, self.compiled_s) >= 0:
            return self.uncompiled_s - self.compiled_s
        return 0.0


@dataclass(frozen=True, slots=True)
class LineTimes:
    """The time of a call by the user's lines, and the time that belongs to no line."""

    lines: list[LineTime]
    """Lines with their times, the longest first."""
    compiled_of_none_s: float
    """Seconds of compiled calls that belong to no line: around graphs, or of operators whose line
    is not known.
    """
    uncompiled_of_none_s: float
    """Seconds of calls in eager mode that belong to no line: Python between operators, and
    operators whose line is not known; -1 where it was not measured.
    """


def line_times(figures: LedgerFigures) -> LineTimes:
    """Return the time of each line. The times of all lines and the time that belongs to no line add
    up to the call.
    """
    compiled, uncompiled = _compiled(figures), _uncompiled(figures)
    is_known = bool(figures.operators)
    untimed_s = sum(figures.of_kind(kind) for kind in UNTIMED_KINDS) + of_unknown_lines_s(figures)
    without = NOT_KNOWN if untimed_s > UNTIMED * figures.call.call_s else 0.0
    times = []
    for line in {**compiled, **uncompiled}:
        if line != UNKNOWN:
            uncompiled_s = uncompiled.get(line, 0.0) if is_known else NOT_KNOWN
            times.append(LineTime(line, compiled.get(line, without), uncompiled_s))
    times.sort(key=lambda line_time: -max(line_time.compiled_s, line_time.uncompiled_s))
    whole = figures.call.call_s
    rest = whole - sum(max(0.0, line_time.compiled_s) for line_time in times)
    if is_known:
        rest_uncompiled = figures.call.uncompiled_s - sum(
            line_time.uncompiled_s for line_time in times
        )
    else:
        rest_uncompiled = NOT_KNOWN
    return LineTimes(times, rest, rest_uncompiled)


def of_unknown_lines_s(figures: LedgerFigures) -> float:
    """Return the seconds of kernels and library calls whose lines are not known."""
    without_line = [entry for entry in figures.entries if not entry.lines]
    return sum(entry.seconds for entry in without_line if entry.step.kind in ("kernel", "library"))


def _compiled(figures: LedgerFigures) -> dict[SourceLine, float]:
    """Return line → seconds of the compiled code for it."""
    times: dict[SourceLine, float] = {}
    for entry in figures.entries:
        for line, part in _parts(entry, figures.is_on_gpu):
            times[line] = times.get(line, 0.0) + part * entry.seconds
    return times


def _parts(entry: LedgerEntry, is_on_gpu: bool) -> tuple[tuple[SourceLine, float], ...]:
    kinds = WORK if is_on_gpu else COMPILED_KINDS
    return entry.lines if entry.step.kind in kinds else ()


def _uncompiled(figures: LedgerFigures) -> dict[SourceLine, float]:
    """Return line → seconds of its operators, uncompiled."""
    times: dict[SourceLine, float] = {}
    for operator in figures.operators:
        line = SourceLine(operator.file, operator.line) if operator.line else UNKNOWN
        took_s = operator.device_s if figures.is_on_gpu else operator.host_s
        times[line] = times.get(line, 0.0) + took_s
    return times


# How much of what the machine can do a kernel reaches.


GIGA, TERA = 1e9, 1e12


@dataclass(frozen=True, slots=True)
class Rate:
    """The bytes and operations per second that a kernel or library call reaches."""

    bytes_per_s: float
    flops_per_s: float
    """Operations per second; 0 where its operations are not counted."""
    of_memory: float
    """Share of the bytes per second that a plain copy reaches on this machine; above 1 where the
    tensors are in caches. 0 where the machine was not measured.
    """
    of_products: float
    """Share of the operations per second that a large float32 matrix product reaches on this
    machine; above 1 for smaller types, and where other programs ran during that measurement.
    """

    @property
    def description(self) -> str:
        """Return ``12.3 GB/s (48 % of a copy), 0.9 TFLOP/s (85 % of a matrix product)``."""
        parts = []
        if self.bytes_per_s:
            parts.append(f"{_three(self.bytes_per_s / GIGA)} GB/s{_of(self.of_memory, 'a copy')}")
        if self.flops_per_s:
            rate = self.flops_per_s
            if rate >= TERA:
                shown = f"{_three(rate / TERA)} TFLOP/s"
            else:
                shown = f"{_three(rate / GIGA)} GFLOP/s"
            if self.of_products > 1:
                part = " (more than the measured limit of a float32 product)"
            else:
                part = _of(self.of_products, "a float32 product")
            parts.append(shown + part)
        return ", ".join(parts)


def rate(figures: LedgerFigures, entry: LedgerEntry) -> Rate | None:
    """Return the share of the machine's speed that a step reaches; None for a step that moves no
    bytes or takes no time.
    """
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
    if part:
        return f" ({part:.0%} of {what})".replace("%", " %")
    return ""


def _three(number: float) -> str:
    if number >= 100:
        return f"{number:,.0f}"
    return f"{number:.3g}"
