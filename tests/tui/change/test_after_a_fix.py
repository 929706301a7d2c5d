"""These tests write a fix and capture again with one key: the card reports the effect; another key
tries all fixes.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.analysis.whole_session import SessionFigures
from fx_explorer.client import Capture
from fx_explorer.errors import UsageError
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.screen import FixScreen
from fx_explorer.instruments.fixes.trial import Trial, Verdict
from fx_explorer.model import CaptureRequest, Command
from fx_explorer.session import SessionWriter
from fx_explorer.tui.config import Config, parse_config
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.tui.change.test_capturing_again import THROUGH, card
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_fixes import (
    BETTER,
    FIGURES,
    SOURCE,
    TAKE_OUT,
    WITHOUT_PRINT,
    FakeTrials,
    ends_as,
    open_fixes,
    write_session,
)
from tests.tui.test_live_capture import FakeCapture, step
from tests.tui.test_stepping import messages

ASKED = "m.py is written. Capture again now?"


class OfFile(FakeCapture):
    """A capture whose session says how the file was captured, so that fixes can be tried."""

    def __init__(self, path: Path, write: Callable[[Path], object], file: Path) -> None:
        super().__init__(path, write)
        self._file = file

    async def start(self) -> None:
        with SessionWriter(self.session_path) as writer:
            request = CaptureRequest(
                f"{self._file}:f", str(self.session_path), inputs="torch.ones(2)"
            )
            writer.set_meta("request", dataclasses.asdict(request))


class Program:
    """A Program is ``m.py`` with a break at its print, captured from disk when the capture ends."""

    def __init__(self, folder: Path) -> None:
        self.captures: list[FakeCapture] = []
        self._folder = folder
        write_session(folder)
        self.file = folder / "m.py"

    def capture(self) -> FakeCapture:
        folder = self._folder / str(len(self.captures))
        folder.mkdir()

        def write(path: Path) -> None:
            text = self.file.read_text()
            with SessionWriter(path) as writer:
                writer.add(model.SourceFile(0, str(self.file), writer.text(text), 6))
                writer.add(model.Compilation(0, "0/0", 0, 0, "f", str(self.file), 4, status="ok"))
                if "print" in text:
                    writer.add(
                        model.GraphBreak(
                            0, 1, "GB0059", "reason", "", (), str(self.file), 5, "print(x)"
                        )
                    )

        self.captures.append(OfFile(folder / "s.fxs", write, self.file))
        return self.captures[-1]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


async def write_the_fix(driver: Driver, program: Program) -> None:
    """Capture, try the fix that takes the print out, and write it."""
    await driver.until(lambda: driver.explorer.reader)
    program.captures[0].end()
    await driver.until(lambda: "✓ captured" in driver.header)
    await open_fixes(driver, TAKE_OUT)
    await driver.press("r")
    await driver.until(lambda: "✓ good" in driver.screen)
    await driver.press("s", "y")
    await driver.until(lambda: program.file.read_text() == WITHOUT_PRINT)


async def test_a_written_fix_is_captured_by_one_key_and_the_card_says_that_the_break_is_gone(
    open_app: OpenApp, program: Program
) -> None:
    async with open_app(
        make_capture=program.capture, target="m.py", try_fix=ends_as("good", "all is well")
    ) as driver:
        await write_the_fix(driver, program)
        await driver.until(lambda: ASKED in driver.screen)
        await driver.press("y")
        await driver.until(
            lambda: len(program.captures) == 2 and program.captures[1].session_path.exists()
        )
        assert not isinstance(driver.app.screen, FixScreen)
        assert driver.explorer.view == "overview"
        second = program.captures[1]
        step(second.session_path)
        second.say(THROUGH)
        await driver.until(
            lambda: second.sent == [Command("go")]
        )  # what it is compared with was compiled, too
        second.end()
        await driver.until(lambda: "Graph breaks: 1 → 0." in card(driver))
        assert "✓ Graph breaks: 1 → 0." in driver.screen


async def test_who_does_not_capture_again_stays_at_the_fixes_and_sees_that_they_are_old(
    open_app: OpenApp, program: Program
) -> None:
    async with open_app(
        make_capture=program.capture, target="m.py", try_fix=ends_as("good", "all is well")
    ) as driver:
        await write_the_fix(driver, program)
        await driver.until(lambda: ASKED in driver.screen)
        await driver.press("escape")
        assert isinstance(driver.app.screen, FixScreen)
        assert len(program.captures) == 1
        await driver.press("escape")
        await driver.until(lambda: "old: m.py has changed since" in driver.header)


@pytest.mark.parametrize(("after_fix", "captures"), [("capture", 2), ("nothing", 1)])
async def test_the_config_file_says_whether_it_is_asked(
    open_app: OpenApp, program: Program, after_fix: str, captures: int
) -> None:
    config = parse_config({"after_fix": after_fix}, "config.toml")
    async with open_app(
        make_capture=program.capture,
        target="m.py",
        try_fix=ends_as("good", "all is well"),
        config=config,
    ) as driver:
        await write_the_fix(driver, program)
        await driver.until(lambda: len(program.captures) == captures)
        assert ASKED not in driver.screen
        assert ("Capture again to see its effect." in messages(driver)) == (after_fix == "nothing")
        if captures == 2:
            await driver.until(lambda: program.captures[1].session_path.exists())
            program.captures[1].end()


def test_a_mistake_in_the_config_file_is_told_and_asks() -> None:
    config = parse_config({"after_fix": ["capture"]}, "config.toml")
    assert config.after_fix == Config().after_fix == "ask"
    assert config.problems == (
        """config.toml: after_fix = ['capture'] is not valid; write "ask", "capture" or "nothing\"""",
    )


