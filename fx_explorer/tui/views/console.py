"""View 8: failures first, then what the user's program printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from fx_explorer import model
from fx_explorer.analysis.words import counted, first_line, seconds
from fx_explorer.session import SessionReader
from fx_explorer.tui.views.table import Column, Detail, Row, Table

COLUMNS = (Column("when", "dim", align_right=True, width=8), Column("from", "name", width=10), Column("text", width=400))

WHERE_IN_WORDS = {
    "program": "program",
    "compiler": "compiler",
    "recorder": "fx-explorer",
    "worker": "worker",
}


def console_table(reader: SessionReader) -> Table:
    failures = reader.rows(model.Failure)
    lines = ConsoleRows(reader, failures)
    return Table(
        shows="What went wrong, then everything your program printed, at any level (Python, C, child processes).",
        notice=_notice(failures, len(lines) - len(failures)),
        origin="the worker's stdout and stderr",
        columns=COLUMNS,
        rows=lines,
        empty=_why_empty(reader),
    )


class ConsoleRows(Sequence[Row]):
    """Failures, then console lines; the lines are read from the session as they are shown."""

    def __init__(self, reader: SessionReader, failures: list[model.Failure]) -> None:
        self._reader = reader
        self._failures = failures
        self._line_count = reader.count(model.ConsoleLine)

    def __len__(self) -> int:
        return len(self._failures) + self._line_count

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | list[Row]:
        if isinstance(index, slice):
            start, stop, _ = index.indices(len(self))
            return self._page(start, stop)
        return self._page(index, index + 1)[0]

    def _page(self, start: int, stop: int) -> list[Row]:
        shift = len(self._failures)
        rows = [_failure_row(self._reader, failure) for failure in self._failures[start:stop]]
        if stop > shift:
            first = max(0, start - shift)
            rows += map(_line_row, self._reader.rows(model.ConsoleLine, offset=first, limit=stop - shift - first))
        return rows


def _failure_row(reader: SessionReader, failure: model.Failure) -> Row:
    cells = ("✗ failed", WHERE_IN_WORDS.get(failure.where, failure.where), f"{failure.kind}: {first_line(failure.message)}")
    return Row(cells, None, lambda: Detail(reader.text(failure.text) or failure.message, "text"), tone="problem")


def _line_row(line: model.ConsoleLine) -> Row:
    return Row((seconds(line.time_s), line.stream or "fx-explorer", line.text), None, _detail_of(line))


def _detail_of(line: model.ConsoleLine) -> Callable[[], Detail] | None:
    return None if len(line.text) < 100 else lambda: Detail(line.text)


def _notice(failures: list[model.Failure], line_count: int) -> str:
    printed = f"{counted(line_count, 'line')} printed."
    return f"{counted(len(failures), 'failure')}; the traceback is below. {printed}" if failures else printed


def _why_empty(reader: SessionReader) -> str:
    return "Your program has printed nothing so far." if reader.meta("outcome") is None else "Your program printed nothing."
