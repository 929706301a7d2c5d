"""These tests try dynamic shapes from the keyboard: the trials are injected, and end when the test
says so.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.errors import SessionWriteError
from fx_explorer.instruments.dynamic.screen import DynamicScreen
from fx_explorer.instruments.dynamic.trial import WAYS, DynamicTrial, Told
from fx_explorer.model import CaptureRequest
from fx_explorer.session import SessionWriter
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.trials.test_dynamic_in_words import fits, refused
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_stepping import messages

FOUND = (
    refused("dynamic=None"),
    fits("dynamic=True"),
    refused("dynamic=False"),
    fits("mark_dynamic", 1),
)


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return write_session(tmp_path / "s.fxs")


def write_session(path: Path, *, as_script: bool = False) -> Path:
    with SessionWriter(path) as writer:
        writer.set_meta(
            "request", dataclasses.asdict(CaptureRequest("p.py:f", "", as_script=as_script))
        )
        writer.set_meta("outcome", model.Outcome("finished").to_json())
        writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p.py", 1, status="ok"))
    return path


class FakeTrials:
    """Each trial ends when ``next`` is called."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.was_ended = False
        self._results: asyncio.Queue[DynamicTrial | Exception] = asyncio.Queue()

    async def __call__(
        self, request: CaptureRequest, others: str, tell: Told
    ) -> AsyncIterator[DynamicTrial]:
        self.asked.append((request.target, others))
        try:
            for way in WAYS:
                tell(way, f"calling f for {way}")
                result = await self._results.get()
                if isinstance(result, Exception):
                    raise result
                yield result
        finally:
            self.was_ended = True

    def end(self, *results: DynamicTrial | Exception) -> None:
        for result in results:
            self._results.put_nowait(result)


async def open_screen(driver: Driver, *typed: str) -> None:
    await driver.press("v", "s", "x", "d", *typed, "enter")
    await driver.until(lambda: isinstance(driver.app.screen, DynamicScreen))
    await driver.settle()


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40)]))
async def test_each_way_is_shown_as_it_is_done_and_then_the_verdict(
    open_app: OpenApp, session: Path, size: tuple[int, int], copied: list[str]
) -> None:
    trials = FakeTrials()
    async with open_app(session, try_dynamic=trials, size=size) as driver:
        await open_screen(driver)
        assert trials.asked == [("p.py:f", "")]
        assert "other inputs: twice the batch" in driver.screen
        assert "… calling f" in driver.screen
        assert driver.screen.count("not tried") == 3
        trials.end(*FOUND[:2])
        await driver.until(lambda: "✓ used again" in driver.screen)
        assert "↻ recompiled" in driver.screen
        assert "one compilation works" not in driver.screen
        await driver.press("y")
        assert "Not known yet." in messages(driver)
        trials.end(*FOUND[2:])
        await driver.until(
            lambda: "With mark_dynamic, one compilation works for both" in driver.screen
        )
        assert "torch._dynamo.mark_dynamic(x, 0)" in driver.screen
        await driver.press("y")
        assert copied == ["torch._dynamo.mark_dynamic(x, 0)"]


async def test_the_reason_of_the_way_under_the_cursor_is_told_in_full(
    open_app: OpenApp, session: Path
) -> None:
    trials = FakeTrials()
    async with open_app(session, try_dynamic=trials, size=(80, 24)) as driver:
        await open_screen(driver)
        trials.end(*FOUND)
        await driver.until(lambda: "one compilation works" in driver.screen)
        assert "at index 0. expected 4" in " ".join(driver.screen.split())
        await driver.press("j")
        assert "at index 0. expected 4" not in " ".join(driver.screen.split())
        assert "dynamic=True: used again" in driver.screen


async def test_escape_stops_the_trials_and_keeps_what_was_found(
    open_app: OpenApp, session: Path
) -> None:
    trials = FakeTrials()
    async with open_app(session, try_dynamic=trials) as driver:
        await open_screen(driver)
        trials.end(FOUND[0])
        await driver.until(lambda: "↻ recompiled" in driver.screen)
        assert re.search(r"trying 2 of 4 · \d+ s", driver.screen)
        await driver.press("escape")
        assert "Stop trying?" in driver.screen
        assert not trials.was_ended
        await driver.press("y")
        assert trials.was_ended
        assert isinstance(driver.app.screen, DynamicScreen)
        assert "↻ recompiled" in driver.screen
        assert "1 of 4 settings were tried." in driver.screen
        await driver.press("escape")
        assert driver.explorer.view == "sizes"
        assert not isinstance(driver.app.screen, DynamicScreen)


@in_exhaustive_runs
async def test_what_was_found_is_still_there_when_it_is_asked_again(
    open_app: OpenApp, session: Path
) -> None:
    trials = FakeTrials()
    async with open_app(session, try_dynamic=trials) as driver:
        await open_screen(driver)
        trials.end(*FOUND)
        await driver.until(lambda: "one compilation works" in driver.screen)
        await driver.press("escape")
        await open_screen(driver)
        assert "one compilation works" in driver.screen
        assert len(trials.asked) == 1
        await driver.press("escape")
        await open_screen(driver, *["backspace"] * 20, *"torch.ones(3)")
        assert trials.asked[1:] == [("p.py:f", "torch.ones(3)")]
        assert "other inputs: torch.ones(3)" in driver.screen


async def test_a_way_that_fails_and_trials_that_cannot_be_made_are_told(
    open_app: OpenApp, session: Path
) -> None:
    trials = FakeTrials()
    async with open_app(session, try_dynamic=trials) as driver:
        await open_screen(driver)
        trials.end(replace(FOUND[0], outcome=model.Outcome("raised", "ValueError: too small", 1)))
        await driver.until(lambda: "✗ raised: ValueError: too small" in driver.screen)
        trials.end(SessionWriteError("no space left"))
        await driver.until(lambda: "it could not be tried: no space left" in messages(driver))


@pytest.mark.parametrize("asked", with_others([True], [False]))
async def test_a_script_is_not_tried(open_app: OpenApp, tmp_path: Path, asked: bool) -> None:
    """Whether it was asked to be run as one, or is one because it offers nothing to call."""
    trials = FakeTrials()
    session = write_session(tmp_path / "s.fxs", as_script=asked)
    with SessionWriter(session) as writer:
        writer.set_meta("target", {"kind": "script"})
    async with open_app(session, try_dynamic=trials) as driver:
        await driver.press("v", "s", "x", "d")
        assert "tried on a function or module with inputs" in messages(driver)
        assert trials.asked == []
