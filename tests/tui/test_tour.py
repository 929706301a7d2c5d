"""These tests check the guided tour: it runs in the app itself, goes on when a step was done, and
remembers its place.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from fx_explorer.errors import UsageError
from fx_explorer.tui.commands import COMMANDS, by_id
from fx_explorer.tui.controllers.guided_tour import WAITS
from fx_explorer.tui.screens.tour_panel import TourPanel
from fx_explorer.tui.tour_steps import (
    PROGRESS,
    STEPS,
    GuidedTour,
    TourMoment,
    TourStep,
    begin_walk,
    place_of,
    tour_folder,
)
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp

HERE = TourMoment(is_compiled=True, captures=1)


def step(name: str) -> TourStep:
    return STEPS[place_of(name)]


@pytest.mark.parametrize("one", STEPS, ids=lambda one: one.id)
def test_a_step_is_one_plain_sentence_with_a_command_that_exists(one: TourStep) -> None:
    assert one.sentence[0].isupper()
    assert one.sentence[-1] in ".?"
    assert by_id(one.command) in COMMANDS
    assert not one.way or by_id(one.way) in COMMANDS
    assert one.id == STEPS[place_of(one.resumes_at or one.id)].id or STEPS[
        place_of(one.resumes_at)
    ].pause in ("", "dynamo")


@pytest.mark.parametrize("one", STEPS, ids=lambda one: one.id)
def test_no_step_is_done_before_anything_happened(one: TourStep) -> None:
    before = TourMoment(screen="FixScreen") if one.id == "close" else TourMoment()
    assert not one.is_done(before, before)


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("overview", {"row": 1}),
        ("overview", {"view": "breaks"}),
        ("breaks", {"view": "breaks"}),
        ("fixes", {"screen": "FixScreen"}),
        ("try", {"screen": "FixScreen", "trials": 1}),
        ("write", {"saved_ns": 5}),
        ("again", {"captures": 2, "gate": "dynamo", "is_compiled": False}),
        ("step", {"gate": "dynamo", "shows_stage": True}),
        ("stages", {"gate": "joint", "shows_stage": True}),
        ("linked", {"view": "source", "panes": frozenset({"source", "graph"})}),
        ("lit", {"row": 3, "lit": 2}),
        ("kernels", {"view": "kernels"}),
        ("find", {"view": "source"}),
        ("help", {"screen": "Help"}),
    ],
)
def test_a_step_is_done_by_what_it_asks_for(name: str, after: dict[str, object]) -> None:
    now = dataclasses.replace(HERE, **after)  # type: ignore[arg-type]
    assert step(name).is_done(HERE, now)


@pytest.mark.parametrize("verdict", ["timed out", "refused", "not compared"])
def test_the_tour_goes_on_where_the_trial_was_not_good(verdict: str) -> None:
    before = TourMoment(screen="FixScreen", trials=1, verdict=verdict)
    now = step("write").at(before)
    assert verdict in now.sentence
    assert "refused" not in now.sentence or verdict == "refused"
    assert now.command == "dialog.close"
    assert not now.is_done(before, before)
    assert now.is_done(before, dataclasses.replace(before, screen="Explorer"))
    assert step("write").at(dataclasses.replace(before, verdict="good")) is step("write")


@pytest.mark.parametrize("name", ["try", "write"])
def test_a_question_above_the_fixes_is_not_told_to_go_back(name: str) -> None:
    assert step(name).is_there(TourMoment(screen="Consent"))
    assert not step(name).is_there(TourMoment(view="breaks"))


@pytest.fixture
def walk(tmp_path: Path) -> GuidedTour:
    return begin_walk(tmp_path / "tour", again=False)


async def panel_text(driver: Driver) -> str:
    """Return the text of the panel after it has been updated."""
    await driver.pilot.pause(0.25)
    return driver.app.screen.query_one(TourPanel).render().plain  # type: ignore[union-attr]


async def test_the_tour_goes_on_when_the_key_it_names_was_pressed(
    hand: Hand, open_app: OpenApp, walk: GuidedTour
) -> None:
    async with open_app(hand.path, tour=walk) as driver:
        assert WAITS in await panel_text(driver)
        driver.app.controllers.tour.captures = 1
        assert "Press  ↓  to go down a line" in await panel_text(driver)
        await driver.press("down")
        assert "Press  4  to see where it stopped" in await panel_text(driver)
        await driver.press("3")
        assert "Press  4 " in await panel_text(driver), "another key is no step"
        await driver.press("4")
        assert "Press  ⏎  to go to that line" in await panel_text(driver)
        await driver.press("1")
        assert "Press  4  to return" in await panel_text(driver)
        assert json.loads((walk.folder / PROGRESS).read_text()) == {"step": "source"}


async def test_a_step_can_be_skipped_and_gone_back_to_by_key_and_by_mouse(
    hand: Hand, open_app: OpenApp, walk: GuidedTour
) -> None:
    async with open_app(hand.path, tour=walk) as driver:
        await driver.press("space", "n")
        assert "Tour 2 of" in await panel_text(driver)
        await driver.press("space", "N")
        assert "Tour 1 of" in await panel_text(driver)
        lines = driver.screen.splitlines()
        row = next(at for at, line in enumerate(lines) if "skips" in line)
        assert await driver.pilot.click(offset=(lines[row].index("skips"), row))
        assert "Tour 2 of" in await panel_text(driver)


async def test_the_tour_can_be_left_and_the_app_stays(
    hand: Hand, open_app: OpenApp, walk: GuidedTour
) -> None:
    async with open_app(hand.path, tour=walk) as driver:
        await driver.press("space", "n", "space", "l")
        await driver.pilot.pause(0.25)
        assert not driver.app.screen.query(TourPanel)
        assert "The tour is closed" in driver.screen
        await driver.press("4")
        assert driver.explorer.view == "breaks"
    assert begin_walk(walk.folder, again=False).begins_at == 1


async def test_keys_of_the_tour_are_in_no_menu_without_one(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("space")
        assert "skip this step" not in driver.screen
        await driver.press("n")
        assert not driver.app.screen.query(TourPanel)


async def test_keys_that_the_user_has_mapped_are_named(
    hand: Hand, open_app: OpenApp, walk: GuidedTour
) -> None:
    from fx_explorer.tui.config import Config

    async with open_app(
        hand.path, tour=walk, config=Config(keys={"view.breaks": ("Z",)})
    ) as driver:
        await driver.press("space", "n")
        assert "Press  Z  to see where" in await panel_text(driver)


@pytest.mark.parametrize("size", [(80, 24), (40, 12), (20, 5), (200, 50)])
async def test_the_panel_leaves_room_for_the_app(
    hand: Hand, open_app: OpenApp, walk: GuidedTour, size: tuple[int, int]
) -> None:
    async with open_app(hand.path, tour=walk, size=size) as driver:
        driver.app.controllers.tour.captures = 1
        await panel_text(driver)
        panel = driver.app.screen.query_one(TourPanel)
        assert 1 <= panel.size.height <= max(1, size[1] // 3)
        assert "Press  ↓" in driver.screen
        await driver.pilot.resize_terminal(100, 30)
        await driver.settle()
        assert "Tour 1 of" in driver.screen


def test_a_tour_begins_where_it_was_left_with_the_file_as_it_was(walk: GuidedTour) -> None:
    walk.target.write_text("# mine\n")
    walk.keep(place_of("kernels"))
    again = begin_walk(walk.folder, again=False)
    assert STEPS[again.begins_at].id == "kernels"
    assert again.target.read_text() == "# mine\n"
    anew = begin_walk(walk.folder, again=True)
    assert anew.begins_at == 0
    assert "class Classifier" in anew.target.read_text()


@pytest.mark.parametrize(
    ("left", "begins"),
    [("try", "fixes"), ("write", "fixes"), ("again", "step"), ("stages", "step"), ("go", "step")],
)
def test_a_tour_left_where_something_was_open_begins_a_little_before_or_behind(
    walk: GuidedTour, left: str, begins: str
) -> None:
    walk.keep(place_of(left))
    assert STEPS[begin_walk(walk.folder, again=False).begins_at].id == begins


@pytest.mark.parametrize("kept", ["", "{", "[]", '{"step": 3}', '{"step": "no such step"}', "\x00"])
def test_progress_that_cannot_be_read_means_the_start(walk: GuidedTour, kept: str) -> None:
    (walk.folder / PROGRESS).write_text(kept)
    assert begin_walk(walk.folder, again=False).begins_at == 0


def test_a_tour_walked_to_its_end_begins_anew(walk: GuidedTour) -> None:
    walk.keep(place_of("help"))
    walk.keep(len(STEPS) - 1)
    assert begin_walk(walk.folder, again=False).begins_at == 0


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="set XDG_STATE_HOME"):
        begin_walk(tmp_path / "file" / "tour", again=False)


def test_progress_is_kept_where_state_belongs() -> None:
    assert tour_folder({"XDG_STATE_HOME": "/var/state"}) == Path("/var/state/fx-explorer/tour")
    assert (
        tour_folder({"XDG_STATE_HOME": "relative"})
        == Path("~/.local/state/fx-explorer/tour").expanduser()
    )


async def test_a_tour_without_a_mouse_or_colours_says_the_same(
    hand: Hand, open_app: OpenApp, walk: GuidedTour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_app(hand.path, tour=walk) as driver:
        driver.app.controllers.tour.captures = 1
        assert "Press  ↓" in await panel_text(driver)
        await driver.press("down")
        assert "Press  4 " in await panel_text(driver)
        await driver.press("4")
        assert "Tour 3 of" in await panel_text(driver)
