"""These tests check the time after a change: w captures at once, the overview reports the effect,
and the session before is kept until then.
"""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.client import session_files
from fx_explorer.instruments.diff import differences, since_last
from fx_explorer.instruments.diff.kernel_pairs import KernelPair, kernel_pairs
from fx_explorer.model import Notice
from fx_explorer.session import SessionReader, SessionWriter
from tests.exhaustive import in_exhaustive_runs
from tests.sessions import write_training_step
from tests.tui.change.test_old_findings import look
from tests.tui.conftest import Driver, OpenApp
from tests.tui.test_live_capture import FakeCapture, nothing, step
from tests.tui.test_stepping import messages

BEFORE, AFTER = "x = 1\nprint(x)\n", "x = 1\n"
THROUGH = Notice("gate", state="begin", gate="dynamo")


class Program:
    """A Program is a file that is captured from disk when the capture begins: with ``print`` it has
    a graph break.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "m.py"
        self.file.write_text(BEFORE)
        self.captures: list[FakeCapture] = []
        self._folder = folder

    def capture(self) -> FakeCapture:
        text = self.file.read_text()

        def write(path: Path) -> None:
            write_training_step(path, finished=False)
            self.write_file(path, text)

        self.captures.append(FakeCapture(self._folder / f"{len(self.captures)}.fxs", write))
        return self.captures[-1]

    def write_file(self, path: Path, text: str) -> None:
        with SessionWriter(path) as writer:
            writer.add(model.SourceFile(0, str(self.file), writer.text(text), 2))
            if "print" in text:
                writer.add(
                    model.GraphBreak(
                        0, 1, "GB0059", "reason", "", (), str(self.file), 2, "print(x)"
                    )
                )

    @property
    def options(self) -> dict[str, object]:
        return {"make_capture": self.capture, "target": str(self.file), "watched": [self.file]}


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


async def ended(driver: Driver, capture: FakeCapture) -> None:
    capture.end()
    await driver.until(
        lambda: (
            "✓ captured" in driver.header and driver.explorer.reader.path == capture.session_path
        )
    )


async def captured_twice(driver: Driver, program: Program) -> None:
    """Capture, move the print out, and capture again."""
    await driver.until(lambda: driver.explorer.reader)
    await ended(driver, program.captures[0])
    program.file.write_text(AFTER)
    await driver.press("r")
    await driver.until(
        lambda: len(program.captures) == 2 and program.captures[1].session_path.exists()
    )
    await ended(driver, program.captures[1])


def card(driver: Driver) -> list[str]:
    return [fact.text for fact in driver.explorer.facts.facts if fact.topic == "since"]


async def test_the_card_is_the_first_that_is_said_and_its_lines_lead_to_their_differences(
    open_app: OpenApp, program: Program
) -> None:
    async with open_app(**program.options) as driver:
        await captured_twice(driver, program)
        await driver.until(lambda: card(driver))
        assert card(driver) == [
            "Since the last capture you changed m.py (1 line removed). The effect:",
            "Graph breaks: 1 → 0.",
            "Compiling took 2.00 s → 2.00 s.",
        ]
        assert driver.screen.splitlines()[2].startswith("▸≠ Since the last capture you changed")
        assert "✓ Graph breaks: 1 → 0." in driver.screen
        await driver.press("g", "enter")
        await driver.until(lambda: "m.py: 1 line removed" in driver.screen)
        await driver.press("escape", "j", "enter")
        await driver.until(lambda: "graph breaks: 1 entry removed" in driver.screen)
        assert "−1 (−100 %), better" in driver.screen
        await driver.press("escape", "o", "d")
        await driver.until(lambda: "what differs: " in driver.screen)


async def test_the_sessions_are_compared_beside_the_screen(
    open_app: OpenApp, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def noted(before: SessionReader, after: SessionReader) -> list[KernelPair]:
        threads.append(threading.current_thread())
        return kernel_pairs(before, after)

    for module in (since_last, differences):
        monkeypatch.setattr(module, "kernel_pairs", noted)
    async with open_app(**program.options) as driver:
        await captured_twice(driver, program)
        await driver.until(lambda: card(driver))
        await driver.press("o", "d")
        await driver.until(lambda: "what differs: " in driver.screen)
    assert len(threads) == 2
    assert threading.main_thread() not in threads


@in_exhaustive_runs
async def test_w_captures_at_once_when_the_file_has_changed_and_then_watches(
    open_app: OpenApp, program: Program
) -> None:
    async with open_app(**program.options) as driver:
        await driver.until(lambda: driver.explorer.reader)
        await ended(driver, program.captures[0])
        program.file.write_text(AFTER)
        await driver.press("w")
        await driver.until(lambda: len(program.captures) == 2)
        assert "m.py has changed since it was captured" in messages(driver)
        await driver.until(lambda: program.captures[1].session_path.exists())
        await ended(driver, program.captures[1])
        assert "watching" in driver.header
        program.file.write_text("x = 2\n")
        await driver.until(lambda: len(program.captures) == 3)
        program.captures[2].end()


async def test_w_only_watches_when_nothing_has_changed_and_a_touch_is_no_change(
    open_app: OpenApp, program: Program
) -> None:
    async with open_app(**program.options) as driver:
        await driver.until(lambda: driver.explorer.reader)
        await ended(driver, program.captures[0])
        os.utime(program.file, (1, 1))
        await driver.press("w")
        assert "Watching m.py: saving one of them captures again." in messages(driver)
        os.utime(program.file, (2, 2))
        looks = driver.app.controllers.capturing
        for _ in range(4):
            looks.begin_when_changed()
        assert len(program.captures) == 1
        await driver.press("w")
        assert "No longer watching." in messages(driver)


async def test_w_at_a_pause_stops_the_compiler_and_captures_again_at_once(
    open_app: OpenApp, program: Program
) -> None:
    async with open_app(**program.options) as driver:
        await driver.until(lambda: driver.explorer.reader)
        first = program.captures[0]
        step(first.session_path)
        program.write_file(first.session_path, BEFORE)
        first.say(THROUGH)
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        program.file.write_text(AFTER)
        await look(driver)
        assert "w captures again, and shows the effect." in driver.screen
        await driver.press("w")
        await driver.until(
            lambda: len(program.captures) == 2 and program.captures[1].session_path.exists()
        )
        assert first.was_cancelled
        second = program.captures[1]
        step(second.session_path)
        program.write_file(second.session_path, AFTER)
        second.say(THROUGH)
        await driver.until(lambda: card(driver))
        assert "Graph breaks: 1 → 0." in card(driver)
        assert not any("Kernels" in line or "Compiling" in line for line in card(driver))
        assert "Kernels, memory and time are compared when everything is compiled." in driver.screen
        assert second.sent == []
        second.end()


@in_exhaustive_runs
async def test_a_watched_file_that_is_saved_at_a_pause_is_captured_again(
    open_app: OpenApp, program: Program
) -> None:
    async with open_app(**program.options) as driver:
        await driver.until(lambda: driver.explorer.reader)
        first = program.captures[0]
        step(first.session_path)
        first.say(THROUGH)
        await driver.until(lambda: "paused after Dynamo" in driver.header)
        await driver.press("w")
        program.file.write_text(AFTER)
        await driver.until(lambda: len(program.captures) == 2)
        assert first.was_cancelled
        await driver.until(lambda: program.captures[1].session_path.exists())
        program.captures[1].end()


async def test_nothing_is_said_before_there_are_two_captures(
    open_app: OpenApp, program: Program
) -> None:
    async with open_app(**program.options) as driver:
        await driver.until(lambda: driver.explorer.reader)
        await ended(driver, program.captures[0])
        await driver.press("o", "d")
        assert "There is no earlier capture to compare with: r captures again." in messages(driver)
        assert card(driver) == []


async def test_a_saved_session_has_no_capture_before_it(open_app: OpenApp, tmp_path: Path) -> None:
    write_training_step(tmp_path / "s.fxs")
    async with open_app(tmp_path / "s.fxs") as driver:
        await driver.press("o", "d")
        assert "This is a saved session without an earlier capture." in messages(driver)


# the session before


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@in_exhaustive_runs
async def test_the_session_before_is_kept_until_the_next_capture(
    open_app: OpenApp, program: Program
) -> None:
    async with open_app(**program.options) as driver:
        await captured_twice(driver, program)
        for capture in program.captures:
            capture.is_temporary = True
        first, second = program.captures
        assert not first.was_discarded
        await driver.press("r")
        await driver.until(
            lambda: len(program.captures) == 3 and program.captures[2].session_path.exists()
        )
        await ended(driver, program.captures[2])
        assert first.was_discarded
        assert not second.was_discarded
        program.captures[2].is_temporary = False
        await driver.press("q")
    assert second.was_discarded


class Replacing(FakeCapture):
    """As with ``-o``: it replaces the session that is there."""

    async def start(self) -> None:
        self.session_path.unlink(missing_ok=True)
        await super().start()


@in_exhaustive_runs
async def test_a_session_in_a_file_of_the_users_is_copied_before_it_is_replaced_and_no_copy_stays(
    open_app: OpenApp, program: Program, temporary: Path
) -> None:
    kept = program.file.with_name("kept.fxs")

    def capture() -> FakeCapture:
        made = program.capture()
        program.captures[-1] = Replacing(kept, made._write)
        return program.captures[-1]

    async with open_app(**{**program.options, "make_capture": capture}) as driver:
        await driver.until(lambda: driver.explorer.reader)
        await ended(driver, program.captures[0])
        for text, breaks in ((AFTER, "1 → 0"), (BEFORE, "0 → 1")):
            program.file.write_text(text)
            shown = driver.explorer.reader
            await driver.press("r")
            await driver.until(
                lambda shown=shown: driver.explorer.reader is shown and driver.app.captures.incoming
            )
            await ended(driver, program.captures[-1])
            await driver.until(lambda breaks=breaks: f"Graph breaks: {breaks}." in card(driver))
            (copy,) = temporary.glob("*/*.fxs")
            with SessionReader(copy) as reader:
                assert reader.count(model.GraphBreak) == int(breaks[0])
            assert session_files.leftovers() == []
        await driver.press("q")
    assert list(temporary.iterdir()) == []
    with SessionReader(kept) as reader:
        assert reader.count(model.GraphBreak) == 1


async def test_a_copy_that_cannot_be_made_is_told_and_the_capture_is_made_all_the_same(
    open_app: OpenApp, program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_room(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("fx_explorer.client.session_files.copy_session", no_room)
    async with open_app(**program.options) as driver:
        await captured_twice(driver, program)
        assert "the previous session could not be copied (no space left)" in messages(driver)
        assert card(driver) == []


async def test_a_capture_that_was_stopped_before_it_found_anything_is_compared_with_nothing(
    open_app: OpenApp, program: Program, tmp_path: Path
) -> None:
    async with open_app(**program.options) as driver:
        await driver.until(lambda: driver.explorer.reader)
        await ended(driver, program.captures[0])
        program.file.write_text(AFTER)
        await driver.press("r")
        await driver.until(
            lambda: driver.app.captures.is_running and program.captures[1].session_path.exists()
        )
        program.captures[1]._write = nothing
        await driver.press("escape", "escape")
        await driver.until(lambda: program.captures[1].was_discarded)
        assert driver.explorer.reader.path == program.captures[0].session_path
        await driver.press("r")
        await driver.until(
            lambda: len(program.captures) == 3 and program.captures[2].session_path.exists()
        )
        await ended(driver, program.captures[2])
        await driver.until(lambda: card(driver))
        assert "Graph breaks: 1 → 0." in card(driver)
