"""This module draws the gutter of a bytecode listing, where jumps are arrows. It knows rows, not
instructions. Jumps to one row share a column. A jump inside another is drawn right of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_COLUMNS = 6
"""Maximum number of columns of arrows, to leave room for the instructions. An arrow without a
column is not drawn, but its target still has an arrow head.
"""

_CROSSED = {" ": "─", "│": "┼", "├": "┼", "╭": "┬", "╰": "┴"}
"""Character of the gutter → the character it becomes where a line to the right crosses it."""


@dataclass(frozen=True, slots=True)
class _Arrow:
    """All jumps to one row, drawn as one arrow."""

    target: int
    sources: frozenset[int]

    @property
    def first(self) -> int:
        return min(self.target, *self.sources)

    @property
    def last(self) -> int:
        return max(self.target, *self.sources)

    @property
    def ends(self) -> frozenset[int]:
        return self.sources | {self.target}

    def meets(self, other: _Arrow) -> bool:
        return self.first <= other.last and other.first <= self.last


def gutter(row_count: int, jumps: Iterable[tuple[int, int]]) -> list[str]:
    """Draw the arrows to the left of each row, with the same width for all. ``jumps`` are (from
    row, to row); without any, the texts are empty.
    """
    arrows = _arrows(jumps)
    if not arrows:
        return [""] * row_count
    columns = _columns(arrows)
    grid = [[" "] * len(columns) for _ in range(row_count)]
    ends: set[int] = set()
    for x, column in enumerate(columns):
        for arrow in column:
            _draw_upright(grid, x, arrow)
            ends.update(arrow.ends)
    targets = {arrow.target for arrow in arrows}
    texts = []
    for row, cells in enumerate(grid):
        drawn = _to_the_right(cells) if row in ends else cells
        texts.append("".join(drawn) + _tip(row, ends, targets))
    return texts


def _arrows(jumps: Iterable[tuple[int, int]]) -> list[_Arrow]:
    """Return the arrows, the shortest first."""
    sources: dict[int, set[int]] = {}
    for source, target in jumps:
        sources.setdefault(target, set()).add(source)
    arrows = [_Arrow(target, frozenset(rows)) for target, rows in sources.items()]
    return sorted(arrows, key=lambda arrow: (arrow.last - arrow.first, arrow.first))


def _columns(arrows: Sequence[_Arrow]) -> list[list[_Arrow]]:
    """Assign the arrows to columns, from left to right. An arrow takes the rightmost free column
    that is not right of an arrow it encloses.
    """
    columns: list[list[_Arrow]] = []  # from right to left
    for arrow in arrows:
        depth = max(
            (i for i, column in enumerate(columns, 1) if any(map(arrow.meets, column))), default=0
        )
        if depth < len(columns):
            columns[depth].append(arrow)
        elif depth < MAX_COLUMNS:
            columns.append([arrow])
    return columns[::-1]


def _draw_upright(grid: list[list[str]], x: int, arrow: _Arrow) -> None:
    for row in range(arrow.first, arrow.last + 1):
        grid[row][x] = "├" if row in arrow.ends else "│"
    grid[arrow.last][x] = "╰"
    grid[arrow.first][x] = "╭" if arrow.first < arrow.last else "─"  # one that jumps to itself


def _to_the_right(cells: Sequence[str]) -> list[str]:
    """Draw a line from the first end of an arrow in this row to the instruction."""
    start = next(x for x, cell in enumerate(cells) if cell not in " │")
    crossed = [_CROSSED.get(cell, cell) for cell in cells[start + 1 :]]
    return [*cells[: start + 1], *crossed]


def _tip(row: int, ends: set[int], targets: set[int]) -> str:
    if row in targets:
        return "▸"
    if row in ends:
        return "─"
    return " "
