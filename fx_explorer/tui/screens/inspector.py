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
from fx_explorer.cut_text import cell_count, cut_cells
from fx_explorer.highlight import printable
from fx_explorer.tui.content.destinations import Entry, RowOfView
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.failures import TellsUnreadable
from fx_explorer.tui.keys import closing_bindings
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import GAP, ListColumn, Row, RowList, Rows
from fx_explorer.tui.widgets.text_layout import wrapped

LABEL_CELLS = 14
"""Maximum width of the first column."""

COLUMNS = (
    ListColumn("", "muted", min_width=6, max_width=LABEL_CELLS),
    ListColumn("", "text", min_width=20, max_width=400),
)

MOST_ROWS = 8
"""Maximum number of rows that a value takes; the whole of a longer one is below the list."""


class Inspector(TellsUnreadable, Dialog[Place | RowOfView | None]):
    """Shows label and value, on as many rows as the value needs; below the list how the value under
    the cursor is known. Enter goes where the line leads; escape closes.
    """

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
        self._list = RowList(COLUMNS, header=False)
        self._entry_of_row: list[int] = []
        self._width = 0
        """Number of cells for a value that the rows are wrapped for."""
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
        self.call_after_refresh(self._wrap)

    def on_resize(self) -> None:
        self.call_after_refresh(self._wrap)

    def _wrap(self) -> None:
        """Lay out the values for the width of the list, with the cursor on the same entry."""
        labels = max((cell_count(entry.label) for entry in self._entries), default=0)
        labels = max(COLUMNS[0].min_width, min(labels, LABEL_CELLS))
        width = self._list.body_width - labels - GAP
        if width == self._width or width < COLUMNS[1].min_width:
            return
        before = self._entry_at(self._list.cursor)
        self._width = width
        self._entry_of_row = []
        rows: list[Row] = []
        for at, entry in enumerate(self._entries):
            of_entry = entry_rows(entry, width)
            rows += of_entry
            self._entry_of_row += [at] * len(of_entry)
        line = self._entry_of_row.index(before) if before in self._entry_of_row else 0
        self._list.load(Rows(rows), line=line)
        self._show_hint(line)

    def _entry_at(self, line: int) -> int:
        if line < len(self._entry_of_row):
            return self._entry_of_row[line]
        return 0

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        self._show_hint(event.line)

    def _show_hint(self, line: int) -> None:
        """Show how the entry is known, and all of it where its rows do not have that."""
        if self._entries:
            entry = self._entries[self._entry_at(line)]
        else:
            entry = Entry("", "")
        texts = []
        if self._width and len(wrapped(_shown_text(entry), self._width)) > MOST_ROWS:
            texts.append(printable(entry.text))
        if entry.note:
            texts.append(printable(entry.note))
        self._whole.display = bool(texts)
        self._whole.update(Content("\n".join(texts)))
        self._hint.show(
            Content("⏎ goes where a line with → leads"),
            Content("⏎ goes there  esc closes" if entry.target else "esc closes"),
        )

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        event.stop()
        target = self._entries[self._entry_at(event.line)].target
        if target:
            self.dismiss(target)
        else:
            self.app.bell()

    def action_leave(self) -> None:
        self.dismiss(None)


def entry_rows(entry: Entry, width: int) -> list[Row]:
    """Return an entry as rows whose values have at most ``width`` cells."""
    kind = "link" if entry.target else "text"
    if not entry.is_certain:
        kind = "warning"
    first, *rest = wrapped(_shown_text(entry), width)
    if len(rest) >= MOST_ROWS:
        rest = rest[: MOST_ROWS - 1]
        rest[-1] = cut_cells(rest[-1], 0, width - 1) + "…"
    return [(entry.label, (first, kind)), *(("", (row, kind)) for row in rest)]


def _shown_text(entry: Entry) -> str:
    """Return the text with the signs for an entry that leads somewhere, and for one that is not
    certain.
    """
    text = entry.text if entry.is_certain else f"? {entry.text}"
    return f"→ {text}" if entry.target else text