@in_exhaustive_runs
async def test_a_capture_that_is_asked_for_later_pauses_as_ever(
    open_app: OpenApp, program: Program
) -> None:
    async with open_app(
        make_capture=program.capture, target="m.py", try_fix=ends_as("good", "all is well")
    ) as driver:
        await write_the_fix(driver, program)
        await driver.until(lambda: ASKED in driver.screen)
        await driver.press("y")
        await driver.until(
            lambda: len(program.captures) == 2 and program.captures[1].session_path.exists()
        )
        program.captures[1].end()  # it never paused
        await driver.until(lambda: card(driver))
        await driver.press("r")
        await driver.until(
            lambda: len(program.captures) == 3 and program.captures[2].session_path.exists()
        )
        third = program.captures[2]
        third._write(third.session_path)
        third.say(THROUGH)
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        assert third.sent == []


async def test_while_files_are_watched_a_written_fix_is_captured_once_and_nothing_is_asked(
    open_app: OpenApp, program: Program
) -> None:
    async with open_app(
        make_capture=program.capture,
        target="m.py",
        watched=[program.file],
        try_fix=ends_as("good", "all is well"),
    ) as driver:
        await driver.until(lambda: driver.explorer.reader)
        await driver.press("w")
        await write_the_fix(driver, program)
        await driver.until(
            lambda: len(program.captures) == 2 and program.captures[1].session_path.exists()
        )
        assert ASKED not in driver.screen
        program.captures[1].end()
        await driver.until(lambda: "Graph breaks: 1 → 0." in card(driver))
        for _ in range(4):
            driver.app.controllers.capturing.begin_when_changed()
        assert len(program.captures) == 2


REAL = """import torch


def f(x):
    y = x.sin()
    print("between")
    return y.relu() * 2


example_inputs = (torch.randn(4, 8),)
"""


@pytest.mark.usefixtures("warm_workers")
async def test_for_real_the_break_of_a_fixed_program_is_gone(
    open_app: OpenApp, tmp_path: Path
) -> None:
    """Only the trial of the fix is made up, which takes half a minute; what is written and captured
    is real.
    """
    file = tmp_path / "m.py"
    file.write_text(REAL)
    request = CaptureRequest(f"{file}:f", "", pause="dynamo", stay=True, trusts_target=True)
    async with open_app(
        make_capture=lambda: Capture(request, sys.executable),
        target=str(file),
        try_fix=ends_as("good", "all is well"),
    ) as driver:
        try:
            await driver.until(lambda: "paused after Dynamo" in driver.header, 120)
            await driver.press("r")
            await driver.until(lambda: "✓ captured" in driver.header, 120)
            await open_fixes(driver, TAKE_OUT)
            await driver.press("r")
            await driver.until(lambda: "✓ good" in driver.screen)
            await driver.press("s", "y")
            await driver.until(lambda: ASKED in driver.screen)
            await driver.press("y")
            await driver.until(lambda: "Graph breaks: 1 → 0." in card(driver), 120)
            await driver.until(
                lambda: any(line.startswith("Compiling took") for line in card(driver)), 120
            )
            assert (
                card(driver)[0]
                == "Since the last capture you changed m.py (1 line removed). The effect:"
            )
            assert "Graphs: 2 → 1." in card(driver)
            await driver.until(lambda: "old" not in driver.header)
        finally:
            await driver.app.controllers.leaving.leave()


