"""These tests check RowList: rows by page from a source, columns that follow the pane."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fx_explorer.tui.widgets.row_list import (
    PAGE_ROWS,
    ListColumn,
    Row,
    RowList,
    Rows,
    column_widths,
)
from tests.tui.lines_app import LinesApp

COLUMNS = (
    ListColumn("name", "variable"),
    ListColumn("target", "function", max_width=12),
    ListColumn("shape", "number", priority=1),
)
SIZE = (60, 12)


class Nodes:
    """Nodes counts the requests for its rows."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked: list[tuple[int, int]] = []

    def __len__(self) -> int:
        return self.count

    def page(self, start: int, stop: int) -> Sequence[Row]:
        self.asked.append((start, stop))
        return [
            (f"mul_{i}", "aten.mul.Tensor", f"f32[{i}]")
            for i in range(start, min(stop, self.count))
        ]


def app_of(source: object, columns: Sequence[ListColumn] = COLUMNS, **options: object) -> LinesApp:
    return LinesApp(RowList(columns, source, **options))  # type: ignore[arg-type]


async def test_rows_stand_in_columns_under_their_titles() -> None:
    async with app_of(Nodes(3)).run_test(size=SIZE) as pilot:
        assert pilot.app.shown()[:3] == [
            " name   target        shape",
            "▸mul_0  aten.mul.Te…  f32[0]",
            " mul_1  aten.mul.Te…  f32[1]",
        ]


async def test_a_list_without_titles_has_no_header() -> None:
    async with app_of(Rows([("a",), ("b",)]), [ListColumn()]).run_test(size=SIZE) as pilot:
        assert pilot.app.shown()[:2] == ["▸a", " b"]


async def test_hundred_thousand_rows_fetch_only_the_pages_on_screen() -> None:
    source = Nodes(100_000)
    async with app_of(source).run_test(size=SIZE) as pilot:
        assert source.asked == [(0, PAGE_ROWS)]
        await pilot.press("G")
        await pilot.press("k", "k", "j")
        last = 99_999 // PAGE_ROWS * PAGE_ROWS
        assert source.asked == [(0, PAGE_ROWS), (last, 100_000)]
        assert pilot.app.shown()[-2].startswith("▸mul_99998")


async def test_going_through_a_list_keeps_a_bounded_number_of_pages() -> None:
    source = Nodes(100_000)
    async with app_of(source).run_test(size=SIZE) as pilot:
        for line in range(0, 100_000, 5 * PAGE_ROWS):
            pilot.app.view.move_to(line)
            pilot.app.shown()
        assert len(pilot.app.view._pages) <= 32  # type: ignore[attr-defined]
        assert len(source.asked) <= 3 * 100_000 // (5 * PAGE_ROWS)


async def test_the_header_stays_while_rows_scroll() -> None:
    async with app_of(Nodes(50)).run_test(size=SIZE) as pilot:
        await pilot.press("G")
        shown = pilot.app.shown()
        assert shown[0].split() == ["name", "target", "shape"]
        assert shown[-1].startswith("▸mul_49")
        assert len(pilot.app.view.visible_lines) == 11


async def test_a_click_under_the_header_selects_the_row_it_points_at() -> None:
    async with app_of(Nodes(50)).run_test(size=SIZE) as pilot:
        await pilot.click(RowList, offset=(5, 3))
        assert pilot.app.moved == [2]
        await pilot.click(RowList, offset=(5, 0))
        assert pilot.app.moved == [2]


async def test_rows_that_arrive_later_appear_and_the_cursor_stays() -> None:
    source = Nodes(3)
    async with app_of(source).run_test(size=SIZE) as pilot:
        await pilot.press("down")
        source.count = 200
        pilot.app.view.reload()  # type: ignore[attr-defined]
        assert pilot.app.view.cursor == 1
        assert pilot.app.view.line_count == 200
        assert pilot.app.shown()[4].startswith(" mul_3")


async def test_a_list_whose_source_shrank_unnoticed_does_not_fail() -> None:
    source = Nodes(500)
    async with app_of(source).run_test(size=SIZE) as pilot:
        source.count = 10
        pilot.app.view.move_to(499)
        await pilot.pause()
        assert "this row is gone" in pilot.app.shown()[-1]


async def test_cells_may_have_kinds_of_their_own() -> None:
    rows = Rows([([("✗ ", "bad"), ("failed", "text")], ("3", "good"))])
    async with app_of(rows, [ListColumn("state"), ListColumn("count")]).run_test(
        size=SIZE
    ) as pilot:
        assert pilot.app.shown()[1] == "▸✗ failed  3"
        assert pilot.app.style_at(1, "✗") != pilot.app.style_at(1, "failed")


async def test_cells_from_outside_cannot_steer_the_terminal() -> None:
    rows = Rows([("\x1b[2Jname\n", [("\x9b31m", "text")], ("a\tb", "text"))])
    async with app_of(rows).run_test(size=SIZE) as pilot:
        assert pilot.app.shown()[1] == "▸␛[2Jname␊  \\x9b31m  a   b"
        assert all(row.isprintable() for row in pilot.app.shown())


async def test_wide_characters_are_cut_to_their_column() -> None:
    rows = Rows([("漢字漢字漢字漢字", "x"), ("ab", "y")])
    columns = [ListColumn("name", max_width=7), ListColumn("next")]
    async with app_of(rows, columns).run_test(size=SIZE) as pilot:
        assert pilot.app.shown()[1:3] == ["▸漢字漢…  x", " ab       y"]


