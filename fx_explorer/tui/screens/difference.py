"""A list of pairs, and below it the difference of the pair under the cursor: what screens that
compare have in common.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content

from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.failures import TellsUnreadable
from fx_explorer.tui.keys import closing_bindings, first_key, priority_bindings
from fx_explorer.tui.screens.rows.compare import DIFF_COLUMNS
from fx_explorer.tui.widgets.lines.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import RowList

SHOW_DELAY_S = 0.08
"""Seconds the cursor must rest on a pair before it is compared, so that moving fast over the list
compares none.
"""

_HINTED = ("compare.next", "compare.previous", "compare.other", "dialog.close")


class DifferenceScreen(TellsUnreadable, Dialog[None]):
    """Shows pairs and a difference. Keys go from one difference to the next, and to the other
    list.
    """

    DEFAULT_CSS = """
    DifferenceScreen { align: center middle; }
    DifferenceScreen > Vertical { width: 98%; height: 96%; background: $surface; border: round $border; padding: 0 1; }
    DifferenceScreen RowList { height: 1fr; background: $surface; }
    DifferenceScreen #title { color: $foreground; background: $panel; }
    DifferenceScreen OneLine { padding: 0; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        *closing_bindings("app.quit"),
        *priority_bindings("compare"),
    ]

    def __init__(
        self, heading: str, pairs: RowList, placeholder: str, keymap: Keymap | None
    ) -> None:
        """``placeholder`` stands where a difference will be shown."""
        super().__init__()
        self._heading = heading
        self._keymap = keymap or {}
        self._list = pairs
        self._difference = RowList(
            DIFF_COLUMNS, header=False, id="difference", placeholder=placeholder
        )
        self._title = OneLine(id="title")
        self._hint = OneLine()

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._heading
            yield self._list
            yield self._title
            yield self._difference
            yield self._hint

    def _compare(self, line: int) -> object:
        """Show the difference of the pair at ``line``, or a text in its place."""
        raise NotImplementedError

    def _has_difference(self, line: int) -> bool:
        """Return whether there is a pair at ``line``."""
        raise NotImplementedError

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        if event.control is self._list:
            self._compare(event.line)

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        """Go into the pair's difference at enter."""
        event.stop()
        if event.control is self._list and self._has_difference(event.line):
            self._difference.focus()

    def _show_hint(self, words: str) -> None:
        following, before, other, close = (
            first_key(by_id(command), self._keymap) for command in _HINTED
        )
        keys = f"{following} {before} differences · {other} other list · {close} closes"
        self._hint.show(Content(words), Content(keys))

    def action_next_difference(self, step: int) -> None:
        marks, here = sorted(self._difference.marks), self._difference.cursor
        ahead = [mark for mark in marks if (mark > here if step > 0 else mark < here)]
        if not ahead:
            self.app.bell()
            return
        self._difference.move_to(ahead[0] if step > 0 else ahead[-1], center=True)

    def action_other_list(self) -> None:
        (self._list if self._difference.has_focus else self._difference).focus()

    def action_leave(self) -> None:
        self.dismiss(None)
