"""The room right of the outline, which holds the views."""

from __future__ import annotations

from textual.containers import Vertical

from fx_explorer.tui.widgets.borders.edge import DraggedEdge
from fx_explorer.tui.widgets.cached import Cached


class Views(Cached, DraggedEdge, Vertical):
    """Holds the views, beside the outline; the border between them can be dragged."""

    EDGE = "left"


class DetailBox(DraggedEdge, Vertical):
    """Holds the detail below a list; the border between them can be dragged."""

    EDGE = "top"
