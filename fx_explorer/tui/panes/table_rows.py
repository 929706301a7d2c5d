"""This module puts the rows of a table into the order of the screen, for the list that shows them:
sorted by a column, narrowed to words, with their sums.

Nothing here draws. A table may have 100,000 rows, so they are sorted in steps between which the
caller may paint.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from fx_explorer.analysis.words import counted, listed
from fx_explorer.drawing import view_table as views
from fx_explorer.drawing.view_table import Folding, ReadWhenShown, TableRow, ViewTable, in_tree
from fx_explorer.session import SessionReader
from fx_explorer.torch_texts import bounded
from fx_explorer.tui.panes.titles import OLD_MARK, OldFiles
from fx_explorer.tui.widgets import row_list

ROWS_AT_A_TIME = 250
"""Rows processed in one step, which takes about 4 ms."""

MERGED_AT_A_TIME = 1_000
"""Rows that are merged in one step, so that no key waits for it."""

Steps = Iterator["Arrangement | None"]
"""None at each step, and the arrangement at the last one."""


@dataclass(frozen=True, slots=True)
class Sort:
    """The column that a table is sorted by, and the direction."""

    column: str
    """Title of the column."""
    is_descending: bool = False

    @property
    def arrow(self) -> str:
        return "▼" if self.is_descending else "▲"


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The rows to show, as positions in the table, and the line of sums below them."""

    order: Sequence[int]
    totals: str


def next_sort(table: ViewTable, before: Sort | None, column: str) -> Sort | None:
    """Return the order after the user has chosen a column: numbers begin with the greatest, texts
    with the first; the second time the order is reversed, and the third time it is the table's own.
    """
    chosen = [table_column for table_column in table.columns if table_column.title == column]
    begins_descending = any(
        table_column.is_number or table_column.is_bar for table_column in chosen
    )
    if before is None or before.column != column:
        return Sort(column, begins_descending)
    if before.is_descending == begins_descending:
        return Sort(column, not begins_descending)
    return None


def at_once(steps: Steps) -> Arrangement:
    """Do all steps at once, for a small table."""
    for arrangement in steps:
        if arrangement:
            return arrangement
    raise AssertionError("the last step has the results")


def arranged(table: ViewTable, sort: Sort | None, words: str) -> Steps:
    """Return the rows that pass the table's filter and contain all ``words``, in the order of
    ``sort``. Yields between steps. Nesting is kept, unless words are searched.
    """
    shown: Sequence[int] = range(len(table.rows)) if table.only is None else table.only
    if words and not table.searched:
        shown = yield from _find_rows(table, shown, words.lower().split())
    if sort and any(column.title == sort.column for column in table.columns):
        shown = yield from _sorted(table, shown, sort)
        if table.tree and not words:
            shown = in_tree(table.tree, shown)
        else:
            shown = shown
    if table.tree and not words:
        totals = table.tree.totals(table.tree.outermost(shown))
    else:
        totals = yield from _totals(table, shown, bool(words) or table.only is not None)
    yield Arrangement(shown, totals)


def rows_in_order(
    table: ViewTable, order: Sequence[int], reader: SessionReader
) -> Iterator[TableRow]:
    """Yield the rows in this order. Those that are read when they are shown are read with
    ``reader``.
    """
    if isinstance(table.rows, ReadWhenShown):
        rows = table.rows.read_by(reader)
    else:
        rows = table.rows
    for some in _slices(order):
        if isinstance(some, range):
            yield from rows[some.start : some.stop]
        else:
            yield from (rows[at] for at in some)


def _slices(items: Sequence[int]) -> Iterator[Sequence[int]]:
    return (items[start : start + ROWS_AT_A_TIME] for start in range(0, len(items), ROWS_AT_A_TIME))


