"""These tests check titles that are longer than their place: of dialogs, panes and views."""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.tui.dialogs.dialog import Ask, Consent
from fx_explorer.tui.widgets.titled_box import TitledBox
from tests.sessions import Hand
from tests.tui.conftest import OpenApp

LONG = "Write it to a_model_with_a_long_name.py:25 and another_model_with_a_long_name.py?"


@pytest.mark.parametrize("make", [Consent, Ask])
async def test_a_question_that_is_longer_than_the_border_is_wrapped_inside(
    open_app: OpenApp, hand: Hand, make: type[Consent] | type[Ask]
) -> None:
    async with open_app(hand.path, size=(80, 24)) as driver:
        driver.app.push_screen(make(LONG, "It is kept."))
        await driver.settle()
        text = " ".join(driver.screen.replace("│", " ").split())
        assert LONG in text
        assert not driver.app.screen.query_one(TitledBox).border_title


async def test_a_question_that_fits_stands_in_the_border(open_app: OpenApp, hand: Hand) -> None:
    async with open_app(hand.path, size=(80, 24)) as driver:
        driver.app.push_screen(Consent("Stop the trial?", "It is kept."))
        await driver.settle()
        assert "─ Stop the trial? ─" in driver.screen


async def test_the_title_of_a_pane_is_cut_in_the_middle(
    open_app: OpenApp, tmp_path: Path, hand: Hand
) -> None:
    async with open_app(hand.path, size=(90, 30)) as driver:
        await driver.press("2")
        graph = driver.panes[1]
        title = graph.query_one("PaneTitle").render().plain
        assert title.startswith("Fo")
        assert "…" in title
        assert "[0/0]" in title
