"""These tests check that every table sorts by any of its columns, can be filtered by words, and has
a sum of its rows below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from fx_explorer.drawing.view_table import TableRow, ViewTable
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.table_rows import Sort, arranged, at_once, number_in

Captured = Callable[..., Path]

MODELS = Path(__file__).parents[1] / "report" / "models"


@pytest.fixture(params=sorted(TABLES))
def table(request: pytest.FixtureRequest, captured: Captured) -> Iterator[ViewTable]:
    with SessionReader(captured(MODELS / "gpt2.py")) as reader:
        yield TABLES[request.param](reader)


def test_each_column_has_a_title_of_its_own(table: ViewTable) -> None:
    titles = [column.title for column in table.columns]
    assert all(titles)
    assert len(set(titles)) == len(titles)


def value(table: ViewTable, row: TableRow, column: int) -> float | None:
    title = table.columns[column].title
    return row.values.get(title, number_in(row.cells[column]))


def test_it_sorts_by_each_column(table: ViewTable) -> None:
    for at, column in enumerate(table.columns):
        order = at_once(arranged(table, Sort(column.title), "")).order
        assert sorted(order) == [
            place for place, row in enumerate(table.rows) if not row.is_heading
        ]
        if column.is_number or column.is_bar:
            for beside in beside_each_other(table, order):
                for before, after in pairwise(table.rows[place] for place in beside):
                    first, second = value(table, before, at), value(table, after, at)
                    in_order = second is None or (first is not None and first <= second)
                    assert in_order or before.part < after.part, (
                        column.title,
                        before.cells,
                        after.cells,
                    )


def beside_each_other(table: ViewTable, order: Sequence[int]) -> Iterable[list[int]]:
    """Return the rows that are sorted together: all of them, or in a tree those with the same
    parent.
    """
    if table.tree is None:
        return [list(order)]
    within: dict[tuple[int, ...], list[int]] = {}
    path: list[int] = []
    for place in order:
        del path[table.tree.depths[place] :]
        within.setdefault(tuple(path), []).append(place)
        path.append(place)
    return within.values()


def test_it_narrows_to_what_is_typed(table: ViewTable) -> None:
    if not table.rows or table.searched:
        return
    last = len(table.rows) - 1
    word = next(cell for cell in table.rows[last].cells if cell.strip()).split()[0]
    found = at_once(arranged(table, None, word))
    assert last in found.order
    assert f"{len(found.order):,} of {len(table.rows):,} row" in found.totals


def test_below_stands_what_its_rows_add_up_to(table: ViewTable) -> None:
    found = at_once(arranged(table, None, ""))
    counted = [
        row for at, row in enumerate(table.rows) if not table.tree or table.tree.depths[at] == 0
    ]
    assert table.tree or f"{sum(not row.is_heading for row in counted):,} row" in found.totals
    for column in table.columns:
        known = [row.values[column.title] for row in counted if column.title in row.values]
        if column.total and known:
            assert f"{column.title} {column.total(sum(known))}" in found.totals


def test_a_view_without_rows_says_why(table: ViewTable) -> None:
    assert table.rows or table.empty.endswith(".")
