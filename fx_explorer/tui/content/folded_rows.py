"""This module has the cells of a graph that is folded by module: those of modules, layers and
neighbouring operations, and of the nodes in those that are open.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from fx_explorer import model
from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.stage_data import StageWork
from fx_explorer.drawing.view_table import FOLDED, INDENT, LEAF, UNFOLDED
from fx_explorer.instruments.modules.folded_graph import FoldedGraph, NodeGroup
from fx_explorer.instruments.modules.folded_listing import (
    likeness,
    nodes_text,
    parameters_text,
    share_text,
    title_of,
)
from fx_explorer.instruments.modules.graph_folding import folded_graph
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.folded_modules import FoldedModules
from fx_explorer.tui.content.graph_rows import GraphRows
from fx_explorer.tui.content.shown_lines import EVERY_LINE
from fx_explorer.tui.widgets.line_painter import Piece
from fx_explorer.tui.widgets.row_list import Cell, ListColumn, Row

if TYPE_CHECKING:
    from fx_explorer.instruments.profile.figures import GraphTimes

NODES_AT_ONCE = 400
"""Maximum number of nodes of a graph that is folded before the next frame; a larger one is folded
in the background.
"""

KEPT = 6
"""Number of folded graphs of one session that are cached: as many as panes can show."""

_folded: WeakKeyDictionary[SessionReader, OrderedDict[int, FoldedGraph]] = WeakKeyDictionary()


def folded_if_quick(reader: SessionReader, document: Document) -> FoldedGraph | None:
    """Return a graph folded by module; None for a large one that has not been folded yet."""
    kept = _folded.setdefault(reader, OrderedDict())
    if document.id in kept:
        kept.move_to_end(document.id)
        return kept[document.id]
    if reader.get(model.Graph, document.id).node_count > NODES_AT_ONCE:
        return None
    folded = folded_graph(reader, document.id)
    keep_folded(reader, document, folded)
    return folded


def keep_folded(reader: SessionReader, document: Document, folded: FoldedGraph) -> None:
    """Cache a graph that was folded with another reader of the same session."""
    kept = _folded.setdefault(reader, OrderedDict())
    kept[document.id] = folded
    while len(kept) > KEPT:
        kept.popitem(last=False)


class FoldedRows:
    """A RowSource over the rows of a folded graph."""

    def __init__(
        self,
        reader: SessionReader,
        document: Document,
        modules: FoldedModules,
        work: StageWork | None = None,
        *,
        marks_kernels: bool = False,
        times: GraphTimes | None = None,
    ) -> None:
        self._modules = modules
        self._nodes = GraphRows(
            reader, document, EVERY_LINE, work, marks_kernels=marks_kernels, times=times
        )
        self._times = times
        self._sums: list[float] = []
        """Sums of the times of the nodes in the order of the rows, once they are needed."""

    def __len__(self) -> int:
        return len(self._modules.shown_rows)

    def page(self, start: int, stop: int) -> Sequence[Row]:
        graph = self._modules.graph
        shown = self._modules.shown_rows[start:stop]
        positions = [row for row in (graph.rows[at] for at in shown) if isinstance(row, int)]
        of_nodes = dict(zip(positions, self._nodes.of_positions(positions), strict=True))
        rows: list[Row] = []
        for row, at in enumerate(shown, start):
            entry = graph.rows[at]
            if isinstance(entry, int):
                indent = INDENT * graph.depths[at] + LEAF
                rows.append(self._indented(of_nodes[entry], indent))
            else:
                rows.append(self._of_group(row, at, entry))
        return rows

    def _indented(self, row: Row, indent: str) -> Row:
        cells = list(row)
        at = self._nodes.name_cell
        name = cells[at]
        pieces: list[Piece]
        if isinstance(name, list):
            pieces = name
        else:
            pieces = [name] if isinstance(name, tuple) else [(name, "strong")]
        cells[at] = [(indent, "muted"), *pieces]
        return cells

    def _of_group(self, row: int, at: int, group: NodeGroup) -> Row:
        graph = self._modules.graph
        arrow = UNFOLDED if self._modules.is_open(row) else FOLDED
        indent = INDENT * graph.depths[at]
        kind = "muted" if group.kind == "operations" else "strong"
        name: Cell = [(f"{indent}{arrow}", "muted"), (title_of(group), kind)]
        differs = likeness(group)
        if group.difference:
            last: Cell = (differs, "annotation")
        else:
            last = (" · ".join(filter(None, (differs, group.operations))), "muted")
        nodes = nodes_text(graph, at)
        cells: tuple[Cell, ...] = (
            (f"{nodes} node" if nodes == "1" else f"{nodes} nodes", "text"),
            (parameters_text(group), "type"),
            "",
            (group.type, "muted"),
            last,
        )
        return self._nodes.with_columns(name, (self._time(group), "text"), cells)

    def _time(self, group: NodeGroup) -> str:
        if self._times is None:
            return ""
        if not self._sums:
            seconds = self._times.seconds
            ordered = (seconds[position] for position in self._modules.graph.positions)
            self._sums = [0.0, *accumulate(ordered)]
        part = self._sums[group.end] - self._sums[group.start]
        return share_text(part, self._times.whole.seconds)


NAME_CELLS = 46


def folded_columns(columns: Sequence[ListColumn]) -> tuple[ListColumn, ...]:
    """Return the columns of a graph, with room for the names of modules within modules and for what
    differs among layers.
    """
    changed: list[ListColumn] = []
    for column in columns:
        if column.title == "name":
            column = replace(
                column, min_width=25, max_width=NAME_CELLS, keeps="both", narrow_width=18
            )
        elif column.title == "value":
            column = replace(column, priority=3)
        elif column.title == "module":
            column = replace(column, title="class", priority=4, keeps="start")
        elif column.title == "arguments":
            column = replace(column, priority=1)
        elif column.title == "region":
            column = replace(column, priority=5)
        changed.append(column)
    return tuple(changed)
