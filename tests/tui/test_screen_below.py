"""These tests check the screen behind a dialog: it looks the same as drawn by Textual, with less
work.
"""

from __future__ import annotations

import pytest
from rich.segment import Segment
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen
from textual.visual import RichVisual, Visual

from fx_explorer.tui.dialogs.dialog import ScreenBelow
from tests.sessions import Hand
from tests.tui.conftest import OpenApp


@pytest.mark.parametrize("key", ["f", "p", "question_mark"])
async def test_the_screen_below_a_dialog_looks_as_textual_draws_it(
    hand: Hand, open_app: OpenApp, key: str
) -> None:
    async with open_app(hand.path, size=(120, 40)) as driver:
        await driver.press("2")
        await driver.press(key)
        dialog = driver.app.screen
        assert isinstance(dialog, ModalScreen)
        width, height = dialog.size
        below, tint = driver.explorer, dialog.styles.background
        ours, textuals = (
            Visual.to_strips(dialog, visual, width, height, dialog.visual_style)
            for visual in (
                ScreenBelow(below, tint),
                RichVisual(dialog, BackgroundScreen(below, tint)),
            )
        )
        assert [list(Segment.simplify(strip)) for strip in ours] == [
            list(Segment.simplify(strip)) for strip in textuals
        ]


async def test_a_dialog_draws_what_is_below_it_so(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, size=(120, 40)) as driver:
        await driver.press("f")
        assert isinstance(driver.app.screen._render(), ScreenBelow)