def _find_rows(
    table: ViewTable, shown: Sequence[int], words: Sequence[str]
) -> Generator[None, None, list[int]]:
    matching = []
    for some in _slices(shown):
        for at in some:
            row = table.rows[at]
            text = " ".join(row.cells).lower()
            if not row.is_heading and all(word in text for word in words):
                matching.append(at)
        yield
    return matching


# sorting

Kind = tuple[int, bool]
"""The group in which a row is sorted: a part of the table, and whether the cell is empty. Rows with
a cell that is not empty come first.
"""


def _sorted(table: ViewTable, shown: Sequence[int], sort: Sort) -> Generator[None, None, list[int]]:
    """Sort in runs, then put the runs together."""
    column = next(at for at, column in enumerate(table.columns) if column.title == sort.column)
    is_number = table.columns[column].is_number or table.columns[column].is_bar
    keys: dict[int, float | str] = {}
    runs: dict[Kind, list[list[int]]] = {}
    for some in _slices(shown):
        new: dict[Kind, list[int]] = {}
        for at in some:
            row = table.rows[at]
            if not row.is_heading:
                is_empty, keys[at] = _key(row, column, sort.column, is_number)
                new.setdefault((row.part, is_empty), []).append(at)
        for kind, run in new.items():
            runs.setdefault(kind, []).append(_in_order(run, keys, sort))
        yield
    ordered: list[int] = []
    for kind in sorted(runs):
        ordered += yield from _merged(runs[kind], keys, sort)
    return ordered


def _in_order(run: list[int], keys: dict[int, float | str], sort: Sort) -> list[int]:
    return sorted(run, key=keys.__getitem__, reverse=sort.is_descending)


def _merged(
    runs: list[list[int]], keys: dict[int, float | str], sort: Sort
) -> Generator[None, None, list[int]]:
    """Merge sorted runs, some rows at a time: sorting two halves of 100,000 rows at once would make
    keys wait longer than a frame.
    """
    merged = heapq.merge(*runs, key=keys.__getitem__, reverse=sort.is_descending)
    ordered: list[int] = []
    while some := list(islice(merged, MERGED_AT_A_TIME)):
        ordered += some
        yield
    return ordered


def _key(row: TableRow, column: int, title: str, is_number: bool) -> tuple[bool, float | str]:
    """Return whether a cell is empty, and its sort key."""
    cell = row.cells[column] if column < len(row.cells) else ""
    if not is_number:
        return not cell.strip(), _natural(cell)
    exact = row.values.get(title)
    value = number_in(cell) if exact is None else exact
    return value is None, value or 0.0


_DIGITS = re.compile(r"\d+")


def _natural(text: str) -> str:
    """Return a text so that ``layers.9`` sorts before ``layers.10``."""
    return _DIGITS.sub(lambda digits: digits[0].zfill(12), text.lower())


_NUMBER = re.compile(r"(?<![\d,])(-?[\d,]+(?:\.\d+)?)(?:\s*(min|[kMGT]?B|[µmn]?s|%|×))?(?![\w/])")

_UNITS = {
    "min": 60.0,
    "B": 1.0,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "s": 1.0,
    "ms": 1e-3,
    "µs": 1e-6,
    "ns": 1e-9,
}


def number_in(text: str) -> float | None:
    """Return the first number of a cell in the base of its unit: ``1.2 MB`` is 1,200,000; None for
    a cell without one.
    """
    match = _NUMBER.search(bounded(text))
    digits = match[1].replace(",", "") if match else ""
    if not match or not digits.strip("-"):
        return None
    return float(digits) * _UNITS.get(match[2] or "", 1.0)


# sums


