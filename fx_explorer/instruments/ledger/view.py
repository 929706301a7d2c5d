"""This module makes view 0: where the time of one call goes, as a flame chart, and below it by
kind, by line of the user's, and step by step. The bar of each step shows when in the call it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.whole_session import NO_PROGRAM, is_log
from fx_explorer.analysis.words import counted, share, size
from fx_explorer.drawing.flame_charts import FlameChart
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.ledger.figures import (
    KIND_EXPLAINED,
    LedgerEntry,
    LedgerFigures,
    LineTime,
    SourceLine,
    ledger_figures,
    line_times,
    rate,
)
from fx_explorer.instruments.ledger.flame_chart import flame
from fx_explorer.instruments.ledger.ledger_rows import (
    describe_lines,
    graph_of,
    kind_rows,
    shown_kinds,
    step_name,
)
from fx_explorer.instruments.ledger.verdict import verdict
from fx_explorer.model import LedgerOperator, SourceFile
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

BAR_CELLS = 16

COLUMNS = (
    TableColumn("step", "muted", min_width=5),
    TableColumn("where the time goes", "strong", min_width=24, max_width=40),
    TableColumn("time", is_number=True, min_width=8, total=run_time),
    TableColumn("eager", "muted", is_number=True, min_width=10, priority=1),
    TableColumn("share", "muted", is_number=True, priority=3),
    TableColumn("in the call", "bar", is_bar=True, min_width=BAR_CELLS, priority=2),
    TableColumn("GPU", is_number=True, priority=4, total=run_time),
    TableColumn("reaches", "muted", min_width=12, priority=6),
    TableColumn("your line", "link", min_width=14, priority=5, keeps="end"),
)

TONES: dict[str, str] = {
    **dict.fromkeys(("call", "part", "function", "code"), "$foreground 12%"),
    **dict.fromkeys(("kernel", "library", "graph"), "$success-muted"),
    **dict.fromkeys(("entry", "guards", "bytecode", "wrapper"), "$primary-muted"),
    **dict.fromkeys(("checks", "buffers", "launch"), "$secondary-muted"),
    **dict.fromkeys(("break", "python"), "$warning-muted"),
    **dict.fromkeys(("autograd", "loss", "gradients"), "$accent-muted"),
    **dict.fromkeys(("wait", "rest"), "$error-muted"),
}
"""Kind → colour of the theme. A theme has fewer colours than there are kinds; names and rows tell
the kinds apart.
"""

NONE_YET = (
    "No call was measured yet. Press x c: the program is built, and called repeatedly with a timer."
)


def ledger_table(reader: SessionReader) -> ViewTable:
    empty = f"No call was measured. {NO_PROGRAM}" if is_log(reader) else NONE_YET
    table = ViewTable(
        shows="Where the time of one call goes: by kind, by your line, and step by step.",
        notice="",
        origin="a timer between the steps of many calls; its own time is subtracted",
        columns=COLUMNS,
        rows=[],
        empty=empty,
    )
    figures = ledger_figures(reader)
    if not figures:
        return table
    rows = _Rows(reader, figures)
    rows_of_steps = [*rows.of_kinds(), *rows.of_lines(), *rows.of_steps()]
    return replace(
        table,
        notice=verdict(figures)[0],
        rows=[row for row, _ in rows_of_steps],
        chart=FlameChart(flame(figures), [steps for _, steps in rows_of_steps], TONES),
        svg=partial(_svg, figures),
    )


def _svg(figures: LedgerFigures) -> str:
    from fx_explorer.instruments.ledger.flame_chart import flame_svg

    return flame_svg(figures)


RowOfSteps = tuple[TableRow, Sequence[int]]
"""A row, and the positions of its steps."""


class _Rows:
    """Makes the rows of the view."""

    def __init__(self, reader: SessionReader, figures: LedgerFigures) -> None:
        self._figures = figures
        self._call_s = figures.call.call_s
        self._files = {row.path: row.id for row in reader.rows(SourceFile)}

    def of_kinds(self) -> Iterator[RowOfSteps]:
        text = "\n".join(verdict(self._figures))
        sums = [
            (took_s, self._positions(lambda entry: entry.step.kind == kind))  # noqa: B023
            for kind, took_s in shown_kinds(self._figures)
        ]
        sums += [(0.0, []), (self._call_s, self._positions(lambda entry: True))]
        for (name, time, part), (took_s, steps) in zip(kind_rows(self._figures), sums, strict=True):
            cells = ("sum", name, time, "", part, _bar(0, took_s, self._call_s), "", "", "")
            yield TableRow(cells, None, lambda: Detail(text), values={"in the call": took_s}), steps

    def _positions(self, is_one: Callable[[LedgerEntry], bool]) -> list[int]:
        return [position for position, entry in enumerate(self._figures.entries) if is_one(entry)]

    def of_lines(self) -> Iterator[RowOfSteps]:
        for line_time in line_times(self._figures).lines:
            yield self._line(line_time), self._steps_of_line(line_time.line)

    def _line(self, line_time: LineTime) -> TableRow:
        uncompiled = run_time(line_time.uncompiled_s) if line_time.uncompiled_s >= 0 else ""
        where = in_file(line_time.line.file, line_time.line.line)
        compiled_s = max(0.0, line_time.compiled_s)
        known = run_time(compiled_s) if line_time.compiled_s >= 0 else "not known"
        bar = _bar(0, compiled_s, self._call_s)
        return TableRow(
            ("line", where, known, uncompiled, self._share(compiled_s), bar, "", "", where),
            self._source(line_time.line),
            lambda: self._about_line(line_time),
            values={"in the call": compiled_s},
            part=1,
        )

    def _steps_of_line(self, line: SourceLine) -> list[int]:
        return self._positions(lambda entry: any(line == other for other, _ in entry.lines))

    def of_steps(self) -> Iterator[RowOfSteps]:
        """Yield the steps in order, with those of a graph below a row for the graph."""
        number = 0
        for graph, group in groupby(self._figures.entries, key=lambda entry: graph_of(entry.step)):
            entries = list(group)
            indent = ""
            if graph:
                indent = "  "
                yield self._graph(graph, entries), range(number, number + len(entries))
            for entry in entries:
                number += 1
                yield self._step(entry, number, indent), (number - 1,)

    def _graph(self, name: str, entries: list[LedgerEntry]) -> TableRow:
        took_s = sum(entry.step.host_s for entry in entries)
        bar = _bar(entries[0].began_s, took_s, self._call_s)
        detail = Detail(
            f"{name}: {counted(len(entries), 'step')}, {run_time(took_s)} of a call of "
            f"{run_time(self._call_s)}."
        )
        return TableRow(
            ("graph", name, run_time(took_s), "", self._share(took_s), bar, "", "", ""),
            None,
            lambda: detail,
            part=2,
            is_heading=True,
        )

    def _step(self, entry: LedgerEntry, number: int, indent: str) -> TableRow:
        step, reached = entry.step, rate(self._figures, entry)
        device = run_time(step.device_s) if step.device_s > 0 else ""
        rates = reached.description if reached else ""
        cells = (
            str(number),
            indent + step_name(self._figures, entry),
            run_time(step.host_s),
            "",
            self._share(step.host_s),
            _bar(entry.began_s, step.host_s, self._call_s),
            device,
            rates,
            describe_lines(entry),
        )
        place = entry.place
        if place is None and entry.lines:
            place = self._source(entry.lines[0][0])
        # Only the steps are added up: kinds and lines are the same time once more.
        values = {"time": step.host_s, "in the call": entry.began_s}
        if step.device_s > 0:
            values["GPU"] = step.device_s
        return TableRow(cells, place, lambda: self._about_step(entry), values=values, part=2)

    def _share(self, took_s: float) -> str:
        return share(took_s, self._call_s)

    def _source(self, line: SourceLine) -> Place | None:
        file = self._files.get(line.file)
        if file:
            return Place(Document("source", file), line.line - 1)
        return None

    def _about_step(self, entry: LedgerEntry) -> Detail:
        step, reached = entry.step, rate(self._figures, entry)
        spread = ""
        if step.iqr_s:
            spread = f" (middle half of the calls within {run_time(step.iqr_s)})"
        parts = [
            f"{step_name(self._figures, entry)}: {KIND_EXPLAINED[step.kind]}",
            (
                f"It begins {run_time(entry.began_s)} after the start of the call and takes "
                f"{run_time(step.host_s)}{spread}."
            ),
        ]
        if step.device_s > 0:
            parts.append(f"The GPU computes for {run_time(step.device_s)}.")
        if reached:
            parts.append(f"It moves {size(step.moved_bytes)}: {reached.description}.")
        parts += [
            f"{part:>4.0%} of its operators come from {in_file(line.file, line.line)}"
            for line, part in entry.lines
        ]
        return Detail("\n".join(parts).replace("% of", " % of"))

    def _about_line(self, line_time: LineTime) -> Detail:
        """Describe the steps that compute a line, compiled and in eager mode."""
        text = [f"{in_file(line_time.line.file, line_time.line.line)}, compiled:"]
        for entry in self._figures.entries:
            for line, part in entry.lines:
                if line == line_time.line:
                    name = step_name(self._figures, entry)
                    text.append(f"  {run_time(part * entry.seconds):>9}  {name}")
        text.append("in eager mode:")
        for row in self._figures.operators:
            if SourceLine(row.file, row.line) == line_time.line:
                took = run_time(self._took_s(row))
                text.append(f"  {took:>9}  {row.name} {row.direction}")
        return Detail("\n".join(text))

    def _took_s(self, row: LedgerOperator) -> float:
        if self._figures.is_on_gpu:
            return row.device_s
        return row.host_s


def _bar(began_s: float, took_s: float, whole_s: float) -> str:
    """Return a bar at its place in the call, at least a dot long."""
    if whole_s <= 0:
        return ""
    first = min(BAR_CELLS - 1, int(BAR_CELLS * began_s / whole_s))
    length = min(BAR_CELLS - first, round(BAR_CELLS * took_s / whole_s))
    return " " * first + ("━" * length or "·")
