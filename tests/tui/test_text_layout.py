"""These tests check code in a narrow pane: indentation folded, lines wrapped, highlighted lines
visible. Rows are counted by hand.
"""

from __future__ import annotations

from math import ceil

import pytest
from rich.cells import cell_len

from fx_explorer.cut_text import cut_cells
from fx_explorer.tui.widgets.code_view import CELLS_SEEN, CodeView
from fx_explorer.tui.widgets.row_list import ListColumn, RowList, Rows
from fx_explorer.tui.widgets.text_layout import WrappedRows, folded
from tests.exhaustive import with_others
from tests.tui.conftest import OpenApp
from tests.tui.lines_app import LinesApp

KERNEL = "void k() {\n    for (;;) {\n        for (;;) {\n            auto tmp0 = in_ptr0[x0];\n        }\n    }\n}"
SIZE = (24, 12)


def test_each_level_of_four_cells_is_shown_as_two() -> None:
    shown = [folded(KERNEL).text(line) for line in KERNEL.split("\n")]
    assert [len(line) - len(line.lstrip()) for line in shown] == [0, 2, 4, 6, 4, 2, 0]


def test_what_all_lines_have_in_common_is_left_out() -> None:
    assert folded("\t\tmov.u32\n\t\t\tadd\n\n\t\tret").text("        mov.u32") == "mov.u32"


def test_lines_that_are_aligned_under_each_other_stay_in_their_level() -> None:
    """A continued argument list stands 13 cells to the right: three levels and a cell."""
    assert folded(KERNEL).text(" " * 13 + "b)") == " " * 7 + "b)"


@pytest.mark.parametrize("text", ["", "\n\n", "a\n  b\n    c", "   "])
def test_a_text_of_small_or_no_levels_stays_as_it_is(text: str) -> None:
    lines = text.split("\n")
    assert [folded(text).text(line) for line in lines if line.strip()] == [
        line for line in lines if line.strip()
    ]


@pytest.mark.parametrize(
    "text", ["word " * 40, "x" * 100, "    " + "indented, " * 20, "文字" * 40, "", "a" + "b" * 19]
)
def test_the_rows_of_a_wrapped_line_are_all_of_it(text: str) -> None:
    rows = WrappedRows([text, "next"], 20)
    parts = [rows.part(row) for row in rows.rows_of(0)]
    assert (
        "".join(cut_cells(text, start, 10**6 if stop is None else stop) for start, stop in parts)
        == text
    )
    assert rows.line_of(len(rows) - 1) == 1
    assert [rows.line_of(row) for row in rows.rows_of(0)] == [0] * len(parts)


async def test_a_wrapped_text_shows_all_of_each_line_with_its_number_once() -> None:
    text = "short\n" + "alpha beta gamma delta epsilon\n" + "end"
    async with LinesApp(CodeView(text)).run_test(size=SIZE) as pilot:
        view = pilot.app.view
        view.wraps = True
        await pilot.pause()
        rows = [row.rstrip() for row in pilot.app.shown()]
        assert rows[0] == "▸1 short"
        assert rows[1].startswith(" 2 alpha beta")
        assert rows[2].startswith("     ")
        assert (
            " ".join(" ".join(row[2:] for row in rows[1:3]).split())
            == "alpha beta gamma delta epsilon"
        )
        assert rows[3] == " 3 end"
        view.wraps = False
        await pilot.pause()
        assert view.line_count == 3


async def test_cursor_and_marks_stay_on_their_lines_when_lines_are_wrapped_and_when_the_pane_changes() -> (
    None
):
    text = "\n".join(["long words in a line that goes on and on"] * 9)
    async with LinesApp(CodeView(text)).run_test(size=SIZE) as pilot:
        view = pilot.app.view
        view.move_to(4)
        view.marks = frozenset({2})
        view.wraps = True
        for width in (24, 40, 18):
            await pilot.resize_terminal(width, 12)
            await pilot.pause()
            assert view.line_of_row(view.cursor) == 4
            assert {view.line_of_row(row) for row in view.marks} == {2}
            assert view.marks == frozenset(view.rows_of_line(2))


