"""These tests show a capture while it runs: header, pipeline, growth, cancel, quit, failures,
capturing again. The capture is injected.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.client.session_files import is_a_session
from fx_explorer.errors import SessionWriteError
from fx_explorer.model import CaptureRequest, Command, Notice, Outcome
from fx_explorer.session import SessionWriter
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.sessions import write_training_step
from tests.tui.conftest import OpenApp


class FakeCapture:
    """FakeCapture is a capture whose notices the test sends; its findings are written when it ends."""

    def __init__(
        self, path: Path, write: Callable[[Path], object], outcome: Outcome | None = None
    ) -> None:
        self.session_path = path
        self.outcome: Outcome | None = None
        self.sent: list[Command] = []
        self.was_cancelled = False
        self.was_discarded = False
        self.was_kept = False
        self.left_behind = ""
        self.kept_name = ""
        self.history_problem = ""
        self.is_temporary = False
        """As with ``-o``: nobody is asked when the app is left."""
        self._write = write
        self._final = outcome or Outcome("finished")
        self._queue: asyncio.Queue[Notice | None] = asyncio.Queue()

    async def start(self) -> None:
        with SessionWriter(self.session_path) as writer:
            writer.set_meta(
                "request", dataclasses.asdict(CaptureRequest("mlp.py", str(self.session_path)))
            )

    def say(self, notice: Notice) -> None:
        self._queue.put_nowait(notice)

    def send(self, command: Command) -> None:
        self.sent.append(command)

    def stay(self) -> None:
        """The program has ended, and the worker waits for commands."""
        self._write(self.session_path)
        self._note_end(self._final)

    def end(self) -> None:
        self._write(self.session_path)
        self._finish(self._final)

    def _finish(self, outcome: Outcome) -> None:
        self._note_end(outcome)
        self.outcome = outcome
        self._queue.put_nowait(None)

    def _note_end(self, outcome: Outcome) -> None:
        with SessionWriter(self.session_path) as writer:
            writer.set_meta("outcome", outcome.to_json())
            writer.set_meta("finished", 1.0)

    async def notices(self) -> AsyncIterator[Notice]:
        while (notice := await self._queue.get()) is not None:
            yield notice

    async def wait(self) -> Outcome:
        assert self.outcome is not None
        return self.outcome

    async def cancel(self, grace_s: float = 3.0) -> Outcome:
        self.was_cancelled = True
        self._finish(Outcome("cancelled"))
        return await self.wait()

    def keep(self) -> None:
        self.was_kept = True

    def discard(self) -> None:
        self.was_discarded = True


def step(path: Path) -> None:
    write_training_step(path, finished=False)


def nothing(path: Path) -> None:
    """Write nothing: the capture has found nothing."""


async def test_progress_is_told_while_torch_loads_and_stages_run(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        assert "mlp.py" in driver.header
        capture.say(Notice("worker", "importing torch"))
        await driver.until(lambda: "▷ importing torch" in driver.header)
        assert "· Dynamo" in driver.screen
        capture.say(Notice("phase", stage="schedule", state="begin", compilation="0/0"))
        await driver.until(lambda: "▷ Inductor running" in driver.screen)
        assert "Inductor is fusing [0/0]" in driver.header
        capture.end()
        await driver.until(lambda: "✓ captured in 1.00 s" in driver.header)
        assert "Everything became one graph" in driver.facts
        assert "✓ Dynamo 1 graph · 0 breaks" in driver.screen


async def test_views_update_as_the_session_grows(open_app: OpenApp, tmp_path: Path) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.press("8")
        assert "printed nothing so far" in driver.screen
        with SessionWriter(capture.session_path) as writer:
            writer.add(model.ConsoleLine(0, "stdout", "hello from the program", 0.5))
        await driver.until(lambda: "hello from the program" in driver.screen)
        capture.end()


async def test_a_session_somebody_else_is_writing_is_followed(
    open_app: OpenApp, tmp_path: Path
) -> None:
    path = tmp_path / "other.fxs"
    with SessionWriter(path) as writer:
        writer.set_meta("target", {"name": "train.py"})
    async with open_app(path) as driver:
        assert "▷ being written" in driver.header
        write_training_step(path)
        await driver.until(
            lambda: "✓ captured" in driver.header and "Everything became one graph" in driver.facts
        )


async def test_escape_cancels_when_pressed_twice_and_keeps_what_was_found(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        step(capture.session_path)
        await driver.press("escape")
        assert not capture.was_cancelled
        assert any("Escape again stops it" in note.message for note in driver.app._notifications)
        await driver.press("escape")
        assert capture.was_cancelled
        await driver.until(lambda: "– cancelled; results so far are kept" in driver.header)
        assert driver.explorer.reader.count(model.Graph) == 6


@in_exhaustive_runs
async def test_a_capture_that_is_stopped_before_it_found_anything_takes_nothing_from_the_screen(
    open_app: OpenApp, tmp_path: Path
) -> None:
    captures = [
        FakeCapture(tmp_path / "second.fxs", nothing),
        FakeCapture(tmp_path / "first.fxs", step),
    ]
    first, second = captures[1], captures[0]
    async with open_app(make_capture=lambda: captures.pop(), target="mlp.py") as driver:
        first.end()
        await driver.until(lambda: "✓ captured" in driver.header)
        await driver.press("r")
        await driver.until(lambda: driver.app.captures.is_running)
        await driver.press("escape", "escape")
        await driver.until(lambda: second.was_discarded)
        await driver.until(lambda: "✓ captured" in driver.header)
        assert driver.explorer.reader.path == first.session_path
        assert not first.was_discarded
        assert driver.app.captures.last_session == first.session_path
        assert any(
            "the screen still shows the previous one" in note.message
            for note in driver.app._notifications
        )


async def test_quitting_stops_the_capture_and_leaves_no_files(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        await driver.pilot.press("q")
    assert capture.was_cancelled
    assert capture.was_discarded


@pytest.fixture
def unsaved(tmp_path: Path) -> FakeCapture:
    """A capture without ``-o``, in which something is compiled as soon as it runs."""
    capture = FakeCapture(tmp_path / "s.fxs", step)
    capture.is_temporary = True
    return capture


@pytest.mark.parametrize("key", with_others(["q", "ctrl+c"], ["ctrl+q"]))
@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40)]))
async def test_quitting_asks_about_a_capture_that_is_not_saved_and_each_answer_is_one_key(
    open_app: OpenApp, unsaved: FakeCapture, tmp_path: Path, key: str, size: tuple[int, int]
) -> None:
    async with open_app(make_capture=lambda: unsaved, target="mlp.py", size=size) as driver:
        unsaved.end()
        await driver.until(lambda: driver.explorer.reader and driver.app.captures.live.is_over)
        for goes_on in ("escape", key):
            await driver.press(key)
            assert "Save before quitting?" in driver.screen
            assert "The capture of mlp.py (1 compilation) is not saved." in driver.screen
            assert "y yes · n no · esc stay" in driver.screen
            await driver.press(goes_on)
            assert "Save before quitting?" not in driver.screen
        assert not unsaved.was_discarded
        await driver.press(key, "y")
        await driver.press("escape")
        assert driver.app.return_code is None, "no place was given: nothing is lost"
        await driver.press(key, "y")
        await driver.press("ctrl+u")
        await driver.paste(str(tmp_path / "mine"))
        await driver.press("enter")
        await driver.until(lambda: driver.app.return_code == 0)
    assert is_a_session(tmp_path / "mine.fxs")
    assert unsaved.was_discarded


async def test_what_runs_is_stopped_before_it_is_saved_and_a_place_that_is_taken_loses_nothing(
    open_app: OpenApp, unsaved: FakeCapture, tmp_path: Path
) -> None:
    (tmp_path / "taken.fxs").write_text("mine")
    async with open_app(make_capture=lambda: unsaved, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        step(unsaved.session_path)
        await driver.press("q", "y")
        await driver.press("ctrl+u")
        await driver.paste(str(tmp_path / "taken"))
        await driver.press("enter")
        assert "already exists" in driver.screen
        assert unsaved.was_cancelled
        assert not unsaved.was_discarded
        await driver.press("q", "n")
        await driver.until(lambda: driver.app.return_code == 0)
    assert (tmp_path / "taken.fxs").read_text() == "mine"
    assert unsaved.was_discarded


async def test_nothing_is_asked_when_nothing_was_captured_or_everything_is_saved(
    open_app: OpenApp, unsaved: FakeCapture, tmp_path: Path
) -> None:
    async with open_app(make_capture=lambda: unsaved, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        assert driver.app.captures.count_unsaved() == 0
        unsaved.end()
        await driver.until(lambda: driver.app.captures.live.is_over)
        assert driver.app.captures.count_unsaved() == 1
        await driver.press("s")
        await driver.press("ctrl+u")
        await driver.paste(str(tmp_path / "mine"))
        await driver.press("enter")
        await driver.until(lambda: (tmp_path / "mine.fxs").exists())
        await driver.press("q")
    assert driver.app.return_code == 0


async def test_an_app_that_is_terminated_asks_nobody_and_keeps_what_is_not_saved(
    open_app: OpenApp, unsaved: FakeCapture
) -> None:
    async with open_app(make_capture=lambda: unsaved, target="mlp.py", ends_with=143) as driver:
        unsaved.end()
        await driver.until(lambda: driver.app.captures.live and driver.app.captures.live.is_over)
        driver.app.controllers.leaving.leave_on_sigterm()
        await driver.until(lambda: driver.app.return_code == 143)
    assert unsaved.was_kept


async def test_quitting_works_whatever_goes_wrong_with_the_worker(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)

    async def fail(grace_s: float = 3.0) -> Outcome:
        raise ZeroDivisionError

    capture.cancel = fail  # type: ignore[method-assign]
    with contextlib.suppress(ZeroDivisionError):
        async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
            await driver.until(lambda: driver.explorer.reader)
            await driver.pilot.press("q")
    assert driver.app._exit


async def test_a_program_that_raises_is_told_and_its_traceback_shown(
    open_app: OpenApp, tmp_path: Path
) -> None:
    def write(path: Path) -> None:
        with SessionWriter(path) as writer:
            text = writer.text(
                'Traceback (most recent call last):\n  File "/p/mlp.py", line 7\nValueError: bad shape'
            )
            writer.add(model.Failure(0, 0, "program", None, "ValueError", "bad shape", text))

    capture = FakeCapture(tmp_path / "s.fxs", write, Outcome("raised", "ValueError: bad shape", 3))
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        capture.end()
        await driver.until(lambda: "✗ program raised ValueError" in driver.header)
        await driver.press("8")
        assert "ValueError: bad shape" in driver.screen
        assert 'File "/p/mlp.py", line 7' in driver.screen


async def test_a_capture_that_cannot_start_is_told(open_app: OpenApp, tmp_path: Path) -> None:
    class Hopeless(FakeCapture):
        async def start(self) -> None:
            raise SessionWriteError("cannot create the session file: the disk is full")

    async with open_app(
        make_capture=lambda: Hopeless(tmp_path / "s.fxs", nothing), target="mlp.py"
    ) as driver:
        await driver.until(lambda: "✗ cannot create the session file" in driver.header)


async def test_a_fault_of_ours_while_following_is_told_and_the_app_stays(
    open_app: OpenApp, tmp_path: Path
) -> None:
    class Faulty(FakeCapture):
        async def start(self) -> None:
            raise RuntimeError("something nobody thought of")

    async with open_app(
        make_capture=lambda: Faulty(tmp_path / "s.fxs", nothing), target="mlp.py"
    ) as driver:
        await driver.until(lambda: "✗ RuntimeError: something nobody thought of" in driver.header)
        await driver.press("2")
        assert driver.explorer.view == "source"


async def test_capturing_again_keeps_the_place(open_app: OpenApp, tmp_path: Path) -> None:
    captures = [FakeCapture(tmp_path / f"{i}.fxs", step) for i in range(2)]
    made = iter(captures)
    async with open_app(make_capture=lambda: next(made), target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        captures[0].end()
        await driver.until(lambda: "✓ captured" in driver.header)
        await driver.press("2", "tab", "g", "j", "j", "r")
        await driver.until(lambda: captures[1].session_path.exists())
        assert driver.panes[1].place.line == 2  # the old session is shown while the new one is made
        captures[1].end()
        await driver.until(lambda: driver.explorer.reader.path == captures[1].session_path)
        assert driver.explorer.view == "source"
        assert driver.panes[1].place.document.title == "Forward · post-grad"
        assert driver.panes[1].place.line == 2
        assert driver.panes[0].body.marks == {6}
        assert not captures[0].was_discarded, "the session before says what has changed since"
        await driver.press("q")
    assert captures[0].was_discarded


@in_exhaustive_runs
async def test_saving_the_watched_file_captures_again(open_app: OpenApp, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("a = 1\n")
    captures = [FakeCapture(tmp_path / f"{i}.fxs", step) for i in range(2)]
    made = iter(captures)
    async with open_app(
        make_capture=lambda: next(made), target=str(file), watched=[file]
    ) as driver:
        await driver.until(lambda: driver.explorer.reader)
        captures[0].end()
        await driver.until(lambda: "✓ captured" in driver.header)
        await driver.press("w")
        await driver.until(lambda: "watching" in driver.header)
        file.write_text("a = 2222\n")
        await driver.until(lambda: captures[1].session_path.exists())
        captures[1].end()


async def test_a_saved_session_cannot_be_captured_again_and_says_so(
    open_app: OpenApp, tmp_path: Path
) -> None:
    write_training_step(tmp_path / "s.fxs")
    async with open_app(tmp_path / "s.fxs") as driver:
        await driver.press("r", "w")
        messages = " ".join(note.message for note in driver.app._notifications)
        assert "This is a saved session" in messages
        assert "There is no file to watch" in messages


@in_exhaustive_runs
async def test_c_w_captures_again_without_weights_and_r_stays_with_that(
    open_app: OpenApp, tmp_path: Path
) -> None:
    captures = [FakeCapture(tmp_path / f"{i}.fxs", step) for i in range(3)]
    without = iter(captures[1:])
    async with open_app(
        make_capture=lambda: captures[0],
        make_without_weights=lambda: next(without),
        target="mlp.py",
    ) as driver:
        await driver.until(lambda: driver.explorer.reader)
        captures[0].end()
        for number, keys in ((1, ("c", "w")), (2, ("r",))):
            await driver.until(lambda: "✓ captured" in driver.header)
            await driver.press(*keys)
            await driver.until(lambda number=number: captures[number].session_path.exists())
            captures[number].end()
            await driver.until(
                lambda number=number: driver.explorer.reader.path == captures[number].session_path
            )
        await driver.press("c", "w")
        assert "Only for a capture with --gpu" in " ".join(
            note.message for note in driver.app._notifications
        )
