"""The nodes of a graph as rows, read from the session page by page. A million nodes open as fast as
ten.
"""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.analysis.backends.segment_regions import FALLS_BACK, regions_of_nodes
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.nodes import operation, value_text
from fx_explorer.analysis.regions.annotated_regions import region_value
from fx_explorer.session import SessionReader
from fx_explorer.tui.selection.region_colours import region_kind
from fx_explorer.tui.widgets.line_painter import Piece
from fx_explorer.tui.widgets.row_list import Column, Row

COLUMNS = (
    Column("name", "strong", min_width=13, max_width=28, keeps="ends"),
    Column("value", "type", min_width=16, max_width=24),
    Column("operation", "function", min_width=11, max_width=34, priority=1),
    Column("region", "annotation", min_width=8, max_width=18, priority=4),
    Column("module", "muted", min_width=12, max_width=26, priority=3, keeps="end"),
    Column("arguments", "muted", min_width=16, max_width=200, priority=2),
)

FALLS_BACK_SIGN = "↩"
"""Marks an operator that a backend leaves to PyTorch."""

OP_KINDS = {"placeholder": "muted", "get_attr": "muted", "output": "muted"}


class GraphRows:
    """A RowSource over one graph, or over some of its nodes."""

    def __init__(self, reader: SessionReader, document: Document, positions: Sequence[int] | None = None) -> None:
        """``positions`` are the nodes to show, ascending; None shows all."""
        self._reader = reader
        self._graph = reader.get(model.Graph, document.id)
        self._positions = positions

    def __len__(self) -> int:
        return self._graph.node_count if self._positions is None else len(self._positions)

    def page(self, start: int, stop: int) -> Sequence[Row]:
        nodes = self._nodes(start, stop)
        segments = regions_of_nodes(self._reader, nodes)
        return [node_row(node, segments.get(node.id, "")) for node in nodes]

    def _nodes(self, start: int, stop: int) -> list[model.Node]:
        if self._positions is None:
            return self._reader.nodes(self._graph, start, stop)
        ids = [self._graph.first_node + position for position in self._positions[start:stop]]
        return self._reader.by_ids(model.Node, ids)


def node_row(node: model.Node, segment: str = "") -> Row:
    """Return the cells of a node. ``segment`` is the backend's segment that it is in, or that it falls
    back, which is marked at its name, too: the column of regions has no room in a narrow pane.
    """
    kind = OP_KINDS.get(node.op, "function")
    name: Piece = (node.name, OP_KINDS.get(node.op, "strong"))
    return (
        (f"{FALLS_BACK_SIGN} {node.name}", "warning") if segment == FALLS_BACK else name,
        value_text(node),
        (operation(node), kind),
        region_cell(node, segment),
        node.module,
        node.arguments,
    )


def region_cell(node: model.Node, segment: str = "") -> list[Piece]:
    """Return the backend's segment and the names that ``annotate`` gave, each in its region's colour:
    ``attention``; several are listed.
    """
    pieces: list[Piece] = []
    for name in filter(None, (segment, *map(region_value, (node.annotations or {}).values()))):
        kind = "warning" if name == FALLS_BACK else region_kind(name)
        pieces += [(", ", "muted")] * bool(pieces) + [(name, kind)]
    return pieces
