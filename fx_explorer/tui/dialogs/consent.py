"""Asks whether something may be done with a session that somebody else made, and says what will
happen.
"""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Label

from fx_explorer.highlight import printable
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.keys import closing_bindings


class Consent(Dialog[bool]):
    """``y`` agrees. Every other key that closes, Enter among them, does not: nobody agrees by
    accident.
    """

    DEFAULT_CSS = """
    Consent { align: center middle; }
    Consent > Vertical { width: 80%; max-width: 90; height: auto; background: $surface; border: round $border; padding: 0 1; }
    Consent Label { width: 1fr; margin: 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = closing_bindings()

    def __init__(self, question: str, words: str) -> None:
        super().__init__()
        self._question = question
        self._words = words

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = printable(self._question)
            box.border_subtitle = "y yes · n no"
            yield Label(printable(self._words), markup=False)

    def on_key(self, event: events.Key) -> None:
        if event.key in ("y", "n", "enter"):
            event.stop()
            self.dismiss(event.key == "y")

    def action_leave(self) -> None:
        self.dismiss(False)
