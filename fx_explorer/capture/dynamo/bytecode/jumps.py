"""The gutter of a bytecode listing, where jumps are drawn as arrows. Pure: knows rows, not
instructions.

Jumps to one row share a column. A jump inside another is drawn right of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MAX_COLUMNS = 6
"""More would leave no room for the instructions. What finds no column is not drawn: its target
still has its arrow head.
"""

_CROSSED = {" ": "─", "│": "┼", "├": "┼", "╭": "┬", "╰": "┴"}
"""What a line to the right makes of what stands there already."""


@dataclass(frozen=True, slots=True)
class _Arrow:
    """All jumps to one row."""

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
    """Draw what is shown left of each row, with the same width for all. ``jumps`` are (from row, to
    row); without any, the texts are empty.
    """
    arrows = _arrows(jumps)
    if not arrows:
        return [""] * row_count
    columns = _columns(arrows)
    grid = [[" "] * len(columns) for _ in range(row_count)]
    for x, column in enumerate(columns):
        for arrow in column:
            _draw_upright(grid, x, arrow)
    ends = {row for column in columns for arrow in column for row in arrow.ends}
    targets = {arrow.target for arrow in arrows}
    return [
        "".join(_to_the_right(cells) if row in ends else cells) + _tip(row, ends, targets)
        for row, cells in enumerate(grid)
    ]


def _arrows(jumps: Iterable[tuple[int, int]]) -> list[_Arrow]:
    """Return the arrows, the shortest first."""
    sources: dict[int, set[int]] = {}
    for source, target in jumps:
        sources.setdefault(target, set()).add(source)
    arrows = [_Arrow(target, frozenset(rows)) for target, rows in sources.items()]
    return sorted(arrows, key=lambda arrow: (arrow.last - arrow.first, arrow.first))


def _columns(arrows: Sequence[_Arrow]) -> list[list[_Arrow]]:
    """Put the arrows into columns, from left to right. An arrow takes the column furthest right
    that is free and not right of one it encloses.
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
    return [*cells[: start + 1], *(_CROSSED.get(cell, cell) for cell in cells[start + 1 :])]


def _tip(row: int, ends: set[int], targets: set[int]) -> str:
    if row in targets:
        return "▸"
    return "─" if row in ends else " "
