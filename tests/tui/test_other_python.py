"""These tests compare a capture with one by another interpreter from the app. The interpreters are
made up, and what they capture is injected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from fx_explorer.client import interpreters
from fx_explorer.client.interpreters import Interpreter
from fx_explorer.errors import UsageError
from fx_explorer.instruments.diff.other_python import OtherCapture
from fx_explorer.instruments.diff.screen import DifferenceScreen
from fx_explorer.model import CaptureRequest, Outcome
from fx_explorer.session import SessionWriter
from fx_explorer.session.ownership import remember_session
from fx_explorer.trials import Told, TrialWorker
from fx_explorer.tui.controllers.changes import Comparisons
from fx_explorer.tui.dialogs.choose import Chooser
from fx_explorer.tui.dialogs.dialog import Ask
from tests.sessions import write_training_step
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_stepping import messages

OLD = Interpreter("/old/bin/python", "2.11.0")


def of_release(path: Path, release: str) -> Path:
    """Write a session that torch of this release has captured."""
    write_training_step(path)
    with SessionWriter(path) as writer:
        writer.set_meta("request", asdict(CaptureRequest("step.py", "")))
        writer.set_meta("environment", {"torch": release})
        writer.set_meta("outcome", Outcome("finished").to_json())
    remember_session(path)
    return path


class FakeCaptures:
    """Captures nothing: it gives a session of an older release when the test says so."""

    def __init__(self, session: Path) -> None:
        self.session = session
        self.asked: list[str] = []
        self.ends = asyncio.Event()
        self.problem = ""
        self.was_cancelled = False

    async def __call__(
        self, request: CaptureRequest, python: str, folder: Path, tell: Told, worker: TrialWorker
    ) -> OtherCapture:
        self.asked.append(python)
        tell("importing torch")
        try:
            await self.ends.wait()
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        if self.problem:
            raise UsageError(self.problem)
        return OtherCapture(python, self.session)


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeCaptures:
    captures = FakeCaptures(of_release(tmp_path / "old.fxs", "2.11.0"))
    monkeypatch.setattr(Comparisons, "capture_by", staticmethod(captures))
    monkeypatch.setattr(interpreters, "interpreters_with_torch", lambda _: [OLD])
    return captures


@pytest.fixture
def session(tmp_path: Path) -> Path:
    return of_release(tmp_path / "new.fxs", "2.13.0")


def shows(driver: Driver, text: str) -> Callable[[], bool]:
    return lambda: text in driver.screen


async def test_two_releases_are_compared_in_four_keys_the_older_first(
    session: Path, other: FakeCaptures, open_app: OpenApp
) -> None:
    async with open_app(session) as driver:
        await driver.press("o", "p")
        await driver.until(lambda: isinstance(driver.app.screen, Chooser))
        assert "torch 2.11.0" in driver.screen
        await driver.press("enter")
        await driver.until(shows(driver, "importing torch"))
        other.ends.set()
        await driver.until(lambda: isinstance(driver.app.screen, DifferenceScreen))
        await driver.until(shows(driver, "torch 2.11.0 → torch 2.13.0"))
        assert other.asked == [OLD.python]
        await driver.press("escape")
        await driver.until(lambda: driver.app.screen is driver.explorer)


async def test_another_interpreter_can_be_typed(
    session: Path, other: FakeCaptures, open_app: OpenApp
) -> None:
    async with open_app(session) as driver:
        await driver.press("o", "p")
        await driver.until(lambda: isinstance(driver.app.screen, Chooser))
        await driver.press(*"another", "enter")
        await driver.until(lambda: isinstance(driver.app.screen, Ask))
        await driver.paste("venv/bin/python")
        await driver.press("enter")
        await driver.until(lambda: other.asked == ["venv/bin/python"])
        other.ends.set()
        await driver.until(lambda: isinstance(driver.app.screen, DifferenceScreen))


async def test_escape_ends_the_capture(
    session: Path, other: FakeCaptures, open_app: OpenApp
) -> None:
    async with open_app(session) as driver:
        await driver.press("o", "p")
        await driver.until(lambda: isinstance(driver.app.screen, Chooser))
        await driver.press("enter")
        await driver.until(shows(driver, "importing torch"))
        await driver.press("escape")
        assert "Stop capturing?" in driver.screen
        await driver.press("y")
        assert other.was_cancelled


async def test_an_interpreter_that_cannot_capture_is_told(
    session: Path, other: FakeCaptures, open_app: OpenApp
) -> None:
    other.problem = "The program could not be captured by /old/bin/python: no torch"
    other.ends.set()
    async with open_app(session) as driver:
        await driver.press("o", "p")
        await driver.until(lambda: isinstance(driver.app.screen, Chooser))
        await driver.press("enter")
        await driver.until(lambda: "no torch" in messages(driver))
        assert driver.app.screen is driver.explorer
