"""These fixtures open the app on a session, driven by keys."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.pilot import Pilot

from fx_explorer.tui.app import ExplorerApp
from fx_explorer.tui.config import Config
from fx_explorer.tui.controllers import TrialRunners
from fx_explorer.tui.failures import faults_of
from fx_explorer.tui.terminal.other_programs import CopyDestination
from tests.sessions import Hand, write_training_step
from tests.tui.quiet import share_parsed_styles, wait_by_event_loop

WIDE = (160, 40)


class Driver:
    """An app under test and the hand that types."""

    def __init__(self, app: ExplorerApp, pilot: Pilot[int]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def explorer(self):  # type: ignore[no-untyped-def]
        return self.app.explorer

    @property
    def panes(self):  # type: ignore[no-untyped-def]
        return self.explorer.linked.panes

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.settle()

    async def paste(self, text: str) -> None:
        """Send text as a terminal does for a paste. Every key that is pressed waits for the app to
        be idle.
        """
        assert self.app._driver is not None
        self.app._driver.send_message(events.Paste(text))
        await self.settle()

    async def settle(self) -> None:
        """Wait for workers that wait for no user, and for timers that are about to fire."""
        await self.pilot.pause()
        await self.pilot.pause()

    async def until(self, condition: Callable[[], object], seconds: float = 20) -> None:
        """Wait for an event outside the app."""
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            if condition():
                return
            await self.pilot.pause(0.02)
        raise AssertionError(f"did not happen within {seconds} s:\n{self.screen}")

    async def press_until(self, key: str, condition: Callable[[], object], most: int = 300) -> None:
        """Press a key again and again until a condition holds, at most ``most`` times."""
        for _ in range(most):
            if condition():
                return
            await self.press(key)
        raise AssertionError(f"{key} was pressed {most} times:\n{self.screen}")

    @property
    def screen(self) -> str:
        """Return the text that the user sees."""
        width, height = self.app.size
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text[:width].rstrip() for strip in strips[:height])

    @property
    def facts(self) -> str:
        """What the first page has, also what is listed only while the cursor is there."""
        return "\n".join(f"{fact.text} {fact.detail}" for fact in self.explorer.facts.facts)

    @property
    def header(self) -> str:
        return self.screen.splitlines()[0]


OpenApp = Callable[..., contextlib.AbstractAsyncContextManager[Driver]]


@pytest.fixture(autouse=True, scope="package")
def apps_for_tests() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        wait_by_event_loop(patch)
        share_parsed_styles(patch)
        patch.setattr("fx_explorer.tui.app._settle_memory", collect_rarely)
        yield


def collect_rarely() -> None:
    """As the app does, which also freezes what there is: here that is all tests before."""
    gc.enable()
    gc.set_threshold(20_000, 50, 1000)


@pytest.fixture(scope="session")
def hand(tmp_path_factory: pytest.TempPathFactory) -> Hand:
    """A finished training step, written by hand; the answers can be read off tests/sessions.py."""
    return write_training_step(tmp_path_factory.mktemp("hand") / "hand.fxs")


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the copied texts, by a clipboard that takes everything."""
    texts: list[str] = []

    def copy(text: str, _: object) -> CopyDestination:
        texts.append(text)
        return CopyDestination("tool", "test")

    monkeypatch.setattr("fx_explorer.tui.controllers.exports.copy", copy)
    return texts


def remember_reasons(app: ExplorerApp) -> list[object]:
    """Return the messages with which the app ends, which Textual prints to stderr and forgets."""
    reasons: list[object] = []
    leave = app.exit

    def remember(*given: Any, **named: Any) -> None:
        reasons.append(named.get("message"))
        leave(*given, **named)

    app.exit = remember  # type: ignore[method-assign]
    return reasons


@pytest.fixture
def open_app() -> OpenApp:
    """``async with open_app(path, size=…) as driver``: the app on a session, or on what
    ``make_capture`` makes.

    ``ends_with``: the exit code, where the test has the app end.
    """

    @contextlib.asynccontextmanager
    async def opened(
        session: Path | None = None, size: tuple[int, int] = WIDE, **options: object
    ) -> AsyncIterator[Driver]:
        config = options.pop("config", Config())
        options.setdefault("trusts_sessions", True)
        runs = {
            field.name: options.pop(field.name)
            for field in fields(TrialRunners)
            if field.name in options
        }
        ends_with = options.pop("ends_with", 0)
        runners = TrialRunners(**runs)  # type: ignore[arg-type]
        app = ExplorerApp(session=session, config=config, runners=runners, **options)  # type: ignore[arg-type]
        reasons = remember_reasons(app)
        async with app.run_test(size=size, notifications=True) as pilot:
            driver = Driver(app, pilot)
            await driver.settle()
            yield driver
            assert not faults_of(app), faults_of(app)
        if app.explorer.reader is not None:
            app.explorer.reader.close()  # or a thousand tests hold a thousand files open
        # A session that a test wrote is no capture of this user's: the app takes a fault of its own
        # for one of the session, and ends with a sentence that names it.
        assert app.return_code in (None, ends_with), f"the app ended by itself: {reasons}"

    return opened