async def test_what_is_copied_has_its_indentation_and_is_one_line_however_it_is_wrapped() -> None:
    async with LinesApp(CodeView(KERNEL)).run_test(size=SIZE) as pilot:
        view = pilot.app.view
        view.load(KERNEL, "cpp", layout=folded(KERNEL))
        view.wraps = True
        await pilot.pause()
        view.move_to(view.rows_of_line(3)[-1])
        assert view.text_to_copy() == "            auto tmp0 = in_ptr0[x0];"
        view.select(range(view.line_count))
        assert view.text_to_copy() == KERNEL


async def test_a_find_finds_what_a_wrapped_line_cuts() -> None:
    async with LinesApp(CodeView("first\nalpha beta gamma delta epsilon")).run_test(
        size=SIZE
    ) as pilot:
        view = pilot.app.view
        view.wraps = True
        await pilot.pause()
        view.find("gamma delta epsilon")
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        assert [view.line_of_row(row) for row in view.matches] == [1]


@pytest.mark.parametrize("width", with_others([30, 100], [60]))
@pytest.mark.parametrize("depths", [(0, 24), (48, 48), (0, 60), (20, 100)])
async def test_no_lit_line_is_blank(
    hand, open_app: OpenApp, width: int, depths: tuple[int, int]
) -> None:  # type: ignore[no-untyped-def]
    """However deep the lines are that are lit together, each shows some of its text."""
    text = "\n".join(
        " " * depth + "some_call_of_a_long_name(argument, another);" for depth in depths
    )
    async with open_app(hand.path, size=(width, 24)) as driver:
        await driver.press("2", "p", "z")
        pane = driver.explorer.linked.active
        pane._text.code.load(text)
        pane.show_links(frozenset({0, 1}), anchor=0)
        await driver.settle()
        left, room = pane._text.code.scroll_offset.x, pane._text.code.body_width
        seen = [line[left : left + room].strip() for line in text.split("\n")]
        if max(depths) - min(depths) <= room - 2 * CELLS_SEEN or room >= max(depths) + CELLS_SEEN:
            assert all(seen), (left, room)
        assert any(seen)


async def test_the_key_wraps_the_lines_of_the_focused_pane(hand, open_app: OpenApp) -> None:  # type: ignore[no-untyped-def]
    async with open_app(hand.path, size=(80, 24)) as driver:
        await driver.press("2", "backslash")
        assert driver.explorer.linked.active.wraps
        assert "Long lines are wrapped" in driver.screen
        await driver.press("backslash")
        assert not driver.explorer.linked.active.wraps


async def test_names_that_differ_at_their_ends_are_told_apart() -> None:
    names = [f"triton_per_fused_native_layer_norm_backward_{number}" for number in (2, 5)]
    columns = (ListColumn("kernel", min_width=10, max_width=20, keeps="name"), ListColumn("note"))
    async with LinesApp(RowList(columns, Rows([(name, "x") for name in names]))).run_test(
        size=(40, 6)
    ) as pilot:
        shown = [row.split()[0].lstrip("▸") for row in pilot.app.shown()[1:3]]
        assert [name[-2:] for name in shown] == ["_2", "_5"]
        assert all(name.startswith("triton") and "…" in name and len(name) == 20 for name in shown)


@pytest.mark.parametrize("character", ["x", "文", "é"])
def test_a_line_of_a_million_characters_is_wrapped_row_by_row(character: str) -> None:
    """Each row looks at no more of the line than it shows: otherwise this would take hours."""
    rows = WrappedRows([character * 1_000_000], 60)
    # The first row has 60 cells, each further one is indented by two.
    assert len(rows) == 1 + ceil((cell_len(character) * 1_000_000 - 60) / 58)


async def test_a_pane_that_was_too_narrow_for_any_row_keeps_its_line() -> None:
    async with LinesApp(CodeView("\n".join(["some words that go on"] * 9))).run_test(
        size=SIZE
    ) as pilot:
        view = pilot.app.view
        view.wraps = True
        view.move_to(view.rows_of_line(6)[0])
        for width in (2, 24):
            await pilot.resize_terminal(width, 12)
            await pilot.pause()
        assert view.line_of_row(view.cursor) == 6
