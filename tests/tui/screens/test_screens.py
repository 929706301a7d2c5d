"""These tests check that twelve situations at three sizes in three themes are drawn as in
snapshots/.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from textual.widgets import Input

from fx_explorer.model import Notice
from tests.exhaustive import with_others
from tests.tui.conftest import Driver, OpenApp
from tests.tui.screens.kept import FOLDER, Shot, as_text, problem_of, shot_of
from tests.tui.test_live_capture import FakeCapture

SIZES = ((80, 24), (120, 40), (200, 50))
MOST_LOOKS = 50
WITH_STYLES = (120, 40)
"""Styles are kept at one size: at the others they are the same on other cells."""


@dataclass(frozen=True)
class Situation:
    """A Situation is a way to come to a screen, and some of its words, to know when it has
    appeared.
    """

    keys: tuple[str, ...]
    shows: str
    session: str = "whole"
    pauses: bool = False


SITUATIONS = {
    "overview": Situation((), "✓"),
    "paused": Situation((), "paused after Dynamo", session="paused", pauses=True),
    "asked-to-go-on": Situation(("6",), "Compile to the end, then", session="paused", pauses=True),
    "source": Situation(("2", "G"), "net.py"),
    "stage": Situation(("3", "down", "down", "enter"), "became"),
    "breaks": Situation(("4",), "print"),
    "guards": Situation(("5",), "guard"),
    "kernels": Situation(("6",), "cpp_fused"),
    "memory": Situation(("7",), "saved"),
    "stages": Situation(("3",), "Dynamo"),
    "modules": Situation(("0",), "first"),
    "time": Situation(("9",), "compil"),
    "compile-time": Situation(("v", "w"), "flame"),
    "console": Situation(("8",), "console"),
    "compare": Situation(("v", "v", "enter", "enter"), "beside"),
    "options": Situation(("c", "o"), "Options: what they do"),
    "menu": Situation(("space",), "everything"),
}

ALL_DRAWN = [(name, size) for name in SITUATIONS for size in SIZES]
SAMPLE = [
    *((name, WITH_STYLES) for name in SITUATIONS),
    *((name, (80, 24)) for name in list(SITUATIONS)[::4]),
]
DRAWN = with_others(SAMPLE, [drawing for drawing in ALL_DRAWN if drawing not in SAMPLE])
"""At the smallest size one of four; ``make exhaustive`` and ``make snapshots`` draw all."""


class Recorded(FakeCapture):
    """Recorded is a capture whose session is a recorded one."""

    def __init__(self, path: Path, recorded: Path) -> None:
        super().__init__(path, lambda _: None)
        self._recorded = recorded

    async def start(self) -> None:
        shutil.copy(self._recorded, self.session_path)


async def drawn(
    open_app: OpenApp,
    situation: Situation,
    session: Path,
    folder: Path,
    size: tuple[int, int],
    themes: tuple[str, ...],
) -> dict[str, Shot]:
    """Go to the situation, and draw it in each theme."""
    folder.mkdir()
    capture = Recorded(folder / "net.fxs", session)
    options: dict[str, object] = (
        {"make_capture": lambda: capture, "target": "net.py"} if situation.pauses else {}
    )
    async with open_app(None if situation.pauses else session, size=size, **options) as driver:
        if situation.pauses:
            capture.say(Notice("gate", state="begin", gate="dynamo"))
            await driver.until(lambda: "paused after Dynamo" in driver.header)
        await driver.press(*situation.keys)
        await driver.until(lambda: situation.shows in driver.screen)
        shots = {}
        for theme in themes:
            driver.app.theme = "fx-light" if theme == "light" else "fx-dark"
            shots[theme] = await at_rest(driver)
        if situation.pauses:
            capture.end()
        return shots


async def at_rest(driver: Driver) -> Shot:
    """Draw the screen when it no longer changes: no work in the background, no blinking cursor."""
    for line in driver.app.screen.query(Input):
        line.cursor_blink = False
    last = shot_of(driver.app)
    for _ in range(MOST_LOOKS):
        await driver.settle()
        await driver.settle()
        now = shot_of(driver.app)
        if now == last:
            return now
        last = now
    raise AssertionError(f"the screen does not come to rest:\n{driver.screen}")


@pytest.mark.parametrize(
    ("name", "size"), DRAWN, ids=[f"{name}-{size[0]}x{size[1]}" for name, size in DRAWN]
)
async def test_the_screen_is_drawn_as_it_is_kept(
    open_app: OpenApp,
    recorded: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
    size: tuple[int, int],
    update: bool,
) -> None:
    situation = SITUATIONS[name]
    session = recorded[situation.session]
    monkeypatch.delenv("NO_COLOR", raising=False)
    shots = await drawn(open_app, situation, session, tmp_path / "colours", size, ("dark", "light"))
    monkeypatch.setenv("NO_COLOR", "1")
    shots |= await drawn(open_app, situation, session, tmp_path / "none", size, ("no colour",))
    text = as_text(shots, with_styles=size == WITH_STYLES)
    problem = problem_of(f"{name}-{size[0]}x{size[1]}", text, update=update)
    assert not problem, problem


def test_every_screen_that_is_kept_is_drawn(update: bool) -> None:
    if update:
        pytest.skip("the screens are being kept just now")
    named = {f"{name}-{width}x{height}.txt" for name in SITUATIONS for width, height in SIZES}
    assert {path.name for path in FOLDER.glob("*.txt")} == named


def test_a_changed_character_and_a_changed_colour_are_seen(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.tui.screens.kept.FOLDER", tmp_path)
    kept = Shot(("one", "two"), ("3 abc", "3 abc"), {"abc": "bold #ffffff on #000000"})
    changes: dict[str, Callable[[], Shot]] = {
        "+tow¶": lambda: Shot(("one", "tow"), kept.styles, kept.legend),
        "+abd = #ffffff on #000000": lambda: Shot(
            kept.characters, ("3 abc", "3 abd"), {**kept.legend, "abd": "#ffffff on #000000"}
        ),
    }
    assert problem_of("a", as_text({"dark": kept}, with_styles=True), update=True) == ""
    assert problem_of("a", as_text({"dark": kept}, with_styles=True), update=False) == ""
    for told, changed in changes.items():
        assert (
            told
            in problem_of(
                "a", as_text({"dark": changed()}, with_styles=True), update=False
            ).splitlines()
        )
    assert "is not kept yet" in problem_of("b", "", update=False)
