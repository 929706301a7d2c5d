"""Around the rows of a table stand a chart above them, which follows the cursor, and the detail of
the row under it below.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget

from fx_explorer.drawing.view_table import Chart, ChartPiece, Detail
from fx_explorer.tui.failures import TellsUnreadable
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.one_line import Cached
from fx_explorer.tui.widgets.pane_border import DraggedEdge
from fx_explorer.tui.widgets.text_layout import wrapped_text

LEAST_CHART_ROWS = 4

LEAST_ROWS_LEFT = 3
"""Minimum number of rows of the list, and of the detail, when the border is dragged."""


class TableChart(Cached):
    """Shows blocks in the colours of the theme, those of the row under the cursor reversed. A click
    on a block asks for its row.
    """

    DEFAULT_CSS = """
    TableChart { height: auto; width: 1fr; padding: 0 1; }
    """

    class Picked(Message):
        """Posted by a click on a block that represents a row of the table."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    def __init__(self) -> None:
        super().__init__()
        self._chart: Chart | None = None
        self._row = 0
        self._drawn: tuple[tuple[Chart | None, Size, int], list[list[ChartPiece]]] | None = None
        """The chart's lines as last drawn, and the (chart, size, row) they were drawn for."""
        self.display = False

    def show(self, chart: Chart | None, row: int) -> None:
        """Show another chart; None hides it."""
        self._chart, self._row = chart, row
        self.display = chart is not None
        self.refresh(layout=True)

    def point_at(self, row: int) -> None:
        """Highlight the block of another row. Only the lines that differ are painted: a chart on
        half of a wide screen takes 9 ms.
        """
        if row == self._row:
            return
        before, self._row = self._lines(), row
        after = self._lines()
        if len(before) != len(after):
            self.refresh()
            return
        changed = [y for y, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
        if changed:
            self.refresh(*(Region(0, y, self.outer_size.width, 1) for y in changed))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if self._chart is None:
            return 0
        return min(
            self._chart.height(width), max(LEAST_CHART_ROWS, self._chart.room(viewport.height))
        )

    def render(self) -> Content:
        return Content("\n").join([_content(line) for line in self._lines()])

    def render_line(self, y: int) -> Strip:
        """Return one line of the chart, without laying out the others."""
        lines = self._lines()
        if self.text_selection is not None or y >= len(lines):
            return super().render_line(y)
        (strip,) = Visual.to_strips(self, _content(lines[y]), self.size.width, 1, self.visual_style)
        return strip

    def _lines(self) -> list[list[ChartPiece]]:
        """Return the lines of the chart for its present size, cursor and rows."""
        size = self.content_size
        now = (self._chart, size, self._row)
        if self._drawn is None or self._drawn[0] != now:
            if self._chart:
                lines = self._chart.rows(size.width, size.height, self._row)
            else:
                lines = []
            self._drawn = (now, lines)
        return self._drawn[1]

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if self._chart is None or at is None:
            return
        row = self._chart.row_at(
            self.content_size.width, self.content_size.height, self._row, at.x, at.y
        )
        if row is not None:
            self.post_message(self.Picked(row))


def _content(line: Sequence[ChartPiece]) -> Content:
    return Content.assemble(*((piece.text, _style(piece)) for piece in line))


def _style(piece: ChartPiece) -> str:
    if not piece.tone:
        return "$text-muted"
    style = f"$foreground on {piece.tone}"
    if piece.is_marked:
        style += " bold reverse"
    return style


class TableDetail(TellsUnreadable, DraggedEdge, Vertical):
    """Shows the detail of a row below the list; the border between them can be dragged.

    It has the rows that the longest text so far needs, and none where there is no text. It never
    shrinks by itself, so that the list stands still while the cursor moves.
    """

    EDGE = "top"

    def __init__(self, rows: Widget, find_detail: Callable[[], Detail]) -> None:
        """``rows`` is the list above; ``find_detail`` returns the detail of its row under the
        cursor.
        """
        super().__init__(classes="detail")
        self._rows = rows
        self._find_detail = find_detail
        self._most_lines = 0
        """Lines of the longest detail that was shown."""
        self._wished_rows = 0
        """Number of rows to which the user has dragged the border; 0 for none."""
        self.text = CodeView(
            line_numbers=False, placeholder="Nothing more is known about this row."
        )

    def compose(self) -> ComposeResult:
        yield self.text

    def renew(self) -> None:
        """Show the detail of the row under the cursor."""
        detail = self._find_detail()
        text, width = detail.text, self.text.body_width
        if detail.language == "text" and width > 0:
            text = wrapped_text(text, width)
        self._give_room(text)
        self.text.load(text, detail.language)

    def forget_height(self) -> None:
        """Forget the user's height, because another table is shown."""
        self._most_lines = 0

    def _give_room(self, text: str) -> None:
        was_hidden, lines = not self.display, text.count("\n") + 1
        if bool(text) == was_hidden:
            self.display = bool(text)
            if text:
                self.call_after_refresh(self.renew)  # it has a width only now
        if text and lines > self._most_lines and not self._wished_rows:
            self._most_lines = lines
            self.styles.max_height = lines + 1

    @on(DraggedEdge.EdgeDragged)
    def give_dragged_room(self, event: DraggedEdge.EdgeDragged) -> None:
        """Set the height to which the user drags the border."""
        event.stop()
        bottom = self.region.bottom
        most = bottom - self._rows.region.y - LEAST_ROWS_LEFT
        self._wished_rows = max(LEAST_ROWS_LEFT, min(bottom - event.cell, most))
        self.styles.height = self.styles.max_height = self._wished_rows
