"""Rows and columns of a table as the list on screen takes them."""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.drawing import view_table as views
from fx_explorer.drawing.trees import Folding
from fx_explorer.tui.status.old_files import MARK, OldFiles
from fx_explorer.tui.views.arranging import Sort
from fx_explorer.tui.widgets import row_list


class TableRows:
    """Gives the rows of a table to the list, in the order of the screen. Those of a file that is
    another one by now are marked.
    """

    def __init__(self, table: views.ViewTable, order: Sequence[int], old: OldFiles) -> None:
        self._rows = table.rows
        self._order = order
        self._old = old

    def __len__(self) -> int:
        return len(self._order)

    def page(self, start: int, stop: int) -> Sequence[row_list.Row]:
        return [_cells(self._rows[position], self._old) for position in self._order[start:stop]]


class FoldedRows(TableRows):
    """The same for rows that lie in each other: the first cell is the row's name in its place."""

    def __init__(
        self, table: views.ViewTable, order: Sequence[int], old: OldFiles, folding: Folding
    ) -> None:
        super().__init__(table, order, old)
        self._tree = table.tree
        self._folding = folding
        self._least = min((table.tree.depths[at] for at in order), default=0) if table.tree else 0

    def page(self, start: int, stop: int) -> Sequence[row_list.Row]:
        rows = super().page(start, stop)
        if self._tree is None:
            return rows
        named = [self._folding.name(self._tree, at, self._least) for at in self._order[start:stop]]
        return [(name, *row[1:]) for name, row in zip(named, rows, strict=True)]


def _cells(row: views.TableRow, old: OldFiles) -> row_list.Row:
    first, *rest = row.cells
    if old.changed and old.holds(row.find_place() if row.find_place else row.place):
        return ((f"{first} · {MARK}", "warning"), *rest)
    return ((first, row.kind), *rest) if row.kind else row.cells


def columns(table: views.ViewTable, sort: Sort | None) -> list[row_list.ListColumn]:
    """Return the columns of a table, the one that it is sorted by with an arrow."""
    return [
        row_list.ListColumn(
            column.title,
            column.kind,
            "right" if column.is_number else "left",
            min_width=column.min_width,
            max_width=column.max_width,
            priority=_priority(column, sort),
            keeps=column.keeps,
            arrow=sort.arrow if sort and sort.column == column.title else "",
        )
        for column in table.columns
    ]


SORTED_PRIORITY = 1
"""The column that the rows are sorted by, and its bar, are left out after all others but the names.
"""


def _priority(column: views.TableColumn, sort: Sort | None) -> int:
    is_sorted_by = sort is not None and sort.column in (column.title, column.bar_of or column.title)
    return min(column.priority, SORTED_PRIORITY) if is_sorted_by else column.priority
