"""These tests check keys by groups: menus behind leader keys, and few keys that are pressed alone."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from textual import events
from textual.keys import _character_to_key

from fx_explorer.tui.app import ExplorerApp
from fx_explorer.tui.commands import (
    COMMANDS,
    LEADERS,
    ON_TOP,
    Menu,
    is_sequence,
    menus,
    singles,
)
from fx_explorer.tui.config import Config
from fx_explorer.tui.controllers.exports import Exports
from fx_explorer.tui.keys import clashes
from fx_explorer.tui.screens.menu import MenuScreen, menu_rows
from fx_explorer.tui.widgets.outline_tree import unfolded_to_fit
from tests.exhaustive import in_exhaustive_runs, with_others
from tests.sessions import Hand
from tests.tui.conftest import Driver, OpenApp

KEPT = set("0hjkl/nNgG?qfyerws.bBi[]123456789")
"""Letters and signs that may still be pressed alone on the main screen."""

MAIN = [command for command in COMMANDS if command.scope not in ON_TOP]


def reached(menu: Menu) -> set[str]:
    """The ids of the commands that a menu leads to."""
    found = set()
    for entry in menu.entries.values():
        found |= reached(entry) if isinstance(entry, Menu) else {entry.id}
    return found


def in_main_screen(key: str) -> str:
    return {"slash": "/", "full_stop": ".", "question_mark": "?"}.get(key, key)


def test_few_keys_are_left_that_are_pressed_alone() -> None:
    alone = {in_main_screen(key) for command in MAIN for key in singles(command.keys)}
    assert {key for key in alone if len(key) == 1} == KEPT


def test_a_capital_is_the_reverse_of_its_small_letter() -> None:
    pairs = {("n", "N"), ("g", "G"), ("b", "B"), ("l", "L")}
    small_and_capital = {
        (key.lower()[-1], key[-1])
        for command in COMMANDS
        for key in command.keys
        if len(key.split()[-1]) == 1 and key[-1].isupper()
    }
    assert small_and_capital <= pairs


def test_every_command_of_the_main_screen_is_in_a_menu_or_has_a_key_of_its_own() -> None:
    found = menus(COMMANDS, {})
    assert set(found) == set(LEADERS)
    everything = reached(found["space"])
    for command in MAIN:
        sequences = [key for key in command.keys if is_sequence(key)]
        assert singles(command.keys) or sequences
        assert not sequences or command.id in everything


def test_no_two_commands_share_a_sequence_and_no_key_hides_one() -> None:
    assert clashes(MAIN, {}) == {}
    for scope in ON_TOP:
        assert clashes([command for command in COMMANDS if command.scope == scope], {}) == {}


def test_a_key_that_hides_a_menu_is_told() -> None:
    assert {command.id for command in clashes(MAIN, {"pane.zoom": ("v",)})["v"]} >= {
        "pane.zoom",
        "view.backend",
    }


def test_a_key_does_the_same_in_every_dialog() -> None:
    """What a title says is what the key does: run, save, next, before, close."""
    meanings = {
        "r": {"try"},
        "s": {"accept"},
        "n": {"next difference", "next graph"},
        "N": {"difference before", "graph before"},
    }
    for key, titles in meanings.items():
        assert {c.title for c in COMMANDS if c.scope in ON_TOP and key in c.keys} == titles


@pytest.mark.parametrize("size", with_others([(80, 24), (40, 12)], [(200, 50), (120, 40)]))
async def test_every_menu_fits_with_all_its_keys(
    hand: Hand, open_app: OpenApp, size: tuple[int, int]
) -> None:
    every_menu = menus([command for command in COMMANDS if command.group != "Tour"], {})
    async with open_app(hand.path, size=size) as driver:
        for leader in LEADERS:
            await driver.press(leader)
            screen = driver.app.screen
            assert isinstance(screen, MenuScreen)
            table = screen.query_one("MenuTable")
            assert table.region.bottom <= size[1]
            assert table.region.y >= 0
            words = " ".join(driver.screen.splitlines()[table.region.y :])
            for key, entry in every_menu[leader].entries.items():
                assert f" {entry.title[:4]}" in words, (key, entry.title, driver.screen)
            if size[0] >= 80:
                assert "…" not in words.replace(" …", ""), driver.screen
            await driver.press("escape")
            assert driver.app.screen is driver.explorer


async def test_a_menu_is_one_widget_and_asks_once_for_each_command_whether_it_does_something(
    hand: Hand, open_app: OpenApp
) -> None:
    asked: list[str] = []

    def why_not(command_id: str) -> str:
        asked.append(command_id)
        return ""

    menu = menus([command for command in COMMANDS if command.group != "Tour"], {})["p"]
    async with open_app(hand.path) as driver:
        screen = MenuScreen(menu, why_not)
        await driver.app.push_screen(screen)
        await driver.settle()
        screen.query_one("MenuTable").refresh(layout=True)
        await driver.settle()
        assert sorted(asked) == sorted(
            entry.id for entry in menu.entries.values() if not isinstance(entry, Menu)
        )
        assert len(screen.query("MenuTable")) == 1
        assert not screen.query("MenuTable *")


def test_words_are_cut_where_a_terminal_is_too_small() -> None:
    rows = menu_rows([("a", "a very long title", True)] * 12, 20, 4)
    assert len(rows) == 4
    assert all(cell_len(row.plain) <= 24 for row in rows)


async def test_a_sequence_opens_a_view(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("v", "r")
        assert driver.explorer.view == "regions"
        await driver.press("space", "v", "m")
        assert driver.explorer.view == "step_memory"
        await driver.press("v", "3")
        assert driver.explorer.view == "stages"


async def test_a_key_that_is_not_in_the_menu_leaves_it_open(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("v", "A")
        assert isinstance(driver.app.screen, MenuScreen)
        await driver.press("escape")
        assert driver.app.screen is driver.explorer


async def test_a_click_on_an_entry_takes_it(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, size=(80, 24)) as driver:
        await driver.press("v")
        lines = driver.screen.splitlines()
        row = next(y for y, line in enumerate(lines) if "r regions" in line)
        await driver.pilot.click(offset=(lines[row].index("regions") + 1, row))
        await driver.settle()
        assert driver.explorer.view == "regions"


def send(app: ExplorerApp, *keys: str) -> None:
    """As a terminal sends keys that were typed faster than the screen follows."""
    assert app._driver is not None
    for key in keys:
        name = _character_to_key(key) if len(key) == 1 else key
        app._driver.send_message(events.Key(name, key if len(key) == 1 else None))


@in_exhaustive_runs
async def test_a_sequence_in_one_burst_reaches_its_command_and_what_comes_behind_its_dialog(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        send(driver.app, "2", "p", "j", "p", "d", "j", "o", "i")
        await driver.settle()
        (field,) = driver.app.screen.query("Input")
        assert field.value == "joi"  # type: ignore[attr-defined]
        assert len(driver.panes) == 3  # joint | forward | backward, by p j: j moved no cursor


async def test_keys_of_the_config_file_come_first(hand: Hand, open_app: OpenApp) -> None:
    keys = {"view.regions": ("D", "z r"), "pane.zoom": ("Z",)}
    async with open_app(hand.path, config=Config(keys=keys)) as driver:
        await driver.press("D")
        assert driver.explorer.view == "regions"
        await driver.press("1", "z", "r")
        assert driver.explorer.view == "regions"
        await driver.press("2", "Z")
        assert sum(pane.display for pane in driver.panes) == 1
        assert not driver.app._notifications


async def copied_by(driver: Driver, monkeypatch: pytest.MonkeyPatch, *keys: str) -> str:
    texts: list[str] = []
    monkeypatch.setattr(Exports, "copy_text", lambda _, text: texts.append(text))
    await driver.press(*keys)
    return texts[-1] if texts else ""


async def test_the_menu_of_copying_copies_kernel_node_and_answer(
    hand: Hand, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(hand.path) as driver:
        assert "- **kernels**: " in await copied_by(driver, monkeypatch, "Y", "a")
        answer = await copied_by(driver, monkeypatch, "6", "j", "Y", "a")
        assert answer.startswith("## kernels\n")
        assert answer.count("\n| ") >= 3
        assert "gelu(tmp0)" in await copied_by(driver, monkeypatch, "Y", "k")
        assert "gelu" in await copied_by(driver, monkeypatch, "Y", "n")
        assert (await copied_by(driver, monkeypatch, "2", "Y", "a")).startswith("## ")


async def test_the_list_of_commands_says_why_one_does_nothing_now(
    hand: Hand, open_app: OpenApp
) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("6", "ctrl+p")
        assert driver.screen.index("follow (⏎)") < driver.screen.index("overview (1)")
        await driver.press(*"skip")
        await driver.until(lambda: "found" in driver.screen)
        assert "not now: There is no compiler to step through" in driver.screen


async def test_a_menu_is_grey_where_nothing_would_happen(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        assert driver.app.controllers.command_runs.why_not("step.next")
        assert driver.app.controllers.command_runs.why_not("graph.form")
        assert not driver.app.controllers.command_runs.why_not("view.regions")
        await driver.press("v", "a", "enter")
        assert not driver.app.controllers.command_runs.why_not("graph.form")


async def test_help_begins_with_the_keys_of_the_view(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path) as driver:
        await driver.press("4", "question_mark")
        assert driver.screen.index("fix: Show edits") < driver.screen.index("Moving")


@in_exhaustive_runs
async def test_a_small_terminal_has_one_line_of_heading(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, size=(80, 24)) as driver:
        for view in "3456789":
            await driver.press(view)
            body = driver.explorer.views.body
            assert body is not None
            assert body.region.y <= 3 + (view == "9"), view


def test_the_outline_unfolds_what_it_has_room_for() -> None:
    paths = [
        "a#0",
        "a/b#0",
        *(f"a/b/{i}#0" for i in range(14)),
        "a/c#0",
        *(f"a/c/{i}#0" for i in range(14)),
    ]
    folded = {"a/b#0", "a/c#0"}
    assert unfolded_to_fit(paths, folded, set(), 40) == set()
    assert unfolded_to_fit(paths, folded, set(), 20) == {"a/c#0"}
    assert unfolded_to_fit(paths, folded, set(), 10) == folded
