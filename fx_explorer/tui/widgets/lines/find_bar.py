"""The line where the user types what to find. Matches appear while typing; enter keeps them, escape
ends the find.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input

from fx_explorer.analysis.words import counted
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.keys import bindings_of, first_key
from fx_explorer.tui.widgets.lines.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine


class FindBar(Horizontal):
    """``/ addmm          12 lines``, for the pane that had the focus when it was opened."""

    DEFAULT_CSS = """
    FindBar { height: 1; dock: bottom; background: $panel; display: none; }
    FindBar.-open { display: block; }
    FindBar > Input { width: 2fr; background: $panel; }
    FindBar > .find-prompt { width: 3; }
    FindBar > .find-count { width: 1fr; color: $text-muted; }
    FindBar.-nothing > .find-count { width: 2fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("dialog")

    def __init__(self, keymap: Keymap) -> None:
        super().__init__()
        leaves, everywhere = (
            first_key(by_id(command), keymap) for command in ("dialog.close", "find.anything")
        )
        self._no_match = f"no match; {leaves} {everywhere} looks everywhere"
        self._prompt = OneLine(classes="find-prompt")
        self._input = Input(
            placeholder="find in this pane; capitals count when you type one", compact=True
        )
        self._count = OneLine(classes="find-count")
        self._view: LineView | None = None

    def compose(self) -> ComposeResult:
        yield self._prompt
        yield self._input
        yield self._count

    def on_mount(self) -> None:
        self._prompt.show(Content.styled("/", "bold $accent"))

    def open(self, view: LineView) -> None:
        """Find in ``view``, beginning with what was looked for there before."""
        self._view = view
        self.add_class("-open")
        self.remove_class("-nothing")
        self._count.show(Content(""))
        self._input.value = view.find_pattern
        self._input.focus()

    @property
    def is_open(self) -> bool:
        return self.has_class("-open")

    def show_count(self, event: LineView.Found) -> None:
        if event.view is self._view:
            words = counted(event.count, "line") + ("" if event.done else " so far")
            finds_nothing = event.done and bool(event.pattern) and not event.count
            self.set_class(finds_nothing, "-nothing")
            self._count.show(
                Content(self._no_match if finds_nothing else words if event.pattern else "")
            )

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if self._view and self.is_open and event.value != self._view.find_pattern:
            self._view.find(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._close()

    def action_leave(self) -> None:
        if self._view:
            self._view.find("")
        self._close()

    def action_move(self, lines: int) -> None:
        """Go to the next match, or the one before."""
        if self._view:
            step = self._view.find_next if lines > 0 else self._view.find_previous
            step()

    def _close(self) -> None:
        self.remove_class("-open")
        if self._view:
            self._view.focus(scroll_visible=False)
