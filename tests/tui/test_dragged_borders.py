"""These tests drag borders with the mouse: between linked panes, beside the outline, above a
detail. Keys do it too.
"""

from __future__ import annotations

import pytest

from fx_explorer.tui.screens.views import LEAST_OUTLINE_CELLS
from fx_explorer.tui.widgets.pane_border import LEAST_CELLS, move_border
from tests.exhaustive import in_exhaustive_runs
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp


async def drag(driver: Driver, start: tuple[int, int], end: tuple[int, int]) -> None:
    await driver.pilot.mouse_down(offset=start)
    await driver.pilot.hover(offset=end)
    await driver.pilot.mouse_up(offset=end)
    await driver.settle()


def widths(driver: Driver) -> list[int]:
    return [pane.body.region.width for pane in driver.panes if pane.display]


def border_of(driver: Driver) -> int:
    """The column of the border between the first two panes."""
    return driver.panes[1].body.region.x - 1


def test_a_border_takes_from_one_side_what_it_gives_to_the_other() -> None:
    assert move_border([40, 40, 40], 0, 7) == [47, 33, 40]
    assert move_border([40, 40, 40], 1, -7) == [40, 33, 47]


@pytest.mark.parametrize("by", [-1000, 1000])
def test_no_pane_is_dragged_to_nothing_and_a_narrow_one_stays_as_it_is(by: int) -> None:
    assert sorted(move_border([40, 40], 0, by)) == [LEAST_CELLS, 80 - LEAST_CELLS]
    assert min(move_border([5, 40], 0, by)) >= 5


async def test_the_border_between_two_panes_is_dragged(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2")
        before = widths(driver)
        border = border_of(driver)
        await drag(driver, (border, 12), (border - 10, 14))
        after = widths(driver)
        assert (after[0], after[1]) == (before[0] - 10, before[1] + 10)
        assert after[2:] == before[2:]
        assert "│" in driver.screen.splitlines()[12][border_of(driver)]


async def test_dragged_panes_keep_their_shares_in_a_terminal_of_another_size(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2", "o", "o")
        border = border_of(driver)
        await drag(driver, (border, 12), (border + 20, 12))
        before = widths(driver)
        await driver.pilot.resize_terminal(200, 50)
        await driver.settle()
        assert sum(widths(driver)) > sum(before)
        assert widths(driver)[0] / sum(widths(driver)) == pytest.approx(
            before[0] / sum(before), abs=0.02
        )


@in_exhaustive_runs
async def test_a_double_click_on_a_border_and_another_preset_share_evenly_again(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2")
        even = widths(driver)
        for again in ("click", "preset"):
            border = border_of(driver)
            await drag(driver, (border, 12), (border + 9, 12))
            assert widths(driver) != even
            if again == "click":
                await driver.pilot.click(offset=(border_of(driver), 12), times=2)
            else:
                await driver.press("p", "s")
            await driver.settle()
            assert widths(driver) == even


async def test_a_click_on_a_border_moves_no_cursor(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2")
        place = driver.explorer.place
        await driver.pilot.click(offset=(border_of(driver), 12))
        assert driver.explorer.place == place


async def test_keys_make_the_focused_pane_wider_and_narrower(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("2")
        before = widths(driver)
        await driver.press("p", ">")
        assert widths(driver)[0] > before[0]
        await driver.press("p", "<")
        assert widths(driver) == before
        await driver.press("p", "z", "p", ">")
        assert "only pane already has all the room" in driver.screen


async def test_the_outline_is_dragged_and_stays_within_bounds(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("o", "o")
        outline = driver.explorer.outline
        border = outline.region.right
        await drag(driver, (border, 20), (border + 11, 20))
        assert outline.region.width == border + 11 - outline.region.x
        await drag(driver, (outline.region.right, 20), (0, 20))
        assert outline.region.width == LEAST_OUTLINE_CELLS
        await drag(driver, (outline.region.right, 20), (159, 20))
        assert driver.explorer.facts.region.width > 0


@in_exhaustive_runs
async def test_the_border_above_a_detail_is_dragged_and_holds_for_the_next_row(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("6")
        table = driver.explorer.table
        top = table.detail.region.y - 1
        before = table.rows.region.height
        await drag(driver, (60, top), (60, top - 5))
        assert table.detail.region.y - 1 == top - 5
        assert table.rows.region.height == before - 5
        await driver.press("j", "j")
        assert table.detail.region.y - 1 == top - 5
        await drag(driver, (60, top - 5), (60, 0))
        assert table.rows.region.height >= 1
