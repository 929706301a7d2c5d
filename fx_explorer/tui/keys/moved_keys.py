"""The keys of the release before: what each is now, told the first time that it is pressed."""

from __future__ import annotations

from collections.abc import Callable

from fx_explorer.tui.commands import NOW_LEADERS, AppCommand, Keymap, by_id, key_label
from fx_explorer.tui.keys.bindings import first_key

MOVED_S = 8
"""What an old key is now is read in peace."""


class MovedKeys:
    """Remembers which of them were told."""

    def __init__(self, keymap: Keymap, notify: Callable[[str, float], None]) -> None:
        """``notify`` shows a message for so many seconds."""
        self._keymap = keymap
        self._notify = notify
        self._told: set[str] = set()

    def tell(self, command_id: str, key: str) -> None:
        """Say what an old key is now, the first time that it is pressed."""
        words = self.news(command_id, key)
        if words:
            self._notify(words, MOVED_S)

    def news(self, command_id: str, key: str) -> str:
        """Return what an old key is now; empty when that was told already."""
        if key in self._told:
            return ""
        self._told.add(key)
        return moved_words(by_id(command_id), key, self._keymap)


def moved_words(command: AppCommand, key: str, keymap: Keymap) -> str:
    """Say what an old key is now: ``@ is now v b (backend)``."""
    now = first_key(command, keymap)
    if key in NOW_LEADERS:
        return f"{command.title} is {now} now"
    return (
        f"{key_label(key)} is now {now} ({command.title}). The old key goes with the next release."
    )