def _totals(
    table: ViewTable, shown: Sequence[int], is_narrowed: bool
) -> Generator[None, None, str]:
    """Return the line below the rows: their number, their sums, and over which versions of a
    function.
    """
    writers = {column.title: column.total for column in table.columns if column.total}
    sums: dict[str, float] = {}
    names: set[str] = set()
    rows = 0
    for some in _slices(shown):
        for row in (table.rows[at] for at in some):
            rows += not row.is_heading
            for title in writers.keys() & row.values.keys():
                sums[title] = sums.get(title, 0.0) + row.values[title]
                names.add(row.version)
        yield
    whole = len(table.rows) if is_narrowed and not table.searched else 0
    if whole:
        parts = [f"{rows:,} of {counted(whole, 'row')}"]
    else:
        parts = [counted(rows, "row")]
    parts += _versions(table, names)
    parts += [f"{title} {write(sums[title])}" for title, write in writers.items() if title in sums]
    return " · ".join(parts)


def _versions(table: ViewTable, names: set[str]) -> list[str]:
    """Describe the functions for which the sums include more than one version."""
    by_function: dict[str, list[str]] = {}
    for name in sorted(names & table.versions.keys(), key=_natural):
        by_function.setdefault(table.versions[name], []).append(f"[{name}]")
    several = {
        function: names_of for function, names_of in by_function.items() if len(names_of) > 1
    }
    if len(several) == 1:
        function, names_of = next(iter(several.items()))
        return [f"adds up {len(names_of)} versions of {function}: {listed(names_of)}"]
    if several:
        return [f"adds up several versions of {len(several)} functions"]
    return []


class TableRows:
    """Gives the rows of a table to the list, in the order of the screen. Rows of a file that has
    changed are marked.
    """

    def __init__(self, table: views.ViewTable, order: Sequence[int], old: OldFiles) -> None:
        self._rows = table.rows
        self._order = order
        self._old = old

    def __len__(self) -> int:
        return len(self._order)

    def page(self, start: int, stop: int) -> Sequence[row_list.Row]:
        return [_cells(self._rows[position], self._old) for position in self._order[start:stop]]


class NestedRows(TableRows):
    """Gives nested rows to the list: the first cell is the row's name, indented."""

    def __init__(
        self, table: views.ViewTable, order: Sequence[int], old: OldFiles, folding: Folding
    ) -> None:
        super().__init__(table, order, old)
        self._tree = table.tree
        self._folding = folding
        if table.tree:
            self._least = min((table.tree.depths[at] for at in order), default=0)
        else:
            self._least = 0

    def page(self, start: int, stop: int) -> Sequence[row_list.Row]:
        rows = super().page(start, stop)
        if self._tree is None:
            return rows
        named = [self._folding.name(self._tree, at, self._least) for at in self._order[start:stop]]
        return [(name, *row[1:]) for name, row in zip(named, rows, strict=True)]


def _cells(row: views.TableRow, old: OldFiles) -> row_list.Row:
    first, *rest = row.cells
    if old.changed:
        place = row.find_place() if row.find_place else row.place
        if old.holds(place):
            return ((f"{first} · {OLD_MARK}", "warning"), *rest)
    if row.kind:
        return ((first, row.kind), *rest)
    return row.cells


def columns(table: views.ViewTable, sort: Sort | None) -> list[row_list.ListColumn]:
    """Return the columns of a table, with an arrow on the one by which it is sorted."""
    return [_list_column(column, sort) for column in table.columns]


def _list_column(column: views.TableColumn, sort: Sort | None) -> row_list.ListColumn:
    align: Literal["left", "right"] = "right" if column.is_number else "left"
    arrow = sort.arrow if sort and sort.column == column.title else ""
    return row_list.ListColumn(
        column.title,
        column.kind,
        align,
        min_width=column.min_width,
        max_width=column.max_width,
        priority=_priority(column, sort),
        keeps=column.keeps,
        arrow=arrow,
        short=column.short,
    )


SORTED_PRIORITY = 1
"""The column that the rows are sorted by, and its bar, are left out after all others but the names.
"""


def _priority(column: views.TableColumn, sort: Sort | None) -> int:
    is_sorted_by = sort is not None and sort.column in (column.title, column.bar_of or column.title)
    if is_sorted_by:
        return min(column.priority, SORTED_PRIORITY)
    return column.priority
