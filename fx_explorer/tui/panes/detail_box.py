"""The room below a list."""

from __future__ import annotations

from textual.containers import Vertical

from fx_explorer.tui.widgets.borders.edge import DraggedEdge


class DetailBox(DraggedEdge, Vertical):
    """Holds the detail below a list; the border between them can be dragged."""

    EDGE = "top"
