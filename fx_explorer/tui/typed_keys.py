"""This module keeps the keys that are typed faster than the screen changes: those for a dialog that
is not open yet, and those that are on their way to a screen.

Textual hands a key to the widget that has the focus when the key arrives, and looks for its binding
when it has come up from there. Typed ahead, the second key starts for the main screen before the
first one has opened its dialog; it is for the dialog, as ``KeysUnderWay`` knows. ``HeldKeys`` keeps
what is typed while a conversation (``conversation.py``) opens its dialog.
"""

from __future__ import annotations

import time
from bisect import insort
from collections import deque
from collections.abc import Collection
from typing import Any
from weakref import WeakKeyDictionary

from textual import events
from textual.app import App
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import Screen

KEY_S = 0.25
"""Seconds after which a key that was sent to a dialog counts as processed."""

NEVER_HELD = {"ctrl+c", "ctrl+q"}
"""Keys that end the app."""


class HeldKeys:
    """The keys of an app that were typed for a dialog that is not open yet, and those behind a key
    that a dialog has not processed.
    """

    def __init__(self) -> None:
        self._keys: list[events.Key] = []
        self._conversation: object | None = None
        self._until_s = 0.0
        self._under_way: events.Key | None = None

    def begin(self, conversation: object, seconds: float) -> None:
        """Hold keys for the next dialog of a conversation, for at most so many seconds."""
        self._conversation = conversation
        self._until_s = time.monotonic() + seconds

    def end(self, conversation: object) -> None:
        """Hold no keys for a conversation any longer: its dialog is open, or it needs none."""
        if self._conversation is conversation:
            self._conversation = None

    def expire(self, conversation: object) -> None:
        """End it if its time is up and it has not begun again."""
        if time.monotonic() >= self._until_s:
            self.end(conversation)

    def takes(self, key: events.Key) -> bool:
        """Return whether this key is held, and hold it in the order of typing."""
        is_opening = self._conversation is not None and time.monotonic() < self._until_s
        is_released = self._conversation is None and bool(self._keys)
        is_behind_another = self._under_way is not None or is_released
        is_new = not key.is_forwarded  # others were typed before those that are held
        is_held = is_opening or (is_behind_another and is_new)
        if key.key in NEVER_HELD or not is_held:
            return False
        copy = events.Key(key.key, key.character)
        copy.time = key.time
        insort(self._keys, copy, key=lambda held: held.time)
        return True

    def next_released(self) -> events.Key | None:
        """Return the next key that waits for nothing any longer, and forget it."""
        if self._conversation is None and self._under_way is None and self._keys:
            return self._keys.pop(0)
        return None

    def follow(self, key: events.Key, target: MessagePump, app: App[Any]) -> None:
        """Hold what is typed behind ``key``, which has just been sent to a widget of a dialog,
        until the widget and all above it have processed the key and their messages about it.
        """
        self._under_way = key

        def arrive() -> None:
            if self._under_way is key:
                self._under_way = None
                app.post_message(KeysReleased())

        def climb(node: MessagePump, rounds: int) -> None:
            above = node._parent
            if node is not app and above is not None:
                above.call_later(climb, above, rounds)
            elif rounds > 1:
                target.call_later(climb, target, rounds - 1)
            else:
                arrive()

        target.call_later(climb, target, 2)
        app.set_timer(KEY_S, arrive)  # a widget that is removed processes nothing any more


class KeysReleased(Message):
    """Posted to the app when it may deliver held keys."""


_held: WeakKeyDictionary[App[Any], HeldKeys] = WeakKeyDictionary()


def held_keys(app: App[Any]) -> HeldKeys:
    """Return the keys that an app holds for a dialog."""
    return _held.setdefault(app, HeldKeys())


class KeysUnderWay:
    """Remembers the screen that each key was sent to, until the key has been processed, or a later
    one has.
    """

    def __init__(self) -> None:
        self._sent: deque[tuple[events.Key, Screen[object]]] = deque()

    def sent(self, key: events.Key, screen: Screen[object]) -> None:
        """Note that this key has just arrived, and goes to this screen."""
        self._sent.append((key, screen))

    def has_one_of(self, keys: Collection[str], screen: Screen[object]) -> bool:
        """Return whether one of ``keys`` has been sent to this screen and not processed."""
        return any(
            to is screen and (key.key in keys or key.character in keys) for key, to in self._sent
        )

    def is_late(self, key: events.Key, screen: Screen[object]) -> bool:
        """Return whether a key was pressed while another screen was on top."""
        while self._sent:
            sent, to = self._sent.popleft()
            if sent is key:
                return to is not screen
        return False
