"""These tests check that commands are declared once: each has a handler, keys can be remapped, and
mistakes are reported.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Coroutine, Iterator
from pathlib import Path
from unittest.mock import NonCallableMagicMock, create_autospec

import pytest

from fx_explorer.commands import keys
from fx_explorer.instruments.diff.screen import CompareScreen
from fx_explorer.instruments.fixes.screen import FixScreen
from fx_explorer.instruments.ranks.screen import RanksApp
from fx_explorer.tui.app import ExplorerApp
from fx_explorer.tui.commands import (
    COMMANDS,
    GROUPS,
    OF_VIEW,
    ON_TOP,
    SYNONYMS,
    AppCommand,
    by_id,
    key_label,
    singles,
)
from fx_explorer.tui.config import Config, config_path, load_config, parse_config
from fx_explorer.tui.dialogs.choose import Chooser
from fx_explorer.tui.dialogs.dialog import Ask
from fx_explorer.tui.dialogs.settings_dialog import SettingsDialog
from fx_explorer.tui.keys import clashes, first_key
from fx_explorer.tui.screens.explorer import Explorer
from fx_explorer.tui.screens.help import Help
from fx_explorer.tui.screens.inspector import Inspector
from fx_explorer.tui.screens.source_edit import SourceEditScreen
from fx_explorer.tui.screens.step_record_screen import StepScreen
from fx_explorer.tui.widgets.footer import FindBar, footer_commands
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.outline_tree import Outline
from tests.sessions import Hand
from tests.test_words import MODULES, PAGES, strings
from tests.tui.conftest import OpenApp

OWNERS = [
    ExplorerApp,
    Explorer,
    LineView,
    Outline,
    Chooser,
    FindBar,
    Inspector,
    Help,
    Ask,
    CompareScreen,
    SourceEditScreen,
    FixScreen,
    StepScreen,
    SettingsDialog,
    RanksApp,
]
CLASSES = {
    "app": ExplorerApp,
    "explorer": Explorer,
    "lines": LineView,
    "dialog": Chooser,
    "compare": CompareScreen,
    "fixes": FixScreen,
    "steps": StepScreen,
    "settings": SettingsDialog,
    "ranks": RanksApp,
}


WIDGET_COMMANDS = [command for command in COMMANDS if isinstance(command.action, str)]
CONTROLLER_COMMANDS = [command for command in COMMANDS if not isinstance(command.action, str)]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.id)
def test_every_command_has_a_sentence_and_a_group(command: AppCommand) -> None:
    assert command.help.endswith(".")
    assert command.group in GROUPS


@pytest.mark.parametrize("command", WIDGET_COMMANDS, ids=lambda command: command.id)
def test_every_action_is_carried_out_by_its_scope(command: AppCommand) -> None:
    assert isinstance(command.action, str)
    method = command.action.partition("(")[0]
    assert callable(getattr(CLASSES[command.scope], f"action_{method}"))


class SpiedControllers:
    """SpiedControllers are controllers of an app whose methods are only checked: that they exist,
    and take such arguments.
    """

    def __init__(self) -> None:
        self._controllers = ExplorerApp().controllers
        self.spied: dict[str, NonCallableMagicMock] = {}

    def __getattr__(self, name: str) -> NonCallableMagicMock:
        return self.spied.setdefault(name, create_autospec(getattr(self._controllers, name)))

    @property
    def calls(self) -> list[str]:
        return [
            f"{name}.{method}{arguments}"
            for name, spy in self.spied.items()
            for method, arguments, _ in spy.method_calls
        ]


def calls_of(command: AppCommand) -> list[str]:
    """Return the calls that a command makes."""
    assert not isinstance(command.action, str)
    controllers = SpiedControllers()
    work = command.action(controllers)
    if isinstance(work, Coroutine):
        work.close()
    return controllers.calls


@pytest.mark.parametrize("command", CONTROLLER_COMMANDS, ids=lambda command: command.id)
def test_every_other_command_calls_one_method_of_one_controller(command: AppCommand) -> None:
    assert len(calls_of(command)) == 1


def test_no_two_commands_call_a_controller_alike() -> None:
    """A line that was copied, and not changed, would give a key what another does."""
    calls = [call for command in CONTROLLER_COMMANDS for call in calls_of(command)]
    assert len(calls) > 50
    assert len(set(calls)) == len(calls)


async def test_a_key_has_the_controller_carry_its_command_out(
    hand: Hand, open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_app(hand.path) as driver:
        called: list[str] = []
        controllers = driver.app.controllers
        monkeypatch.setattr(
            controllers.navigation, "toggle_outline", lambda: called.append("plain")
        )

        async def find() -> None:
            called.append("awaited")

        monkeypatch.setattr(controllers.navigation, "find_anything", find)
        await driver.press("o", "o", "f")
        assert called == ["plain", "awaited"]


def test_ids_are_unique_and_no_two_commands_share_a_key() -> None:
    assert len({command.id for command in COMMANDS}) == len(COMMANDS)
    assert clashes([c for c in COMMANDS if c.scope not in ON_TOP], {}) == {}


def test_the_keys_of_lists_are_those_their_widget_binds() -> None:
    """Their bindings stand in the widget; commands/ tells the same keys."""
    bound = {}
    for binding in LineView.BINDINGS:
        bound[binding.id] = (tuple(binding.key.split(",")), binding.action)
    declared = {c.id: (singles(c.keys), c.action) for c in COMMANDS if c.scope == "lines"}
    assert {command_id: bound.get(command_id) for command_id in declared} == declared
    assert set(bound) == set(declared)


@pytest.mark.parametrize("owner", OWNERS)
def test_every_binding_has_the_id_of_a_command(owner: type) -> None:
    known = {command.id for command in COMMANDS}
    own = owner.__dict__.get("BINDINGS", [])
    assert {binding.id for binding in own if not binding.id.startswith("old.")} <= known


def test_the_footer_shows_the_key_the_user_chose() -> None:
    assert first_key(by_id("app.help"), {}) == "?"
    assert first_key(by_id("app.help"), {"app.help": ("ctrl+h",)}) == "ctrl+h"
    assert key_label("left_square_bracket") == "["


@pytest.mark.parametrize("view", OF_VIEW)
def test_the_footer_begins_with_the_commands_of_the_view_in_words(view: str) -> None:
    here = [(command.id, command.title) for command in footer_commands(view=view)]
    wanted = OF_VIEW[view]
    assert tuple(here[: len(wanted)]) == wanted
    assert len({command_id for command_id, _ in here}) == len(here)


def test_the_breaks_lead_to_fix_time_source_and_edit() -> None:
    assert [word for _, word in OF_VIEW["breaks"]] == ["fix", "time", "source", "edit"]
    assert [c.title for c in footer_commands(view="breaks", without=("line.follow",))][:3] == [
        "fix",
        "time",
        "edit",
    ]


def arguments(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    keys.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = config_path()
    path.parent.mkdir()
    return path


def test_the_key_table_follows_the_config_file(
    config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config_file.write_text('[keys]\n"pane.zoom" = "Z"\n')
    assert keys.run(arguments("--format", "json")) == 0
    table = {entry["id"]: entry["keys"] for entry in json.loads(capsys.readouterr().out)}
    assert table["pane.zoom"] == ["Z"]
    assert keys.run(arguments("--format", "json", "--default")) == 0
    assert '"p z"' in capsys.readouterr().out


@pytest.mark.parametrize("table_format", ["text", "markdown"])
def test_the_key_table_has_every_command(
    table_format: str, config_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys.run(arguments("--format", table_format))
    table = capsys.readouterr().out
    assert all(
        command.id in table
        and command.help.replace("|", "\\|" if table_format == "markdown" else "|") in table
        for command in COMMANDS
    )


def test_a_missing_config_file_means_the_defaults(tmp_path: Path) -> None:
    assert load_config(tmp_path / "config.toml") == Config()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("keys = [", "is not valid TOML"),
        ('theme = "purple"', 'write "dark", "light" or "auto"'),
        ('mark_kernels = "no"', "must be true or false"),
        ("colour = 1", "'colour' is not a setting"),
        ('keys = "x"', "keys must be a table"),
        ('[keys]\n"pane.zom" = "z"', "there is no command 'pane.zom'"),
        ('[keys]\n"pane.zoom" = 3', "must be a key or a list of keys"),
    ],
)
def test_a_mistake_in_the_config_file_is_told_and_the_rest_is_used(
    config_file: Path, text: str, problem: str
) -> None:
    config_file.write_text(text)
    config = load_config(config_file)
    assert any(problem in message and str(config_file) in message for message in config.problems)


def test_the_good_part_of_a_config_with_a_mistake_is_used() -> None:
    config = parse_config(
        {
            "theme": "light",
            "mark_kernels": False,
            "keys": {"pane.zoom": ["Z", "ctrl+z"], "nonsense": "x"},
        },
        "config.toml",
    )
    assert config.theme == "light"
    assert not config.mark_kernels
    assert config.keys == {"pane.zoom": ("Z", "ctrl+z")}
    assert len(config.problems) == 1


def test_an_unreadable_config_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.toml").mkdir()
    assert "cannot be read" in load_config(tmp_path / "config.toml").problems[0]


def test_every_synonym_belongs_to_a_command_and_adds_words() -> None:
    commands = {command.id: command for command in COMMANDS}
    for command_id, words in SYNONYMS.items():
        assert set(words.split()) - set(commands[command_id].title.split()), command_id


OTHER_WORDS = {
    "ptx": "preset.below",
    "sass": "preset.below",
    "slow": "view.kernels",
    "fuse": "view.stages",
    "undo": "breaks.undo",
    "memory peak": "view.step_memory",
}
"""What somebody types → the command that is meant."""


async def test_the_palette_finds_a_command_by_other_words(hand: Hand, open_app: OpenApp) -> None:
    async with open_app(hand.path, size=(120, 40)) as driver:
        for typed, command_id in OTHER_WORDS.items():
            keys = ["space" if letter == " " else letter for letter in typed]
            title = by_id(command_id).title
            await driver.press("ctrl+p", *keys)
            await driver.until(lambda name=f"{title} (": name in driver.screen)
            await driver.press("escape")
            assert driver.app.screen is driver.explorer


KEYS_IN_TEXTS = re.compile(
    r"(?:^|[.(;,:·] ?|\band |\bor |press |key )(?P<key>(?:[vcxopY] )?[A-Za-z0-9])(?= [a-z]+s\b)"
)
"""A key at the beginning of a clause, before a verb: ``x u undoes it``."""

NOT_A_KEY = ("a", "A", "X")
"""The article, and a file in an example of a command line."""


def keys_in_texts() -> Iterator[tuple[str, str]]:
    """Yield place and key for each key that a text of the package or a page names. A page has its
    keys as code.
    """
    for module in MODULES:
        for line, text in strings(module):
            for match in KEYS_IN_TEXTS.finditer(text):
                yield f"{module.name}:{line}", match["key"]
    for page in PAGES:
        for key in re.findall(r"`((?:[vcxopY] )[A-Za-z0-9])`", page.read_text()):
            yield page.name, key


def test_every_key_that_a_text_names_is_the_key_of_a_command() -> None:
    keys = {key_label(key) for command in COMMANDS for key in command.keys}
    named = list(keys_in_texts())
    assert len(named) > 100
    assert [(place, key) for place, key in named if key not in (*keys, *NOT_A_KEY)] == []
