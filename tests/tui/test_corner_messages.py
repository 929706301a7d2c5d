"""These tests check that messages in the corner come and go, and never stop the app."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Iterator
from typing import NoReturn

import pytest
from textual.widgets._toast import Toast

from tests.conftest import Captured
from tests.exhaustive import with_others
from tests.sessions import Hand
from tests.tui.conftest import OpenApp


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40)]))
async def test_a_message_covers_no_key_of_the_footer(
    hand: Hand, open_app: OpenApp, size: tuple[int, int]
) -> None:
    async with open_app(hand.path, size=size) as driver:
        footer = driver.screen.splitlines()[-2:]
        assert any("? help" in line for line in footer)
        driver.app.notify("a long message " * 12, timeout=60)
        await driver.until(lambda: "a long message" in driver.screen)
        assert driver.screen.splitlines()[-2:] == footer


@pytest.fixture
def at_most_30_s() -> Iterator[None]:
    """An app that stands still lets no timeout of its event loop come to pass."""

    def stop(*_: object) -> NoReturn:
        raise TimeoutError("the app stands still")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("at_most_30_s")
async def test_a_message_that_expires_while_it_is_being_shown_does_not_stop_the_app(
    open_app: OpenApp, captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(captured("mlp", train=False)) as driver:
        began, chance = time.time(), random.Random(0)
        monkeypatch.setattr("textual.notifications.time", lambda: began + chance.choice([59.5, 61]))
        for number in range(20):
            driver.app.notify(f"message {number}", timeout=60)
            await asyncio.sleep(0.02)
        await driver.until(lambda: not driver.app.screen.query(Toast))
        await driver.press("2")
        assert "MLP" in driver.screen
