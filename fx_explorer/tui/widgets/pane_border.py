"""This module has the borders between widgets: a line across the screen, and borders that are
dragged with the mouse to give one side more room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from fx_explorer.tui.widgets.one_line import Cached


class DraggedEdge(Widget):
    """A widget whose border can be dragged. It posts where to (``EdgeDragged``); the container
    resizes it.
    """

    EDGE: ClassVar[Literal["left", "top"]] = "left"

    class EdgeDragged(Message):
        """Posted while the border is dragged: ``cell`` is the column of the screen, or the row,
        under the mouse.
        """

        def __init__(self, widget: DraggedEdge, cell: int) -> None:
            super().__init__()
            self.widget = widget
            self.cell = cell

        @property
        def control(self) -> DraggedEdge:
            return self.widget

    def __init__(
        self, *children: Widget, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(*children, id=id, classes=classes)
        self._edge_is_dragged = False

    def _is_edge(self, event: events.MouseEvent) -> bool:
        # By the screen's cells: what comes up from a child has the child's.
        region = self.region
        if self.EDGE == "left":
            return bool(self.styles.border_left[0]) and int(event.screen_x) == region.x
        return bool(self.styles.border_top[0]) and int(event.screen_y) == region.y

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1 and self._is_edge(event):
            event.stop()
            self._edge_is_dragged = True
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._edge_is_dragged:
            event.stop()
            cell = event.screen_x if self.EDGE == "left" else event.screen_y
            self.post_message(self.EdgeDragged(self, int(cell)))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._edge_is_dragged:
            event.stop()
            self._edge_is_dragged = False
            self.release_mouse()


LEAST_CELLS = 12
"""Minimum width to which dragging can make a widget."""


def move_border(widths: Sequence[int], border: int, by: int) -> list[int]:
    """Return the widths after the border to the right of widget ``border`` has moved by ``by``
    cells: the two widgets beside it share their common width.
    """
    left, right = widths[border], widths[border + 1]
    least = min(LEAST_CELLS, left, right)
    by = max(least - left, min(by, right - least))
    widths_now = list(widths)
    widths_now[border], widths_now[border + 1] = left + by, right - by
    return widths_now


class Separator(Cached):
    """Draws the line in a row of its own, so that the row below it needs no border, which Textual
    would paint again at each change of the row.
    """

    DEFAULT_CSS = """
    Separator { height: 1; width: 1fr; background: $surface; color: $border; }
    """

    def render(self) -> Content:
        return Content("─" * self.size.width)