async def test_numbers_are_aligned_right() -> None:
    rows = Rows([("9",), ("1000",)])
    async with app_of(rows, [ListColumn("n", align="right"), ListColumn("x")]).run_test(
        size=SIZE
    ) as pilot:
        assert pilot.app.shown()[1:3] == ["▸   9", " 1000"]


async def test_find_looks_through_all_rows_and_keeps_none_of_them() -> None:
    source = Nodes(10_000)
    async with app_of(source).run_test(size=SIZE) as pilot:
        pilot.app.view.find("mul_77")
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert list(pilot.app.view.matches) == [77, *range(770, 780), *range(7_700, 7_800)]
        assert len(pilot.app.view._pages) <= 2  # type: ignore[attr-defined]


async def test_copying_gives_the_row_as_text() -> None:
    async with app_of(Nodes(3)).run_test(size=SIZE) as pilot:
        assert pilot.app.view.text_to_copy() == "mul_0  aten.mul.Tensor  f32[0]"


async def test_a_narrow_pane_leaves_out_the_least_important_column() -> None:
    async with app_of(Nodes(3)).run_test(size=(14, 6)) as pilot:
        assert pilot.app.shown()[0].split() == ["name", "targe"]
        await pilot.resize_terminal(60, 6)
        await pilot.pause()
        assert pilot.app.shown()[0].split() == ["name", "target", "shape"]


async def test_other_rows_start_at_the_top() -> None:
    async with app_of(Nodes(100)).run_test(size=SIZE) as pilot:
        await pilot.press("G")
        pilot.app.view.load(Rows([("one",)]), [ListColumn("only")])  # type: ignore[attr-defined]
        await pilot.pause()
        assert pilot.app.shown()[:2] == [" only", "▸one"]


async def test_an_empty_list_says_why() -> None:
    async with app_of(
        Rows(), placeholder="No graph breaks: the whole model is one graph."
    ).run_test(size=SIZE) as pilot:
        assert "No graph breaks" in " ".join(pilot.app.shown())


@pytest.mark.parametrize("room", range(1, 120, 7))
def test_columns_fit_whenever_their_least_widths_do(room: int) -> None:
    columns = [
        ListColumn(min_width=4),
        ListColumn(min_width=6, priority=2),
        ListColumn(min_width=3, priority=1),
        ListColumn(min_width=5),
    ]
    layout = column_widths(columns, [20, 30, 10, 40], room)
    total = sum(width for _, width in layout) + 2 * (len(layout) - 1)
    assert [index for index, _ in layout if columns[index].priority == 0] == [0, 3]
    assert total <= room or room < 4 + 5 + 2
    assert all(width >= columns[index].min_width for index, width in layout)


def test_a_wide_pane_gives_each_column_what_it_needs() -> None:
    columns = [ListColumn(), ListColumn(max_width=12), ListColumn()]
    assert column_widths(columns, [9, 30, 2], 200) == ((0, 9), (1, 12), (2, 4))


async def test_of_a_long_path_the_end_is_shown() -> None:
    columns = [ListColumn("module", max_width=12, keeps="end"), ListColumn("n")]
    async with app_of(Rows([("model.layers.0.mlp", "1"), ("head", "2")]), columns).run_test(
        size=SIZE
    ) as pilot:
        assert pilot.app.shown()[1:3] == ["▸…ayers.0.mlp  1", " head          2"]


async def test_of_a_cell_whose_both_ends_tell_it_apart_both_are_shown() -> None:
    columns = [ListColumn("value", max_width=16, keeps="both"), ListColumn("n")]
    values = [("second.hidden.weight", "1"), ("addmm (first.hidden)", "2"), ("x", "3")]
    async with app_of(Rows(values), columns).run_test(size=SIZE) as pilot:
        assert pilot.app.shown()[1:4] == [
            "▸second…en.weight  1",
            " addmm …t.hidden)  2",
            " x                 3",
        ]


async def test_of_a_path_in_the_last_column_the_end_is_shown_too() -> None:
    columns = [ListColumn("n"), ListColumn("line", keeps="end")]
    async with app_of(Rows([("1", "modeling_bert.py:335")]), columns).run_test(
        size=(20, 4)
    ) as pilot:
        assert pilot.app.shown()[1].rstrip().endswith("bert.py:335")


def test_columns_that_are_equally_wide_lose_equally_much() -> None:
    columns = (
        ListColumn("sign", min_width=1, max_width=1),
        ListColumn("left", max_width=200),
        ListColumn("right", max_width=200),
    )
    assert column_widths(columns, (1, 90, 200), 105) == ((0, 1), (1, 50), (2, 50))


async def test_a_last_column_that_goes_on_behind_the_edge_ends_in_an_ellipsis_until_it_is_scrolled_to() -> (
    None
):
    words = "which branch runs depends on a tensor's value"
    async with app_of(Rows([(words,), ("short",)]), [ListColumn()]).run_test(size=(30, 4)) as pilot:
        assert [line.rstrip() for line in pilot.app.shown()[:2]] == [
            "▸which branch runs depends o…",
            " short",
        ]
        await pilot.press(*["right"] * len(words))
        assert pilot.app.shown()[0].rstrip().endswith("value")
