"""These tests use difficult terminals: of 20 by 5 cells, without colours, without a mouse, and
resized all the time. A terminal that answers no question is in test_terminal_background.py.
"""

from __future__ import annotations

import itertools

import pytest
from rich.color import ColorType

from fx_explorer.tui.commands import LEADERS, VIEWS, by_id
from fx_explorer.tui.commands.view_commands import MORE_VIEWS
from fx_explorer.tui.dialogs.choose import Chooser
from fx_explorer.tui.screens.help import Help
from tests.exhaustive import in_exhaustive_runs, one_of
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp

ALL_VIEWS = [*(name for name, _, _ in VIEWS), *(name for name, *_ in MORE_VIEWS)]


async def show(driver: Driver, view: str) -> None:
    await driver.press(*by_id(f"view.{view}").keys[0].split())


async def test_each_view_opens_and_can_be_left_on_20_by_5_cells(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path, size=(20, 5)) as driver:
        for view in one_of(3, ALL_VIEWS):
            await show(driver, view)
            await driver.press("down", "enter", "escape", "b", "tab", "pagedown", "1")
            assert driver.explorer.view == "overview"
            lines = driver.screen.splitlines()
            assert len(lines) == 5
            assert any(line.strip() for line in lines), view


@in_exhaustive_runs
async def test_menus_and_dialogs_open_and_close_on_20_by_5_cells(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path, size=(20, 5)) as driver:
        for key in (*LEADERS, "question_mark", "ctrl+p", "f"):
            await driver.press(key)
            await driver.until(lambda: driver.app.screen is not driver.explorer)
            assert any(line.strip() for line in driver.screen.splitlines()), key
            await driver.press("escape")
            await driver.until(lambda: driver.app.screen is driver.explorer)


@pytest.mark.parametrize(
    ("view", "words"),
    [("overview", "No problem was"), ("source", "import torch"), ("kernels", "kernel")],
)
async def test_20_by_5_cells_show_something_of_the_view_and_the_keys(
    hand: Hand, open_app: OpenApp, view: str, words: str
) -> None:
    async with open_app(hand.path, size=(20, 5)) as driver:
        await show(driver, view)
        await driver.press("g")
        assert words in driver.screen
        assert "? help" in driver.screen
        assert "▃" not in driver.screen, "a scroll bar of the whole screen"


async def test_without_colours_everything_is_said_by_words_and_signs(
    hand: Hand, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_app(hand.path) as driver:
        for view in ALL_VIEWS:
            await show(driver, view)
            for strip in driver.app.screen._compositor.render_strips():
                for _, style, _ in strip:
                    assert style is None or (_is_grey(style.color) and _is_grey(style.bgcolor)), (
                        view
                    )
        await show(driver, "source")
        assert "▶" in driver.screen  # the cursor, on a line that is lit
        assert "▌" in driver.screen  # what is linked to it


def _is_grey(color: object) -> bool:
    if color is None or color.type is ColorType.DEFAULT:  # type: ignore[attr-defined]
        return True
    red, green, blue = color.get_truecolor()  # type: ignore[attr-defined]
    return red == green == blue


async def test_without_a_mouse_every_command_is_reached_by_keys(
    hand: Hand, open_app: OpenApp
) -> None:
    """What the mouse does (a tab, a heading, a border) has a key, or a place in a menu."""
    async with open_app(hand.path) as driver:
        await driver.press("2", "tab", "tab", "tab")
        assert driver.explorer.linked.active is not None
        before = [pane.body.region.width for pane in driver.panes]
        await driver.press("p", ">")
        assert [pane.body.region.width for pane in driver.panes] != before
        await driver.press("6", "<")
        assert isinstance(driver.app.screen, Chooser)  # sorted without a click on a heading
        await driver.press("escape", "question_mark")
        assert isinstance(driver.app.screen, Help)


@in_exhaustive_runs
async def test_a_terminal_that_is_resized_all_the_time_shows_what_it_showed(
    hand: Hand, open_app: OpenApp
) -> None:
    sizes = [(160, 40), (20, 5), (80, 24), (7, 3), (200, 50), (40, 12), (1, 1), (120, 40)]
    async with open_app(hand.path) as driver:
        await driver.press("2", "j", "j")
        place = driver.explorer.place
        before = driver.screen
        for size, key in zip(
            itertools.chain(sizes, reversed(sizes)), itertools.cycle(["right", "left"])
        ):
            await driver.pilot.resize_terminal(*size)
            await driver.press(key)
        await driver.pilot.resize_terminal(160, 40)
        await driver.settle()
        assert driver.explorer.place == place
        assert driver.screen == before


async def test_a_terminal_that_grows_from_20_by_5_shows_the_whole_table(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path, size=(20, 5)) as driver:
        await driver.press("6")
        for width in range(20, 160, 20):
            await driver.pilot.resize_terminal(width, 5 + width // 5)
        await driver.settle()
        assert "kernel" in driver.screen
        assert driver.explorer.table.rows.line_count == 3
