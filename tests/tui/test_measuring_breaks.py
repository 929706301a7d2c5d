"""These tests measure graph breaks from the keyboard. The measurement is injected; its findings are
in a real session.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.errors import UsageError
from fx_explorer.model import BreakTime, CallTime, CaptureRequest, Notice
from fx_explorer.session import SessionWriter
from fx_explorer.trials import BreakTimes, Told
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_live_capture import FakeCapture
from tests.tui.test_stepping import AT_HAND, messages

CALL = CallTime(0, 0.0123, 0.0002, 0.01, 42, "cpu")
TIMES = BreakTimes(CALL, ((("/p.py", 5, "GB0059"), BreakTime(0, 0, 1, 0.0021, 0.0001)),))


def two_breaks(path: Path, *, as_script: bool = False) -> None:
    with SessionWriter(path) as writer:
        writer.set_meta(
            "request", dataclasses.asdict(CaptureRequest("p.py", "", as_script=as_script))
        )
        writer.set_meta("outcome", model.Outcome("finished").to_json())
        writer.add(model.Compilation(0, "0/0", 0, 0, "f", "/p.py", 1, status="broke"))
        writer.add(
            model.GraphBreak(0, 1, "GB0025", "asked for", "", (), "/p.py", 3, "graph_break()")
        )
        writer.add(model.GraphBreak(0, 1, "GB0059", "a builtin", "", (), "/p.py", 5, "print(x)"))


class FakeMeasuring:
    """Ends when the test says so."""

    def __init__(self) -> None:
        self.asked: list[CaptureRequest] = []
        self.ending: asyncio.Future[BreakTimes] = asyncio.get_running_loop().create_future()
        self.was_cancelled = False

    async def __call__(self, request: CaptureRequest, tell: Told) -> BreakTimes:
        self.asked.append(request)
        tell("measuring f")
        try:
            return await self.ending
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise


async def captured(driver: Driver, capture: FakeCapture) -> None:
    await driver.until(lambda: driver.explorer.reader)
    capture.stay()
    capture.say(AT_HAND)
    await driver.until(lambda: "✓ captured" in driver.header)


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40)]))
async def test_breaks_are_measured_from_their_view_and_ordered_by_what_was_found(
    open_app: OpenApp, tmp_path: Path, size: tuple[int, int]
) -> None:
    capture, measuring = FakeCapture(tmp_path / "s.fxs", two_breaks), FakeMeasuring()
    async with open_app(
        make_capture=lambda: capture, target="p.py", measure_breaks=measuring, size=size
    ) as driver:
        await captured(driver, capture)
        await driver.press("4")
        assert driver.screen.index("p.py:3") < driver.screen.index("p.py:5")
        assert "takes " not in driver.screen
        await driver.press("x", "t", "enter")
        await driver.until(lambda: "… measuring f" in driver.screen)
        measuring.ending.set_result(TIMES)
        await driver.until(lambda: "2.1 ms" in driver.screen)
        assert driver.screen.index("p.py:5") < driver.screen.index("p.py:3")
        await driver.until(lambda: "A call takes" in messages(driver))
        assert "A call takes 0.0123 s" not in messages(driver)
        assert (
            "A call takes 12.3 ms, of which 10 ms in compiled graphs; 1 graph break measured (42 "
            "calls"
        ) in messages(driver)
        assert measuring.asked[0].target == "p.py"
        capture.end()


async def test_escape_ends_what_measures(open_app: OpenApp, tmp_path: Path) -> None:
    capture, measuring = FakeCapture(tmp_path / "s.fxs", two_breaks), FakeMeasuring()
    async with open_app(
        make_capture=lambda: capture, target="p.py", measure_breaks=measuring
    ) as driver:
        await captured(driver, capture)
        await driver.press("4", "x", "t", "enter")
        await driver.until(lambda: "… measuring f" in driver.screen)
        assert re.search(r"measuring f · \d+ s of at most 10:00", driver.screen)
        await driver.press("escape")
        assert "Stop measuring?" in driver.screen
        assert not measuring.was_cancelled
        await driver.press("y")
        assert measuring.was_cancelled
        assert "Stopped: graph breaks were not measured." in messages(driver)
        assert driver.explorer.view == "breaks"
        capture.end()


async def test_what_cannot_be_measured_is_told(open_app: OpenApp, tmp_path: Path) -> None:
    capture, measuring = FakeCapture(tmp_path / "s.fxs", two_breaks), FakeMeasuring()
    measuring.ending.set_exception(UsageError("It recompiles at every call."))
    async with open_app(
        make_capture=lambda: capture, target="p.py", measure_breaks=measuring
    ) as driver:
        await captured(driver, capture)
        await driver.press("4", "x", "t", "enter")
        await driver.until(lambda: "It recompiles at every call." in messages(driver))
        capture.end()


@in_exhaustive_runs
async def test_of_a_script_it_is_told_before_anything_runs(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", lambda path: two_breaks(path, as_script=True))
    measuring = FakeMeasuring()
    async with open_app(
        make_capture=lambda: capture, target="p.py", measure_breaks=measuring
    ) as driver:
        await captured(driver, capture)
        await driver.press("4", "x", "t", "enter")
        assert "A script cannot be called repeatedly" in messages(driver)
        assert measuring.asked == []
        capture.end()


async def test_a_saved_session_says_what_measures_its_breaks(
    open_app: OpenApp, tmp_path: Path
) -> None:
    two_breaks(tmp_path / "s.fxs")
    async with open_app(tmp_path / "s.fxs", size=(120, 40)) as driver:
        await driver.press("4")
        assert "Run time: not measured. x t builds the program" in driver.screen
        await driver.press("x", "t")
        assert "there is no compiler to step through" in messages(driver)


@in_exhaustive_runs
async def test_breaks_can_be_measured_as_soon_as_dynamo_is_through(
    open_app: OpenApp, tmp_path: Path
) -> None:
    """Where the app pauses by itself: the program has run, and nothing is compiled yet."""
    capture, measuring = FakeCapture(tmp_path / "s.fxs", two_breaks), FakeMeasuring()
    async with open_app(
        make_capture=lambda: capture, target="p.py", measure_breaks=measuring
    ) as driver:
        await driver.until(lambda: driver.explorer.reader)
        two_breaks(capture.session_path)
        capture.say(Notice("gate", state="begin", gate="dynamo"))
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        await driver.press("4", "x", "t")
        assert "[0/0]" not in driver.screen.partition("Build and run")[2].partition("╰")[0]
        await driver.press("enter")
        measuring.ending.set_result(TIMES)
        await driver.until(lambda: "2.1 ms" in driver.screen)
        assert capture.sent == []
        capture.end()
