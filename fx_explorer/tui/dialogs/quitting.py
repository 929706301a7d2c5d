"""Asks before the app is left while a capture is in a temporary place only. One key for each
answer.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Label

from fx_explorer.highlight import printable
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.keys.bindings import closing_bindings

Answer = Literal["save", "discard", "stay"]


class Quitting(Dialog[Answer]):
    """Shows what would be lost, and asks what to do with it."""

    DEFAULT_CSS = """
    Quitting { align: center middle; }
    Quitting > Vertical {
        width: auto; min-width: 40; max-width: 96%; height: auto;
        background: $surface; border: round $border; padding: 0 1;
    }
    Quitting Label { width: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "answer('save')", "Save as", show=False),
        Binding("d", "answer('discard')", "Discard", show=False),
        *closing_bindings("app.quit"),
    ]

    def __init__(self, what: str) -> None:
        """``what`` is the capture, in a few words."""
        super().__init__()
        self._what = what

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Quit without saving?"
            box.border_subtitle = "s saves · d discards · esc stays"
            yield Label(printable(f"{self._what} is not saved."), markup=False)
            yield Label("s    save it as a file, and quit", markup=False)
            yield Label("d    discard it, and quit", markup=False)
            yield Label("esc  go on looking at it", markup=False)

    def action_answer(self, answer: Answer) -> None:
        self.dismiss(answer)

    def action_leave(self) -> None:
        self.dismiss("stay")
