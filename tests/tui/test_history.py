"""These tests check the history in the app: the list, a comparison, another capture in the place of
this one, and quitting without a question.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.client.history import History, Hold
from fx_explorer.client.history_settings import HistorySettings
from fx_explorer.instruments.diff.screen import DifferenceScreen
from fx_explorer.tui.dialogs.choose import Chooser
from tests.exhaustive import with_others
from tests.sessions import write_training_step
from tests.tui.conftest import OpenApp
from tests.tui.test_live_capture import FakeCapture, step


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three captures of one project in the history, in whose folder the app runs."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    kept = []
    for target in ("first.py", "second.py", "third.py"):
        write_training_step(tmp_path / "written.fxs")
        capture, hold = History(HistorySettings()).keep(
            tmp_path / "written.fxs", target, str(project), is_moved=True
        )
        hold.release()
        kept.append(capture.session)
    return kept


@pytest.mark.parametrize("size", with_others([(80, 24)], [(120, 40), (200, 50)]))
async def test_the_list_has_the_other_captures_of_the_project_newest_first(
    open_app: OpenApp, sessions: list[Path], size: tuple[int, int]
) -> None:
    async with open_app(sessions[1], size=size) as driver:
        await driver.press("o", "h")
        await driver.until(lambda: isinstance(driver.app.screen, Chooser))
        assert driver.screen.index("third.py") < driver.screen.index("first.py")
        assert "second.py" not in driver.screen, "it is on screen"
        assert "1 graph, 0" in driver.screen
        await driver.press("escape")
        assert not isinstance(driver.app.screen, Chooser)


@pytest.mark.parametrize(
    ("chosen", "heading"),
    [
        ("first.py", "history:1 → on screen"),
        ("third.py", "on screen → history:3"),
    ],
)
async def test_a_capture_is_compared_with_the_one_on_screen_the_older_one_first(
    open_app: OpenApp, sessions: list[Path], chosen: str, heading: str
) -> None:
    async with open_app(sessions[1]) as driver:
        await driver.press("o", "h")
        await driver.until(lambda: isinstance(driver.app.screen, Chooser))
        await driver.press(*chosen.removesuffix(".py"), "enter")
        await driver.until(lambda: "with the capture on screen" in driver.screen)
        await driver.press("enter")
        await driver.until(lambda: isinstance(driver.app.screen, DifferenceScreen))
        await driver.until(lambda: heading in driver.screen)
        await driver.until(lambda: "graph breaks" in driver.screen)
        held = History().find(1 if chosen == "first.py" else 3)
        assert "is open" in str(_forget(held))
        await driver.press("escape")
        await driver.until(lambda: driver.app.screen is driver.explorer)
        assert _forget(held) is None, "it is let go"


def _forget(capture: object) -> Exception | None:
    try:
        History().forget(capture)  # type: ignore[arg-type]
    except Exception as error:  # noqa: BLE001 - the test reads it
        return error
    return None


async def test_a_capture_is_opened_in_place_of_this_one(
    open_app: OpenApp, sessions: list[Path]
) -> None:
    async with open_app(sessions[2]) as driver:
        await driver.press("o", "h")
        await driver.until(lambda: isinstance(driver.app.screen, Chooser))
        await driver.press("down", "enter")
        await driver.until(lambda: "in place of this one" in driver.screen)
        await driver.press("down", "enter")
        await driver.until(lambda: driver.app.return_code == 0)
    assert driver.app.controllers.leaving.opens_next == "history:1"


async def test_a_capture_that_another_process_removed_is_a_message(
    open_app: OpenApp, sessions: list[Path]
) -> None:
    async with open_app(sessions[2]) as driver:
        await driver.press("o", "h")
        await driver.until(lambda: isinstance(driver.app.screen, Chooser))
        History().forget(History().find(2))
        await driver.press("enter")
        await driver.until(
            lambda: any("removed meanwhile" in note.message for note in driver.app._notifications)
        )


async def test_an_empty_history_is_a_sentence(open_app: OpenApp, sessions: list[Path]) -> None:
    for number in (1, 2):
        History().forget(History().find(number))
    async with open_app(sessions[2]) as driver:
        await driver.press("o", "h")
        project = Path.cwd()
        expected = f"No other capture of this project is kept: {project}"
        await driver.until(
            lambda: any(note.message == expected for note in driver.app._notifications)
        )


async def test_a_session_of_another_schema_is_a_message_when_it_is_compared(
    open_app: OpenApp, sessions: list[Path]
) -> None:
    sessions[1].write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    async with open_app(sessions[2]) as driver:
        await driver.press("o", "h")
        await driver.until(lambda: isinstance(driver.app.screen, Chooser))
        assert "second.py" in driver.screen
        await driver.press("enter")
        await driver.until(lambda: "with the capture on screen" in driver.screen)
        await driver.press("enter")
        await driver.until(
            lambda: any("session" in note.message for note in driver.app._notifications)
        )
        assert driver.app.screen is driver.explorer


# quitting


async def test_quitting_asks_nothing_and_names_the_capture_in_the_history(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        capture.end()
        await driver.until(lambda: driver.explorer.reader and driver.app.captures.live.is_over)
        capture.kept_name = "history:7"
        await driver.pilot.press("q")
    assert driver.app.controllers.leaving.last_words == [
        "kept as history:7: fx-explorer history:7 opens it again"
    ]


async def test_quitting_loses_nothing_when_the_history_is_full(
    open_app: OpenApp, tmp_path: Path
) -> None:
    capture = FakeCapture(tmp_path / "s.fxs", step)

    async def cancel(grace_s: float = 3.0) -> object:
        capture.is_temporary = True
        capture.history_problem = "the capture could not be kept in the history: no room"
        step(capture.session_path)
        return await FakeCapture.cancel(capture, grace_s)

    capture.cancel = cancel  # type: ignore[method-assign,assignment]
    async with open_app(make_capture=lambda: capture, target="mlp.py") as driver:
        await driver.until(lambda: driver.explorer.reader)
        await driver.pilot.press("q")
    assert capture.was_kept
    assert driver.app.controllers.leaving.last_words == [
        "the capture could not be kept in the history: no room. It is still in a temporary "
        "directory: recover it with fx-explorer recover."
    ]


def test_two_apps_hold_one_capture(sessions: list[Path]) -> None:
    first, second = Hold(sessions[0].parent), Hold(sessions[0].parent)
    first.release()
    assert "is open" in str(_forget(History().find(1)))
    second.release()
    assert _forget(History().find(1)) is None
