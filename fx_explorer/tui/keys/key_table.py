"""The keys of the main screen that Textual does not bind: those that open menus, and those the user
gave to commands that have none by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fx_explorer.tui.commands import AppCommand, Keymap, Menu, menus
from fx_explorer.tui.keys.bindings import fallbacks


class Meaning(NamedTuple):
    """What a key of the main screen does: it opens a menu or runs a command."""

    menu: Menu | None = None
    command: AppCommand | None = None


class KeyTable:
    """Looks keys up, as the user has mapped them. What the user chose comes first."""

    def __init__(self, commands: Sequence[AppCommand], keymap: Keymap) -> None:
        self._chosen = fallbacks(commands, keymap)
        self._menus = menus(commands, keymap)

    @property
    def leaders(self) -> set[str]:
        return {*self._menus}

    def lookup(self, key: str, character: str) -> Meaning:
        """Return what a key does, by its name or by its character."""
        for name in (key, character):
            if name in self._chosen:
                return Meaning(command=self._chosen[name])
            if name in self._menus:
                return Meaning(menu=self._menus[name])
        return Meaning()
