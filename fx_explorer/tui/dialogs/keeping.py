"""Asks what becomes of something that was typed and is left with Escape: keep it, drop it, or go
back to it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Label

from fx_explorer.highlight import printable, printable_text
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.keys import closing_bindings

Keep = Literal["keep", "drop", "back"]


class Keeping(Dialog[Keep]):
    """``y`` keeps, ``n`` drops, Escape goes back to what was typed. Where it cannot be kept, ``y``
    and Enter do nothing.
    """

    DEFAULT_CSS = """
    Keeping { align: center middle; }
    Keeping > Vertical { width: 80%; max-width: 90; height: auto; background: $surface; border: round $border; padding: 0 1; }
    Keeping Label { width: 1fr; margin: 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = closing_bindings()

    def __init__(self, question: str, words: str, verb: str = "") -> None:
        """``verb`` says what ``y`` does: ``keeps it``; empty where nothing can be kept."""
        super().__init__()
        self._question = question
        self._words = words
        self._verb = verb

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = printable(self._question)
            box.border_subtitle = " · ".join(
                [*([f"y {self._verb}"] if self._verb else []), "n drops it", "esc goes back to it"]
            )
            yield Label(printable_text(self._words), markup=False)

    def on_key(self, event: events.Key) -> None:
        if event.key == "y" and self._verb:
            event.stop()
            self.dismiss("keep")
        elif event.key == "n":
            event.stop()
            self.dismiss("drop")

    def action_leave(self) -> None:
        self.dismiss("back")