# all of them


def verdicts(*, good: str, tried: list[str]) -> Callable[..., object]:
    """Return trials of which only those of one title are good."""

    async def trial(request: CaptureRequest, fix: Fix, before: SessionFigures, *_: object) -> Trial:
        tried.append(fix.title)
        verdict: Verdict = "good" if good and good in fix.title else "refused"
        return Trial(fix, verdict, "as the test says", FIGURES, BETTER, None, 3.0)

    return trial


@pytest.mark.parametrize("keys", with_others([("x", "x")], [("x", "a")]))
async def test_one_key_tries_all_in_their_order_and_goes_to_the_good_one(
    open_app: OpenApp, tmp_path: Path, keys: tuple[str, ...]
) -> None:
    tried: list[str] = []
    async with open_app(
        write_session(tmp_path), try_fix=verdicts(good=TAKE_OUT, tried=tried)
    ) as driver:
        await driver.press("4", *keys)
        await driver.until(lambda: isinstance(driver.app.screen, FixScreen))
        if keys == ("x", "x"):
            await driver.press("asterisk")
        await driver.until(lambda: "writes the one at the cursor" in messages(driver))
        screen = driver.app.screen
        assert isinstance(screen, FixScreen)
        assert tried == [fix.title for fix in screen._offer.fixes]
        assert len(tried) > 1
        assert TAKE_OUT in screen._fix.title
        assert f"1 of the {len(tried)} is good: s writes the one at the cursor." in messages(driver)
        await driver.press("asterisk")
        assert "All of these fixes have been tried." in messages(driver)


@in_exhaustive_runs
async def test_none_of_all_may_be_good(open_app: OpenApp, tmp_path: Path) -> None:
    tried: list[str] = []
    async with open_app(write_session(tmp_path), try_fix=verdicts(good="", tried=tried)) as driver:
        screen = await open_fixes(driver)
        await driver.press("asterisk")
        await driver.until(
            lambda: f"None of the {len(screen._offer.fixes)} is good." in messages(driver)
        )
        assert len(tried) == len(screen._offer.fixes)


@in_exhaustive_runs
async def test_all_together_come_last_where_there_are_several_breaks(
    open_app: OpenApp, tmp_path: Path
) -> None:
    source = SOURCE.replace("    return", "    print(x.shape)\n    return")
    session = write_session(tmp_path, source)
    with SessionWriter(session) as writer:
        writer.add(
            model.GraphBreak(
                0,
                1,
                "GB0059",
                "torch's reason",
                "",
                (),
                str(tmp_path / "m.py"),
                6,
                "print(x.shape)",
            )
        )
    tried: list[str] = []

    async def good(request: CaptureRequest, fix: Fix, before: SessionFigures, *_: object) -> Trial:
        tried.append(fix.title)
        return Trial(fix, "good", "all is well", FIGURES, replace(BETTER), None, 3.0)

    async with open_app(session, try_fix=good) as driver:
        screen = await open_fixes(driver)
        await driver.press("asterisk")
        await driver.until(lambda: "writes the one at the cursor" in messages(driver))
        assert tried[-1] == "all good fixes together"
        assert tried[: len(screen._offer.fixes)] == [fix.title for fix in screen._offer.fixes]
        assert screen._fix.title == "all good fixes together"


@in_exhaustive_runs
async def test_a_trial_that_cannot_be_made_ends_trying_all(
    open_app: OpenApp, tmp_path: Path
) -> None:
    tried: list[str] = []

    async def not_agreed(
        request: CaptureRequest, fix: Fix, before: SessionFigures, *_: object
    ) -> Trial:
        tried.append(fix.title)
        raise UsageError("You did not allow")

    async with open_app(write_session(tmp_path), try_fix=not_agreed) as driver:
        await open_fixes(driver)
        await driver.press("asterisk")
        await driver.until(lambda: "it could not be tried: You did not allow" in messages(driver))
        assert len(tried) == 1
        assert "is good" not in messages(driver)


@in_exhaustive_runs
async def test_the_cursor_stays_where_the_user_moves_it_while_all_are_tried(
    open_app: OpenApp, tmp_path: Path
) -> None:
    trials = FakeTrials()
    async with open_app(write_session(tmp_path), try_fix=trials) as driver:
        screen = await open_fixes(driver)
        await driver.press("g", "asterisk", "G")
        last = screen._list.cursor
        assert last > 0
        trials.ending.set_result(("good", "all is well"))
        await driver.until(lambda: "writes the one at the cursor" in messages(driver))
        assert screen._list.cursor == last
