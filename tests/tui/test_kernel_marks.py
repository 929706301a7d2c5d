"""These tests check that a kernel has one number and one colour in every pane, and that the source
shows the cost of each line.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.color import Color

from fx_explorer import model
from fx_explorer.analysis.documents import Document, document_of
from fx_explorer.drawing.colours import KERNEL_COLOURS, kernel_kind, kernel_numbers
from fx_explorer.instruments.kernels.line_heat import LineHeat
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.kernels import kernels_of_each
from fx_explorer.tui.config import Config
from fx_explorer.tui.panes.kernel_marks import source_gutter
from fx_explorer.tui.panes.pane_text import OutputCodeKernels
from fx_explorer.tui.theme import DARK, KINDS, LIGHT, Palette
from tests.analysis.test_source_heat import kernels_of_two_lines
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp


def test_kernels_that_follow_one_another_have_other_colours_of_the_palette() -> None:
    kinds = [kernel_kind(kernel) for kernel in range(1, 4 * KERNEL_COLOURS)]
    assert set(kinds) <= KINDS.keys()
    assert all(
        len(set(kinds[at : at + KERNEL_COLOURS])) == KERNEL_COLOURS
        for at in range(len(kinds) - KERNEL_COLOURS + 1)
    )


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=["dark", "light"])
def test_the_colours_differ_and_can_be_read(theme) -> None:  # type: ignore[no-untyped-def]
    background = Color.parse(theme.background)
    palette = Palette(
        {**theme.variables, "foreground": theme.foreground},
        background,
        has_focus=False,
        is_ansi=False,
        is_colourless=False,
    )
    found = [
        Color.from_rich_color(palette.style(f"kernel-{at}").color) for at in range(KERNEL_COLOURS)
    ]
    assert len({colour.hex for colour in found}) == KERNEL_COLOURS
    for colour in found:
        light, dark = sorted((luminance(colour), luminance(background)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, colour.hex  # WCAG AA


def luminance(colour: Color) -> float:
    parts = [
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4
        for part in colour.normalized
    ]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def test_of_several_kernels_the_first_is_named() -> None:
    assert kernel_numbers([]) == ("", "muted")
    assert kernel_numbers([3]) == ("3", kernel_kind(3))
    assert kernel_numbers([3, 7, 9]) == ("3+", kernel_kind(3))


def written(
    heat: dict[int, LineHeat], blocks: int = 3, events: dict[int, tuple[str, str]] | None = None
) -> dict[int, str]:
    return {
        line: "".join(text for text, _ in one)
        for line, one in source_gutter(events or {}, heat, blocks).items()
    }


def test_the_gutter_says_share_and_number_in_columns() -> None:
    heat = {3: LineHeat(((1, 0.4), (2, 0.02))), 5: LineHeat(((2, 0.003),))}
    assert written(heat) == {3: "█▁42%×2", 5: " ▁<1%×1"}
    assert written(heat, blocks=1) == {3: "█42%×2", 5: "▁<1%×1"}
    assert written(heat, 1, {5: ("✗", "bad"), 9: ("↻", "warning")}) == {
        3: "  █42%×2",
        5: "✗ ▁<1%×1",
        9: "↻ ",
    }


def test_the_gutter_counts_kernels_of_which_nothing_is_known() -> None:
    assert written({3: LineHeat(((1, 0.0), (2, 0.0)))}, 1) == {3: "■×2"}


def test_a_node_has_the_kernels_of_what_became_of_it(hand: Hand) -> None:
    """By hand: gelu is in the kernel (1), the two addmm are library calls (2 and 3)."""
    with SessionReader(hand.path) as reader:
        for graph in ("dynamo", "joint", "forward", "post_forward"):
            nodes = {hand.node(graph, at): [kernel] for at, kernel in ((1, 2), (2, 1), (3, 3))}
            assert kernels_of_each(reader, nodes) == nodes
        assert kernels_of_each(reader, [hand.node("backward", 1), hand.node("forward", 0)]) == {}


def test_output_code_has_the_colours_of_bodies_and_calls(hand: Hand) -> None:
    """The kernel's code is in lines 3 to 6, its call in line 10; the library calls are in lines 9
    and 11.
    """
    with SessionReader(hand.path) as reader:
        kind_of = OutputCodeKernels(reader, hand.output_code)
        first, second, third = map(kernel_kind, (1, 2, 3))
        found = [kind_of(line) for line in range(11)]
    assert found == ["", "", first, first, first, first, "", "", second, first, third]


async def test_every_pane_marks_a_kernel_alike(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2")
        source, graph, kernel = driver.panes
        assert gutter(source, 6) == [
            ("7 ", kernel_kind(1)),
            ("■", kernel_kind(1)),
            ("×2 ", "muted"),
        ]
        assert gutter(source, 4)[0] == ("5 ", "gutter")
        numbers = [graph.body.row(line)[0] for line in range(graph.body.line_count)]
        assert ("1", kernel_kind(1)) in numbers
        assert {
            kind for _, kind in (gutter(kernel, line)[0] for line in range(kernel.body.line_count))
        } == {kernel_kind(1)}
        assert "#1 kernel" in driver.screen


def gutter(pane, line: int) -> list[tuple[str, str]]:  # type: ignore[no-untyped-def]
    return list(pane.body.gutter_tokens(line))


async def test_a_key_takes_the_marks_away_and_brings_them_back(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2")
        source, graph, _ = driver.panes
        cursor, lit = graph.place, graph.lit
        marked = driver.screen
        assert "×2" in marked
        await driver.press("p", "h")
        assert "×2" not in driver.screen
        assert "#1 kernel [" not in driver.screen
        assert (graph.place, graph.lit) == (cursor, lit)
        assert gutter(source, 6) == [("7 ", "gutter")]
        await driver.press("p", "h")
        await driver.until(lambda: "×2" in driver.screen)
        assert (graph.place, graph.lit) == (cursor, lit)


async def test_the_configuration_can_leave_the_marks_off(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, config=Config(mark_kernels=False)) as driver:
        await driver.press("2")
        assert "×2" not in driver.screen
        await driver.press("p", "h")
        assert "×2" in driver.screen


async def test_the_line_under_the_cursor_is_told_what_it_costs(
    tmp_path: Path, open_app: OpenApp
) -> None:
    path = tmp_path / "s.fxs"
    with SessionWriter(path) as writer:
        kernels_of_two_lines(writer, measured=2)
        writer.set_meta("outcome", model.Outcome("finished").to_json())
    async with open_app(path) as driver:
        await driver.press("2")
        await to_source(driver, path)
        assert "f.py · % of time" in driver.screen
        assert "2 kernels, 67% of the measured time" in driver.screen
        assert re.search(r"2 .33%×1 b", driver.screen)
        assert re.search(r"3 .67%×2 c", driver.screen)


async def to_source(driver: Driver, path: Path) -> None:
    """Put the cursor on line 3 of the source."""
    with SessionReader(path) as reader:
        source: Document = document_of(reader, "source", 1)
    pane = next(one for one in driver.panes if one.document == source)
    driver.explorer.linked.activate(pane)
    await driver.press("g", "down", "down")


def test_the_table_of_kernels_begins_with_the_number(hand: Hand) -> None:
    with SessionReader(hand.path) as reader:
        rows = TABLES["kernels"](reader).rows
        assert [(row.cells[0], row.kind) for row in rows] == [
            (str(one), kernel_kind(one)) for one in (2, 1, 3)
        ]
