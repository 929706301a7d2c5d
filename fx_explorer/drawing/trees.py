"""This module handles tables whose rows are a tree: which rows are shown when a folded one hides
its descendants.

Nothing here draws. A tree may have 10,000 rows, all of which are gone through at each key that
folds: that takes 2 ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

INDENT = "  "
FOLDED, UNFOLDED, LEAF = "▸ ", "▾ ", "  "


@dataclass(frozen=True, slots=True)
class Tree:
    """The nesting of a table's rows. Each row comes before the rows inside it."""

    depths: Sequence[int]
    keys: Sequence[str]
    """Identity of each row, also when the table is made again."""
    names: Sequence[str]
    """Name of each row inside its parent; its first cell has the whole name."""
    folded: frozenset[int]
    """The rows that are folded until the user changes that."""
    totals: Callable[[Sequence[int]], str]
    """Returns the text of the sums over some rows of the same depth."""

    def has_parts(self, at: int) -> bool:
        """Return whether this row contains others."""
        return at + 1 < len(self.depths) and self.depths[at + 1] > self.depths[at]

    def end(self, at: int) -> int:
        """Return the row after the last row inside this one."""
        depth = self.depths[at]
        for following in range(at + 1, len(self.depths)):
            if self.depths[following] <= depth:
                return following
        return len(self.depths)

    def outermost(self, shown: Sequence[int]) -> list[int]:
        """Return the rows of ``shown`` with the least depth."""
        least = min((self.depths[at] for at in shown), default=0)
        return [at for at in shown if self.depths[at] == least]


def in_tree(tree: Tree, order: Sequence[int]) -> list[int]:
    """Return the rows in tree order: each before the rows in it, and siblings in the given
    order.
    """
    around = _rows_around(tree)
    wanted = set(order)
    parts: dict[int, list[int]] = {}
    for at in order:
        outer = around[at] if around[at] in wanted else -1
        parts.setdefault(outer, []).append(at)
    rows: list[int] = []
    pending = list(reversed(parts.get(-1, [])))
    while pending:
        at = pending.pop()
        rows.append(at)
        pending += reversed(parts.get(at, []))
    return rows


def _rows_around(tree: Tree) -> list[int]:
    """Return for each row its parent; -1 for none."""
    around: list[int] = []
    open_rows: list[int] = []
    for at, depth in enumerate(tree.depths):
        while open_rows and tree.depths[open_rows[-1]] >= depth:
            open_rows.pop()
        outer_row = open_rows[-1] if open_rows else -1
        around.append(outer_row)
        open_rows.append(at)
    return around


class Folding:
    """The rows that the user folded and unfolded. It outlives the table, which is made again when
    the session grows.
    """

    def __init__(self) -> None:
        self._wishes: dict[str, bool] = {}

    def is_folded(self, tree: Tree, at: int) -> bool:
        return tree.has_parts(at) and self._wishes.get(tree.keys[at], at in tree.folded)

    def fold(self, tree: Tree, at: int, is_folded: bool) -> None:
        self._wishes[tree.keys[at]] = is_folded

    def visible(self, tree: Tree, order: Sequence[int]) -> list[int]:
        """Return the rows that are not inside a folded row, in this order."""
        shown: list[int] = []
        hidden_below: int | None = None
        for at in order:
            depth = tree.depths[at]
            if hidden_below is not None and depth > hidden_below:
                continue
            hidden_below = depth if self.is_folded(tree, at) else None
            shown.append(at)
        return shown

    def name(self, tree: Tree, at: int, least_depth: int) -> str:
        """Return a row's name in the tree: indented, with an arrow where it can be folded."""
        if not tree.has_parts(at):
            arrow = LEAF
        else:
            arrow = FOLDED if self.is_folded(tree, at) else UNFOLDED
        return INDENT * (tree.depths[at] - least_depth) + arrow + tree.names[at]


def row_around(tree: Tree, order: Sequence[int], at: int) -> int:
    """Return the parent of a shown row; the row itself if the parent is not shown."""
    around = _rows_around(tree)[at]
    if around not in order:
        return at
    return around


def folded_to_fit(depths: Sequence[int], always: frozenset[int], rows: int) -> frozenset[int]:
    """Return the rows that are folded at first: those that always are, and all below a depth at
    which about so many rows are shown.
    """
    deepest = max(depths, default=0)
    for depth in range(1, deepest + 1):
        if _count(depths, always | _from_depth(depths, depth)) > rows:
            return always | _from_depth(depths, max(1, depth - 1))
    return always


def _from_depth(depths: Sequence[int], least: int) -> frozenset[int]:
    """Return the rows at this depth and deeper."""
    return frozenset(at for at, depth in enumerate(depths) if depth >= least)


def _count(depths: Sequence[int], folded: frozenset[int]) -> int:
    """Return how many rows are shown."""
    shown, hidden_below = 0, None
    for at, depth in enumerate(depths):
        if hidden_below is not None and depth > hidden_below:
            continue
        hidden_below = depth if at in folded else None
        shown += 1
    return shown
