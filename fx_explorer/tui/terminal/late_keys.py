"""Keys that were on their way to one screen when another opened on top of it.

Textual hands a key to the widget that has the focus when the key arrives, and looks for its binding
when it has come up from there. Typed ahead, the second key starts for the main screen before the
first one has opened its dialog; it is for the dialog.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from textual import events
from textual.screen import Screen


class KeysUnderWay:
    """Remembers the screen that each key was sent to, until the key comes up again or one that was
    sent later does.
    """

    def __init__(self) -> None:
        self._sent: deque[tuple[events.Key, Screen[object]]] = deque()

    def sent(self, key: events.Key, screen: Screen[object]) -> None:
        """Note that this key has just arrived, and goes to this screen."""
        self._sent.append((key, screen))

    def has_one_of(self, keys: Collection[str], screen: Screen[object]) -> bool:
        """Return whether one of ``keys`` is under way to this screen."""
        return any(
            to is screen and (key.key in keys or key.character in keys) for key, to in self._sent
        )

    def is_late(self, key: events.Key, screen: Screen[object]) -> bool:
        """Return whether a key that comes up was sent to another screen than this one, which is on
        top now.
        """
        while self._sent:
            sent, to = self._sent.popleft()
            if sent is key:
                return to is not screen
        return False
