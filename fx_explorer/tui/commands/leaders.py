"""Keys that open a menu, and the tree of menus that sequences of keys like ``v b`` make.

Pure data: ``fx-explorer keys`` and the docs are written from it, and screens/menu.py draws it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fx_explorer.tui.commands.command import AppCommand, Keymap, keys_of

LEADERS: Mapping[str, str] = {
    "space": "everything",
    "v": "views",
    "c": "compile",
    "x": "fix and measure",
    "o": "go",
    "p": "panes",
    "Y": "copy",
}
"""Key → what its menu is called. All but the first stand in the menu of everything, too."""

EVERYTHING = "space"

AMONG_EVERYTHING: tuple[str, ...] = (
    "find.anything",
    "find.in_pane",
    "place.copy",
    "place.edit",
    "capture.again",
    "capture.watch",
    "capture.save",
    "step.next",
    "app.help",
    "app.quit",
)
"""Commands with a key of their own that the menu of everything lists too, so that it teaches
them.
"""


@dataclass(frozen=True, slots=True)
class Menu:
    """One menu: what its keys lead to."""

    title: str
    keys: tuple[str, ...]
    """The keys that lead here."""
    entries: dict[str, AppCommand | Menu] = field(default_factory=dict)

    def entry(self, key: str) -> AppCommand | Menu | None:
        return self.entries.get(key)


def is_sequence(key: str) -> bool:
    """Return whether ``key`` stands for several keys, one after the other."""
    return " " in key


def singles(keys: Iterable[str]) -> tuple[str, ...]:
    """Return those of ``keys`` that are pressed alone."""
    return tuple(key for key in keys if not is_sequence(key))


def menus(commands: Iterable[AppCommand], keymap: Keymap) -> dict[str, Menu]:
    """Return leader → its menu, as the user has mapped the keys."""
    commands = list(commands)
    found = {key: Menu(title, (key,)) for key, title in LEADERS.items()}
    for command in commands:
        for sequence in filter(is_sequence, keys_of(command, keymap)):
            _put(found, sequence.split(), command)
    everything = found[EVERYTHING]
    for key, menu in found.items():
        if key != EVERYTHING:
            everything.entries.setdefault(key, menu)
    by_id = {command.id: command for command in commands}
    for command_id in AMONG_EVERYTHING:
        if command_id in by_id:
            for key in singles(keys_of(by_id[command_id], keymap))[:1]:
                everything.entries.setdefault(key, by_id[command_id])
    return {key: menu for key, menu in found.items() if menu.entries}


def _put(found: dict[str, Menu], keys: list[str], command: AppCommand) -> None:
    """Enter a command at the end of its sequence. The first of two that want one place has it."""
    menu = found.setdefault(keys[0], Menu(keys[0], (keys[0],)))
    for depth, key in enumerate(keys[1:-1], start=2):
        below = menu.entries.setdefault(key, Menu(key, tuple(keys[:depth])))
        if not isinstance(below, Menu):
            return
        menu = below
    menu.entries.setdefault(keys[-1], command)
