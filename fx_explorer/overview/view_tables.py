"""This module lists every view that is a table, and makes the console, which shows failures first,
then the output of the user's program.

This is imported when the first of them is opened, because it needs most of the analysis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from fx_explorer import model
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted, first_line, seconds
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.backends.view import backend_table, support_table
from fx_explorer.instruments.bench.view import bench_table
from fx_explorer.instruments.breaks.view import breaks_table
from fx_explorer.instruments.compile_time.flame_view import flame_table
from fx_explorer.instruments.compile_time.view import time_table
from fx_explorer.instruments.decisions.view import decisions_table
from fx_explorer.instruments.fusion.view import fusion_table
from fx_explorer.instruments.guards.view import guards_table
from fx_explorer.instruments.kernels.roofline_view import roofline_table
from fx_explorer.instruments.kernels.view import kernels_table
from fx_explorer.instruments.ledger.view import ledger_table
from fx_explorer.instruments.memory.view import memory_table, step_memory_table
from fx_explorer.instruments.modules.view import modules_table
from fx_explorer.instruments.numerics.view import numerics_table
from fx_explorer.instruments.passes.view import passes_table
from fx_explorer.instruments.profile.view import profile_table
from fx_explorer.instruments.regions import regions_table
from fx_explorer.instruments.side_effects import side_effects_table
from fx_explorer.instruments.trace.view import trace_table
from fx_explorer.instruments.values.view import collectives_table, values_table
from fx_explorer.overview.ending import (
    IN_EAGER_MODE,
    ExplainedFailure,
    console_lines,
    failures,
    was_printed_in_eager_mode,
)
from fx_explorer.overview.graph_tables import graphs_table, sizes_table, stages_table
from fx_explorer.session import SessionReader

CONSOLE_COLUMNS = (
    TableColumn("when", "muted", is_number=True),
    TableColumn("from", "annotation"),
    TableColumn("text", max_width=4000),
)

WHERE_IN_WORDS = {
    "program": "program",
    "compiler": "compiler",
    "recorder": "fx-explorer",
    "measuring": "measurement",
    "worker": "worker",
}


def console_table(reader: SessionReader) -> ViewTable:
    failed = failures(reader)
    lines = ConsoleRows(reader, failed)
    return ViewTable(
        shows="What went wrong, then everything your program printed, at any level (Python, C, "
        "child processes).",
        notice=_notice(reader, failed, len(lines) - len(failed)),
        origin="the worker's stdout and stderr",
        columns=CONSOLE_COLUMNS,
        rows=lines,
        empty=_why_empty(reader),
    )


class ConsoleRows(Sequence[TableRow]):
    """Failures, then console lines. Lines are read from the session when they are shown."""

    def __init__(self, reader: SessionReader, failed: list[ExplainedFailure]) -> None:
        self._reader = reader
        self._failed = failed
        self._line_count = reader.count(model.ConsoleLine)

    def read_by(self, reader: SessionReader) -> ConsoleRows:
        return ConsoleRows(reader, self._failed)

    def __len__(self) -> int:
        return len(self._failed) + self._line_count

    @overload
    def __getitem__(self, index: int) -> TableRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[TableRow]: ...
    def __getitem__(self, index: int | slice) -> TableRow | list[TableRow]:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return self._page(start, stop)
        return self._page(index, index + 1)[0]

    def _page(self, start: int, stop: int) -> list[TableRow]:
        shift = len(self._failed)
        rows = [_failure_row(failure) for failure in self._failed[start:stop]]
        if stop > shift:
            first = max(0, start - shift)
            rows += map(_line_row, console_lines(self._reader, first, stop - shift))
        return rows


def _failure_row(explained_failure: ExplainedFailure) -> TableRow:
    failure = explained_failure.failure
    where = WHERE_IN_WORDS.get(failure.where, failure.where)
    text = f"{failure.kind}: {first_line(failure.message)}"
    return TableRow(
        ("✗ failed", where, text),
        explained_failure.place,
        lambda: Detail(explained_failure.traceback or failure.message, "python"),
        kind="bad",
    )


def _line_row(line: model.ConsoleLine) -> TableRow:
    return TableRow(
        (seconds(line.time_s), line.stream or "fx-explorer", line.text), None, _detail_of(line)
    )


def _detail_of(line: model.ConsoleLine) -> Callable[[], Detail] | None:
    if len(line.text) < 100:
        return None
    return lambda: Detail(line.text)


def _notice(reader: SessionReader, failed: list[ExplainedFailure], line_count: int) -> str:
    printed = f"{counted(line_count, 'line')} printed."
    if was_printed_in_eager_mode(reader):
        printed = f"{counted(line_count, 'line')} printed {IN_EAGER_MODE}."
    if failed:
        return f"{counted(len(failed), 'failure')}; the traceback is below. {printed}"
    return printed if line_count else ""


def _why_empty(reader: SessionReader) -> str:
    if reader.meta("outcome") is None:
        return "Your program has printed nothing so far."
    if is_log(reader):
        return "A log has no output of the program. The overview (1) says what the log contains."
    return "Your program printed nothing."


TABLES: dict[str, Callable[[SessionReader], ViewTable]] = {
    "graphs": graphs_table,
    "stages": stages_table,
    "passes": passes_table,
    "breaks": breaks_table,
    "trace": trace_table,
    "guards": guards_table,
    "kernels": kernels_table,
    "fusion": fusion_table,
    "decisions": decisions_table,
    "memory": memory_table,
    "step_memory": step_memory_table,
    "modules": modules_table,
    "regions": regions_table,
    "sizes": sizes_table,
    "backend": backend_table,
    "ledger": ledger_table,
    "flame": flame_table,
    "numerics": numerics_table,
    "profile": profile_table,
    "roofline": roofline_table,
    "bench": bench_table,
    "support": support_table,
    "side_effects": side_effects_table,
    "values": values_table,
    "collectives": collectives_table,
    "console": console_table,
    "time": time_table,
}
"""View → the function that makes its table."""
