"""A chart above the rows of a table, which follows the cursor."""

from __future__ import annotations

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message

from fx_explorer.tui.pictures.chart import Chart, ChartPiece
from fx_explorer.tui.widgets.cached import Cached

LEAST_ROWS = 4


class TableChart(Cached):
    """Shows blocks in the colours of the theme, those of the row under the cursor reversed. A click on
    a block asks for its row.
    """

    DEFAULT_CSS = """
    TableChart { height: auto; width: 1fr; padding: 0 1; }
    """

    class Picked(Message):
        """Posted by a click on a block that stands for a row of the table."""

        def __init__(self, row: int) -> None:
            super().__init__()
            self.row = row

    def __init__(self) -> None:
        super().__init__()
        self._chart: Chart | None = None
        self._row = 0
        self.display = False

    def show(self, chart: Chart | None, row: int) -> None:
        """Show another chart; None hides it."""
        self._chart, self._row = chart, row
        self.display = chart is not None
        self.refresh(layout=True)

    def point_at(self, row: int) -> None:
        if row != self._row:
            self._row = row
            self.refresh()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if self._chart is None:
            return 0
        return min(self._chart.height(width), max(LEAST_ROWS, self._chart.room(viewport.height)))

    def render(self) -> Content:
        if self._chart is None:
            return Content("")
        lines = self._chart.rows(self.content_size.width, self.content_size.height, self._row)
        return Content("\n").join([Content.assemble(*((piece.text, _style(piece)) for piece in line)) for line in lines])

    def on_click(self, event: events.Click) -> None:
        at = event.get_content_offset(self)
        if self._chart is None or at is None:
            return
        row = self._chart.row_at(self.content_size.width, self.content_size.height, self._row, at.x, at.y)
        if row is not None:
            self.post_message(self.Picked(row))


def _style(piece: ChartPiece) -> str:
    if not piece.tone:
        return "$foreground 70%"
    return f"$foreground on {piece.tone}" + (" bold reverse" if piece.is_marked else "")
