"""Choose one of many by typing: documents, links, places found in the session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input

from fx_explorer.tui.bindings import bindings_of
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import Column, RowList, Rows

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True)
class Choice(Generic[ValueT]):
    text: str
    detail: str
    value: ValueT


Search = Callable[[str], Sequence[Choice[ValueT]]]
"""What was typed → what matches, best first."""

SEARCH_DELAY_S = 0.08
"""A word typed fast is looked for once, not letter by letter."""


MOST_LINES = 18


def matching(choices: Sequence[Choice[ValueT]]) -> Search[ValueT]:
    """Return a search among choices that are all there: every word typed must occur. Those that
    have all in their text come first.
    """

    def search(typed: str) -> Sequence[Choice[ValueT]]:
        words = typed.casefold().split()
        found = [c for c in choices if _has_all(words, f"{c.text} {c.detail}")]
        return sorted(found, key=lambda choice: not _has_all(words, choice.text))

    return search


def _has_all(words: Sequence[str], text: str) -> bool:
    folded = text.casefold()
    return all(word in folded for word in words)


class Chooser(Dialog[ValueT | None], Generic[ValueT]):
    """A title, a line to type in, and what matches. Enter takes the line under the cursor, escape
    none.
    """

    DEFAULT_CSS = """
    Chooser { align: center top; }
    Chooser > Vertical {
        width: 90%; max-width: 120; height: auto; max-height: 80%; margin-top: 2; padding: 0 1;
        background: $surface; border: round $border;
    }
    Chooser Input { background: $surface; margin-bottom: 1; }
    Chooser RowList { height: 18; background: $surface; }
    Chooser OneLine { padding: 0; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = bindings_of("dialog")

    def __init__(self, title: str, search: Search[ValueT]) -> None:
        super().__init__()
        self._title = title
        self._search = search
        self._choices: Sequence[Choice[ValueT]] = ()
        self._typed: str | None = None
        """What ``_choices`` were looked for with."""
        self._input = Input(placeholder="type to find; ↑ ↓ choose, ⏎ takes, esc closes", compact=True)
        columns = (Column("", "text", min_width=20, max_width=70), Column("", "muted", min_width=10, max_width=90, priority=1))
        self._list = RowList(columns, header=False, placeholder="Nothing matches. Try fewer letters.")
        # The input keeps the focus, so that one can type on wherever the cursor of the list is.
        self._list.can_focus = False
        self._count = OneLine()

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            yield self._input
            yield self._list
            yield self._count

    def on_mount(self) -> None:
        self._input.focus()
        self._find()
        if self._choices:  # all there are: typing makes them fewer
            self._list.styles.height = min(MOST_LINES, len(self._choices))

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.set_timer(SEARCH_DELAY_S, lambda: self._find() if event.value == self._input.value else None)

    def _find(self) -> None:
        """List what matches now, unless that is what is listed."""
        typed = self._input.value
        if typed == self._typed:
            return
        self._typed = typed
        self._choices = self._search(typed)
        self._list.placeholder = "Nothing matches. Try fewer letters." if typed else "Type a part of a name."
        self._list.load(Rows([(choice.text, choice.detail) for choice in self._choices]))
        self._count.show(Content(f"{len(self._choices):,} found" if typed else ""))

    def action_move(self, lines: int) -> None:
        self._find()  # keys may come faster than the delay: they move in the list that is about to be shown
        self._list.move_to(self._list.cursor + lines)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._find()
        if self._list.cursor < len(self._choices):
            self.dismiss(self._choices[self._list.cursor].value)

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        """Take the line that is clicked."""
        event.stop()
        if event.line < len(self._choices):
            self.dismiss(self._choices[event.line].value)

    def on_click(self, event: events.Click) -> None:
        if event.widget is self:
            self.dismiss(None)

    def action_leave(self) -> None:
        self.dismiss(None)
