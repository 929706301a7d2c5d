"""These tests check that no two rows of the memory view have the same name."""

from __future__ import annotations

from fx_explorer.instruments.memory.row_names import distinguishing
from fx_explorer.instruments.memory.view import memory_table
from tests.conftest import Captured, OpenedReader


def test_a_row_alone_needs_nothing() -> None:
    assert distinguishing([("m.py:8", "f32[2]")]) == [""]


def test_the_line_tells_rows_apart() -> None:
    rows = [("m.py:8", "f32[2]", "[0/0]"), ("m.py:9", "f32[2]", "[0/0]")]
    assert distinguishing(rows) == ["m.py:8", "m.py:9"]


def test_the_shape_or_the_graph_does_where_the_line_is_the_same() -> None:
    rows = [("m.py:8", "f32[2]", "[0/0]"), ("m.py:8", "f32[3]", "[0/0]")]
    assert distinguishing(rows) == ["f32[2]", "f32[3]"]
    rows = [("", "f32[2]", "[0/0]"), ("", "f32[2]", "[1/0]")]
    assert distinguishing(rows) == ["[0/0]", "[1/0]"]


def test_two_of_them_do_where_neither_does_alone() -> None:
    rows = [("m.py:8", "f32[2]"), ("m.py:8", "f32[3]"), ("m.py:9", "f32[3]")]
    assert distinguishing(rows) == ["m.py:8 f32[2]", "m.py:8 f32[3]", "m.py:9 f32[3]"]


def test_rows_that_are_the_same_in_all_are_numbered() -> None:
    assert distinguishing([("m.py:8",), ("m.py:8",)]) == ["1 of 2", "2 of 2"]


def test_a_parameter_that_graphs_on_both_sides_of_a_break_save_has_two_names(
    captured: Captured, reader: OpenedReader
) -> None:
    table = memory_table(reader(captured("graph_breaks")))
    titles = [column.title for column in table.columns]
    saved = [row for row in table.rows if row.cells[titles.index("kind")] != "recomputed"]
    names = [row.cells[titles.index("saved value")] for row in saved]
    assert len(set(names)) == len(names) > 2
