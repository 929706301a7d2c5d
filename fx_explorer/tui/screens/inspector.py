"""This module is the inspector, which lists everything known about one place, and each line of it
can be followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from fx_explorer.analysis.documents import Place
from fx_explorer.cut_text import cut_cells
from fx_explorer.highlight import printable
from fx_explorer.tui.content.destinations import Entry, RowOfView
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.failures import TellsUnreadable
from fx_explorer.tui.keys import closing_bindings
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import ListColumn, Row, RowList, Rows

COLUMNS = (
    ListColumn("", "muted", min_width=10, max_width=14),
    ListColumn("", "text", min_width=44, max_width=90),
    ListColumn("", "muted", min_width=16, max_width=24, priority=1),
)


class Inspector(TellsUnreadable, Dialog[Place | RowOfView | None]):
    """Shows label, value, and how it is known. Enter goes where the line leads; escape closes."""

    DEFAULT_CSS = """
    Inspector { align: center middle; }
    Inspector > Vertical {
        width: 94%; height: 90%; background: $surface; border: round $border; padding: 0 1;
    }
    Inspector RowList { height: 1fr; background: $surface; }
    Inspector Static { height: auto; max-height: 4; }
    Inspector OneLine { padding: 0; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = closing_bindings("place.inspect", "app.quit")

    def __init__(self, entries: Sequence[Entry]) -> None:
        super().__init__()
        self._entries = entries
        self._list = RowList(COLUMNS, Rows([entry_row(entry) for entry in entries]), header=False)
        self._whole = Static()
        self._hint = OneLine()

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "All facts"
            yield self._list
            yield self._whole
            yield self._hint

    def on_mount(self) -> None:
        self._list.focus()
        self._show_hint(0)

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        self._show_hint(event.line)

    def _show_hint(self, line: int) -> None:
        """Show the whole entry, and its evidence, because its row may be too short."""
        if line < len(self._entries):
            entry = self._entries[line]
        else:
            entry = Entry("", "")
        text = printable(entry.text)
        row = "".join(piece for piece, _ in self._list.line_tokens(line))
        self._whole.display = text not in cut_cells(row, 0, self._list.body_width)
        self._whole.update(Content(text))
        self._hint.show(
            Content(printable(entry.note) or "⏎ goes where a line with → leads"),
            Content("⏎ goes there  esc closes" if entry.target else "esc closes"),
        )

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        event.stop()
        target = self._entries[event.line].target
        if target:
            self.dismiss(target)
        else:
            self.app.bell()

    def action_leave(self) -> None:
        self.dismiss(None)


def entry_row(entry: Entry) -> Row:
    text = (f"→ {entry.text}", "link") if entry.target else (entry.text, "text")
    note = (entry.note, "muted") if entry.is_certain else (f"? {entry.note}", "warning")
    return entry.label, text, note
