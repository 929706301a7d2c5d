"""This module has a graph that is folded by module: a row for each module, one row for the layers
of a list, and one for neighbouring operations between modules. Every node of the graph is below
exactly one row of each depth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

GroupKind = Literal["module", "layers", "operations"]

FIRST_ROWS = 18
"""Number of rows that are unfolded at first: what a small terminal has room for."""


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that one row stands for: those of a module, of several layers, or neighbours."""

    kind: GroupKind
    depth: int
    name: str
    """``self_attn``; ``layers.0 … 47`` for layers; empty for neighbours."""
    path: str
    """Path of the module; that of the first for layers, and of the module around neighbours."""
    type: str
    """Class of the module; empty where torch does not record it."""
    start: int
    end: int
    """Its run in ``FoldedGraph.positions``."""
    leads: int
    """Position of its first operation, or of its first node where it has none."""
    after: int
    """Number of the row after the last one in it."""
    calls: int
    """Operations among its nodes; the others are inputs and the output."""
    operations: str
    """The most frequent operations: ``mul ×4, mm ×3 and 5 more``."""
    parameters: int
    parameter_bytes: int | None
    """Bytes of its parameters and buffers; None if a size is not known."""
    layers: tuple[str, ...] = ()
    """The names of the layers; empty for other kinds."""
    difference: str = ""
    """How layers differ from each other, or this layer from most; empty if alike."""

    @property
    def node_count(self) -> int:
        return self.end - self.start


FoldedRow = NodeGroup | int
"""A row of a folded graph: a group, or the position of a node."""


@dataclass(frozen=True, slots=True)
class FoldedGraph:
    """A graph as a tree of rows, each before those inside it."""

    rows: Sequence[FoldedRow]
    depths: Sequence[int]
    positions: Sequence[int]
    """Positions of the nodes, in the order of the rows."""
    row_of_position: Sequence[int]
    """Position of a node → its own row."""

    def end(self, row: int) -> int:
        """Return the row after the last one inside this row."""
        group = self.rows[row]
        return row + 1 if isinstance(group, int) else group.after

    def group(self, row: int) -> NodeGroup | None:
        """Return the group that a row stands for; None for a node."""
        group = self.rows[row]
        return None if isinstance(group, int) else group

    def around(self, row: int) -> int:
        """Return the row that a row is directly inside of; the row itself if it is in none."""
        depth = self.depths[row]
        for outer in range(row - 1, -1, -1):
            if self.depths[outer] < depth:
                return outer
        return row

    def is_group(self, row: int) -> bool:
        return not isinstance(self.rows[row], int)

    def inside(self, row: int) -> Iterator[int]:
        """Yield the rows directly inside a row."""
        at, end = row + 1, self.end(row)
        while at < end:
            yield at
            at = self.end(at)

    @property
    def outermost(self) -> list[int]:
        """Return the rows that are in no other."""
        rows: list[int] = []
        at = 0
        while at < len(self.rows):
            rows.append(at)
            at = self.end(at)
        return rows

    def lines(self, row: int) -> Sequence[int]:
        """Return the positions of all nodes below a row."""
        group = self.rows[row]
        if isinstance(group, int):
            return [group]
        return self.positions[group.start : group.end]

    @property
    def has_modules(self) -> bool:
        """Return whether a row stands for a module."""
        return any(isinstance(row, NodeGroup) and row.kind != "operations" for row in self.rows)

    def first_shown(self, most: int = FIRST_ROWS) -> list[int]:
        """Return the rows to show first: modules are open as deep as there is room for ``most``
        rows; layers, modules without others in them and neighbours are closed.
        """
        shown = self.outermost
        depth = 0
        while True:
            opened: list[int] = []
            for row in shown:
                opened.append(row)
                if self.depths[row] == depth and self._opens_first(row):
                    opened += self.inside(row)
            if len(opened) > most:
                return shown
            if len(opened) == len(shown):
                return shown
            shown, depth = opened, depth + 1

    def _opens_first(self, row: int) -> bool:
        group = self.rows[row]
        if isinstance(group, int) or group.kind != "module":
            return False
        return any(self.is_group(inner) for inner in self.inside(row))
