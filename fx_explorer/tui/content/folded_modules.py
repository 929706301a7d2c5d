"""This module decides which rows a pane shows of a graph that is folded by module: modules, layers
and neighbouring operations, each of which opens in place, and the nodes in those that are open.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fx_explorer.tui.content.shown_lines import EVERY_LINE, ShownLines

if TYPE_CHECKING:
    from fx_explorer.instruments.modules.folded_graph import FoldedGraph, NodeGroup


class FoldedModules(ShownLines):
    """Shows a graph folded by module. A row is open if the row below it is inside of it."""

    def __init__(self, graph: FoldedGraph, shown: Sequence[int] | None = None) -> None:
        """``shown`` are the rows of the folded graph that are shown, ascending; None for those to
        begin with.
        """
        super().__init__()
        self.graph = graph
        self.shown_rows = graph.first_shown() if shown is None else shown

    def line_of(self, row: int) -> int:
        """Return the node of a row; for a module its first operation."""
        group = self.graph.rows[self.shown_rows[row]]
        return group if isinstance(group, int) else group.leads

    def row_of(self, line: int) -> int:
        """Return the row of a node, or the one in which it is folded."""
        own_row = self.graph.row_of_position[line]
        return max(0, bisect_right(self.shown_rows, own_row) - 1)

    def rows_of(self, lines: frozenset[int]) -> frozenset[int]:
        return frozenset(map(self.row_of, lines))

    def lines_below(self, row: int) -> Sequence[int]:
        return self.graph.lines(self.shown_rows[row])

    def group(self, row: int) -> NodeGroup | None:
        """Return the group of a row; None for a node."""
        return self.graph.group(self.shown_rows[row])

    def is_fold(self, row: int) -> bool:
        return self.group(row) is not None

    def is_open(self, row: int) -> bool:
        at = self.shown_rows[row]
        return row + 1 < len(self.shown_rows) and self.shown_rows[row + 1] < self.graph.end(at)

    def folds(self, line: int) -> bool:
        return self.shown_rows[self.row_of(line)] != self.graph.row_of_position[line]

    def unfolded(self) -> ShownLines:
        return EVERY_LINE

    def toggled(self, row: int) -> FoldedModules:
        """Return the rows with one of them opened, or closed if it is open."""
        at = self.shown_rows[row]
        shown = list(self.shown_rows)
        if self.is_open(row):
            after = bisect_left(shown, self.graph.end(at))
            del shown[row + 1 : after]
        else:
            shown[row + 1 : row + 1] = self.graph.inside(at)
        return FoldedModules(self.graph, shown)

    def opened_at(self, line: int) -> FoldedModules:
        """Return the rows with all opened that hide a node."""
        modules = self
        while modules.folds(line):
            modules = modules.toggled(modules.row_of(line))
        return modules

    def row_around(self, row: int) -> int:
        """Return the row that a row is in; the row itself if it is in none."""
        outer = self.graph.around(self.shown_rows[row])
        return bisect_left(self.shown_rows, outer)
