"""A message in the corner of the screen."""

from __future__ import annotations

from textual.notifications import Notification

SHORTEST_S = 0.05

STYLE = """
ToastRack { margin-bottom: 3; }
Toast { padding: 0 1; }
"""
"""Messages stand above the footer's keys, which take two rows of a narrow terminal, and the line on
the selection.
"""


class CornerMessage(Notification):
    """A notification whose timer never has a negative time.

    Textual asks whether a notification has expired, and a moment later how long it still has, for
    the timer that takes it away. Where it expires in between, as the second of two that were raised
    together does, that timer never ends and the app stands still (Textual 8.2, textual/timer.py).
    """

    @property
    def time_left(self) -> float:
        return max(SHORTEST_S, super().time_left)

    @property
    def has_expired(self) -> bool:
        return super().time_left <= 0
