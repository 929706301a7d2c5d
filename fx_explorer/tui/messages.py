"""Messages ask the app for what a screen cannot do by itself. They are posted by the main screen,
and by what opens above it.
"""

from __future__ import annotations

from textual.message import Message


class DifferenceWanted(Message):
    """Asks to show what differs from the last capture, or in the user's files by now (OF_FILES)."""

    def __init__(self, aspect: str) -> None:
        super().__init__()
        self.aspect = aspect


class ViewShown(Message):
    """Tells that a view was asked for: it may need a stage that is still ahead."""

    def __init__(self, view: str) -> None:
        super().__init__()
        self.view = view


class BelowWanted(Message):
    """Asks to show what is below the configuration that the cursor is on."""


class CopyWanted(Message):
    """Asks to copy a text: the app knows the ways out of the terminal. Dialogs ask for it too."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
