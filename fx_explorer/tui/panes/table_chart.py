"""A chart above the rows of a table, which follows the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.visual import Visual

from fx_explorer.drawing.chart import Chart, ChartPiece
from fx_explorer.tui.widgets.one_line import Cached

LEAST_ROWS = 4


class TableChart(Cached):
    """Shows blocks in the colours of the theme, those of the row under the cursor reversed. A click
    on a block asks for its row.
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
        self._drawn: tuple[tuple[Chart | None, Size, int], list[list[ChartPiece]]] | None = None
        """The chart as it was drawn last, and for what."""
        self.display = False

    def show(self, chart: Chart | None, row: int) -> None:
        """Show another chart; None hides it."""
        self._chart, self._row = chart, row
        self.display = chart is not None
        self.refresh(layout=True)

    def point_at(self, row: int) -> None:
        """Mark what another row stands for. Only the lines that differ are painted: a chart that
        fills half of a wide screen takes 9 ms.
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
        return min(self._chart.height(width), max(LEAST_ROWS, self._chart.room(viewport.height)))

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
        """Return the chart as it is to be shown now."""
        size = self.content_size
        now = (self._chart, size, self._row)
        if self._drawn is None or self._drawn[0] != now:
            self._drawn = (
                now,
                self._chart.rows(size.width, size.height, self._row) if self._chart else [],
            )
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
        return "$foreground 70%"
    return f"$foreground on {piece.tone}" + (" bold reverse" if piece.is_marked else "")
