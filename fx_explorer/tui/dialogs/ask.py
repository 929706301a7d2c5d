"""Asks for one line of text."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Input

from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.keys import closing_bindings


class Ask(Dialog[str]):
    """A question and a suggested answer. Enter takes it, escape gives the empty answer."""

    DEFAULT_CSS = """
    Ask { align: center middle; }
    Ask > Vertical { width: 80%; max-width: 90; height: 3; background: $surface; border: round $border; padding: 0 1; }
    Ask Input { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = closing_bindings()

    def __init__(
        self, question: str, suggestion: str, verb: str = "saves", *, is_typed: bool = False
    ) -> None:
        """``verb`` says what Enter does. A suggestion that ``is_typed`` by the user already is
        edited; any other is replaced by the first key.
        """
        super().__init__()
        self._verb = verb
        self._question = question
        self._input = Input(suggestion, compact=True, select_on_focus=not is_typed)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._question
            box.border_subtitle = f"⏎ {self._verb} · esc closes"
            yield self._input

    def on_mount(self) -> None:
        self._input.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.dismiss(event.value.strip())

    def action_leave(self) -> None:
        self.dismiss("")
