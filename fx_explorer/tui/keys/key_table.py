"""The keys of the main screen that Textual does not bind: those that open menus, those the user gave
to commands that have none by themselves, and for one release the old ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fx_explorer.tui.commands import NOW_LEADERS, AppCommand, Keymap, Menu, menus
from fx_explorer.tui.keys.bindings import fallbacks, old_keys


class Meaning(NamedTuple):
    """What a key of the main screen does: it opens a menu or runs a command."""

    menu: Menu | None = None
    command: AppCommand | None = None
    was: str = ""
    """The command that the key had in the release before, where it must be told."""


class KeyTable:
    """Looks keys up, as the user has mapped them. What the user chose comes first."""

    def __init__(self, commands: Sequence[AppCommand], keymap: Keymap) -> None:
        self._chosen = fallbacks(commands, keymap)
        self._menus = menus(commands, keymap)
        self._old = old_keys(commands)

    @property
    def leaders(self) -> set[str]:
        return {*self._menus}

    def lookup(self, key: str, character: str) -> Meaning:
        """Return what a key does, by its name or by its character."""
        for name in (key, character):
            if name in self._chosen:
                return Meaning(command=self._chosen[name])
            if name in self._menus:
                return Meaning(menu=self._menus[name], was=NOW_LEADERS.get(name, ""))
            if name in self._old:
                return Meaning(command=self._old[name], was=self._old[name].id)
        return Meaning()
