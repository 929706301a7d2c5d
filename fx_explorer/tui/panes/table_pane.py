"""A view of rows: what it shows, what is worth noticing, the rows, and details of the row under the
cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from fx_explorer.analysis.documents import Place
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.tui import copying
from fx_explorer.tui.panes.table_chart import TableChart
from fx_explorer.tui.terminal.wrapping import wrapped_text
from fx_explorer.tui.unreadable import TellsUnreadable
from fx_explorer.tui.views import table as views
from fx_explorer.tui.widgets import row_list
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.row_list import RowList

SHORT_ROWS = 30
"""A terminal with as many rows or fewer shows one line of heading: what is worth noticing."""

TableMaker = Callable[[SessionReader], views.Table]


class TablePane(TellsUnreadable, Vertical):
    """Shows two lines of words, a chart where the table has one, a list, and below it the detail of the
    row under the cursor. A function makes the table.
    """

    DEFAULT_CSS = """
    TablePane { height: 1fr; }
    TablePane > Words { background: $surface; padding: 0 1; height: auto; }
    TablePane > RowList { height: 3fr; }
    TablePane > .detail { height: 2fr; border-top: solid $border; }
    """

    class Moved(Message):
        """Posted when the cursor moved to another row. ``place`` is what the row stands for, if
        that is one place.
        """

        def __init__(self, place: Place | None) -> None:
            super().__init__()
            self.place = place

    class Followed(Moved):
        """Posted by enter on a row."""

    def __init__(self, make_table: TableMaker, *, id: str) -> None:
        super().__init__(id=id)
        self._make_table = make_table
        self.narrowed_to = ""
        """The words that rows must have to be shown, in a view that can be narrowed."""
        self._table: views.Table | None = None
        self._words = Words()
        self._detail_lines = 0
        """Lines of the longest detail that was shown."""
        self._chart = TableChart()
        self.rows = RowList(())
        self._detail_box = Vertical(classes="detail")
        self.detail = CodeView(line_numbers=False, placeholder="Nothing more is known about this row.")

    def compose(self) -> ComposeResult:
        yield self._words
        yield self._chart
        yield self.rows
        with self._detail_box:
            yield self.detail

    @property
    def body(self) -> LineView:
        return self.rows

    @property
    def place(self) -> Place | None:
        """Return what the row under the cursor stands for."""
        row = self._row(self.rows.cursor)
        return row.place if row else None

    def refresh_from(self, reader: SessionReader) -> None:
        """Make the table again. The cursor stays where it is."""
        table = self._make_table(reader)
        is_first = self._table is None
        self._table = table
        self._words.show(table)
        self.rows.placeholder = table.empty
        cursor = 0 if is_first else self.rows.cursor
        self.rows.load(TableRows(table), _columns(table), line=cursor)
        self._chart.show(table.chart, cursor)
        if is_first:
            self._detail_lines = 0
        self._show_detail()

    def narrow(self, words: str, make_table: TableMaker, reader: SessionReader) -> None:
        """Show only the rows that have ``words``. ``make_table`` makes them."""
        self.narrowed_to, self._make_table = words, make_table
        self.refresh_from(reader)

    def markdown(self, title: str) -> str:
        """Return all that the view says; empty while it says nothing."""
        return copying.table_markdown(title, self._table, self._row(self.rows.cursor)) if self._table else ""

    def forget(self) -> None:
        """Drop all references to the session, which is about to be closed."""
        self._table = None
        self._chart.show(None, 0)
        self.rows.load(row_list.Rows())
        self.detail.load("")

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        if event.view is self.rows:
            self._chart.point_at(self.rows.cursor)
            self._show_detail()
            self.post_message(self.Moved(self.place))

    def on_table_chart_picked(self, event: TableChart.Picked) -> None:
        event.stop()
        self.rows.focus()
        self.rows.user_moves_to(event.row, center=True)

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        event.stop()
        if event.view is self.rows:
            self.post_message(self.Followed(self.place))

    def _show_detail(self) -> None:
        row = self._row(self.rows.cursor)
        detail = row.detail() if row and row.detail else views.Detail("")
        width = self.detail.body_width
        text = wrapped_text(detail.text, width) if detail.language == "text" and width > 0 else detail.text
        self._give_room(text)
        self.detail.load(text, detail.language)

    def _give_room(self, text: str) -> None:
        """Give the detail the rows that the longest text so far needs, and none where there is no text.
        It never shrinks, so that the list stands still while the cursor moves.
        """
        was_hidden, lines = not self._detail_box.display, text.count("\n") + 1
        if bool(text) == was_hidden:
            self._detail_box.display = bool(text)
            if text:
                self.call_after_refresh(self._show_detail)  # it has a width only now
        if text and lines > self._detail_lines:
            self._detail_lines = lines
            self._detail_box.styles.max_height = lines + 1

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_detail)

    def _row(self, line: int) -> views.TableRow | None:
        rows = self._table.rows if self._table else ()
        return rows[line] if line < len(rows) else None


class Words(Widget):
    """Shows what the rows of a view mean, where they came from, and what is worth noticing."""

    def __init__(self) -> None:
        super().__init__()
        self._content = self._short = Content("")

    def show(self, table: views.Table) -> None:
        origin = Content.styled(f"  From {table.origin}.", "$foreground 60%")
        notice = Content.styled(printable(table.notice), "$text-secondary")
        self._content = Content("\n").join([Content(table.shows) + origin, *([notice] if table.notice else [])])
        self._short = notice if table.notice else Content(table.shows)
        self.refresh(layout=True)

    def render(self) -> Content:
        return self._short.truncate(self.size.width, ellipsis=True) if self._is_short else self._content

    @property
    def _is_short(self) -> bool:
        """Return whether the terminal has room for one line of heading only."""
        return self.app.size.height <= SHORT_ROWS

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 1 if self._is_short else super().get_content_height(container, viewport, width)


class TableRows:
    """Gives the rows of a table to the list."""

    def __init__(self, table: views.Table) -> None:
        self._rows = table.rows

    def __len__(self) -> int:
        return len(self._rows)

    def page(self, start: int, stop: int) -> Sequence[row_list.Row]:
        return [_cells(row) for row in self._rows[start:stop]]


def _cells(row: views.TableRow) -> row_list.Row:
    if not row.kind:
        return row.cells
    first, *rest = row.cells
    return ((first, row.kind), *rest)


def _columns(table: views.Table) -> list[row_list.Column]:
    return [
        row_list.Column(
            column.title,
            column.kind,
            "right" if column.is_number else "left",
            min_width=column.min_width,
            max_width=column.max_width,
            priority=column.priority,
        )
        for column in table.columns
    ]
