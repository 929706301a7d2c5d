"""These tests check that tables are sorted by any column, filtered by words and added up; the
answers are counted by hand.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.drawing.view_table import TableColumn, TableRow, ViewTable
from fx_explorer.gpus import find_gpu
from fx_explorer.session import SessionWriter
from fx_explorer.tui.panes.table_rows import (
    Arrangement,
    Sort,
    arranged,
    at_once,
    next_sort,
    number_in,
)
from tests.sessions import Hand
from tests.tui.conftest import OpenApp

NUMBERS = (1536.0, 12.0, 9_000.0)
CELLS = (("layers.10", "1.5 kB"), ("layers.9", "12 B"), ("head", "9.0 kB"), ("bias", ""))


def table(rows: list[TableRow] | None = None, versions: dict[str, str] | None = None) -> ViewTable:
    columns = (
        TableColumn("module"),
        TableColumn("bytes", is_number=True, total=lambda value: f"{value:,.0f} B"),
    )
    return ViewTable(
        "",
        "",
        "",
        columns,
        rows or [TableRow(cells) for cells in CELLS],
        "",
        versions=versions or {},
    )


def order(of: ViewTable, sort: Sort | None, words: str = "") -> list[int]:
    return list(at_once(arranged(of, sort, words)).order)


def test_texts_sort_with_their_numbers_as_numbers() -> None:
    assert order(table(), Sort("module")) == [3, 2, 1, 0]


def test_sizes_sort_by_what_they_are_and_empty_cells_come_last_both_ways() -> None:
    assert order(table(), Sort("bytes")) == [1, 0, 2, 3]
    assert order(table(), Sort("bytes", is_descending=True)) == [2, 0, 1, 3]


def test_exact_values_win_over_rounded_cells() -> None:
    rows = [
        TableRow(("a", "1.2 kB"), values={"bytes": 1_249}),
        TableRow(("b", "1.2 kB"), values={"bytes": 1_151}),
    ]
    assert order(table(rows), Sort("bytes")) == [1, 0]


def test_rows_of_different_kinds_stay_apart_and_headings_go() -> None:
    rows = [
        TableRow(("group", "9 B"), is_heading=True),
        TableRow(("a", "1 B")),
        TableRow(("b", "2 B")),
        TableRow(("c", "5 B"), part=1),
    ]
    assert order(table(rows), Sort("bytes", is_descending=True)) == [2, 1, 3]
    assert order(table(rows), None) == [0, 1, 2, 3]


def test_equal_rows_keep_their_order_both_ways() -> None:
    rows = [TableRow((name, "1 B")) for name in "abc"]
    assert order(table(rows), Sort("bytes")) == [0, 1, 2]
    assert order(table(rows), Sort("bytes", is_descending=True)) == [0, 1, 2]


def test_rows_with_all_words_are_shown() -> None:
    assert order(table(), None, "layers 9") == [1]
    assert order(table(), None, "LAYERS") == [0, 1]
    assert at_once(arranged(table(), None, "layers")).totals == "2 of 4 rows"


def test_a_column_is_sorted_then_turned_round_then_let_go() -> None:
    first = next_sort(table(), None, "bytes")
    second = next_sort(table(), first, "bytes")
    assert (first, second) == (Sort("bytes", is_descending=True), Sort("bytes"))
    assert next_sort(table(), second, "bytes") is None
    assert next_sort(table(), first, "module") == Sort("module")


def test_sums_say_which_versions_they_add_up() -> None:
    rows = [
        TableRow(("", ""), values={"bytes": value}, version=name)
        for value, name in ((1, "0/0"), (2, "0/1"), (4, "1/0"))
    ]
    several = {"0/0": "twice", "0/1": "twice"}
    assert (
        at_once(arranged(table(rows, several), None, "")).totals
        == "3 rows · adds up 2 versions of twice: [0/0] and [0/1] · bytes 7 B"
    )
    assert at_once(arranged(table(rows[1:], several), None, "")).totals == "2 rows · bytes 6 B"


def test_100_000_rows_are_sorted_in_short_steps() -> None:
    """Each step looks at 250 rows at most, or passes once over what is sorted already."""
    rows = [TableRow((f"k{at}", f"{(at * 7919) % 100_003:,}")) for at in range(100_000)]
    steps: list[Arrangement | None] = list(arranged(table(rows), Sort("bytes"), ""))
    found = steps[-1]
    assert found
    assert len(steps) > 400
    assert [rows[at].cells[1] for at in found.order[:3]] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,204", 1204),
        ("1.2 MB", 1.2e6),
        ("3.50 µs", 3.5e-6),
        ("≥ 12 ms", 0.012),
        ("38 %", 38),
        ("4×", 4),
        ("2 min 5 s", 120),
        ("none", None),
    ],
)
def test_numbers_are_read_in_the_base_of_their_unit(text: str, number: float | None) -> None:
    assert number_in(text) == (pytest.approx(number) if number is not None else None)


async def test_a_click_on_a_heading_sorts_and_turns_round(open_app: OpenApp, hand: Hand) -> None:
    """By hand: the forward runs addmm (1 node, line 7), kernel (1 node, line 7), addmm (1 node,
    line 8).
    """
    async with open_app(hand.path) as driver:
        await driver.press("6")
        rows = driver.explorer.table.rows
        names = [
            line.index("your line") for line in driver.screen.splitlines() if "your line" in line
        ]
        offset = names[0] - rows.region.x
        await driver.pilot.click(rows, offset=(offset, 0))
        assert "your line ▲" in driver.screen
        await driver.pilot.click(rows, offset=(offset, 0))
        await driver.settle()
        assert "your line ▼" in driver.screen
        assert rows.row(0)[3] == "mlp.py:8"
        assert (
            driver.explorer.place.line == 10
        )  # the call of the last addmm in the output code, line 11
        await driver.pilot.click(rows, offset=(offset, 0))
        await driver.settle()
        assert rows.row(0)[3] == "mlp.py:7"
        assert "▼" not in driver.screen


async def test_the_kernels_open_at_the_slowest(open_app: OpenApp, tmp_path: Path) -> None:
    """By hand: an H100 reads 3.35 TB/s, so the second kernel takes 300 µs and the others 3 µs."""
    with SessionWriter(tmp_path / "s.fxs") as writer:
        writer.set_meta("request", {"target": "m.py", "gpu": asdict(find_gpu("h100"))})
        compilation = writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p/m.py", 1, status="ok"))
        for name, size in (("first", 10**7), ("second", 10**9), ("third", 10**7)):
            writer.add(
                model.Kernel(0, compilation, "forward", 0, name, "triton", estimated_bytes=size)
            )
    async with open_app(tmp_path / "s.fxs") as driver:
        await driver.press("6")
        await driver.until(lambda: "Slowest: #2 second" in driver.screen)
        table = driver.explorer.table
        assert table.rows.cursor == 1
        await driver.press("g", "1", "6")
        assert table.rows.cursor == 0  # where the user has been, the view opens again


async def test_a_key_sorts_by_the_column_that_is_chosen(open_app: OpenApp, hand: Hand) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("6", "less_than_sign", *"lines", "enter")
        assert "lines ▼" in driver.screen
        assert driver.explorer.table.rows.row(0)[2] == "kernel"


async def test_any_table_is_narrowed_by_typing_and_escape_shows_all(
    open_app: OpenApp, hand: Hand
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("6", "v", "f", *"gelu")
        assert "1 of 3 rows" in driver.screen
        assert "gelu" in driver.explorer.table.rows.row(0)[-1]
        await driver.press("escape")
        assert "3 rows · calls 3" in driver.screen
        await driver.press("v", "f", *"nothing has this", "enter")
        assert "No row has all of these words: nothing has this" in driver.screen
