"""The flame chart above the rows of a view: the same frames as the rows below it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

from fx_explorer.analysis.flame import FlameBlock, FlameFrame, flame_rows
from fx_explorer.drawing.chart import ChartPiece
from fx_explorer.drawing.flame_rows import marked_chart, shown_levels


class FlameChart:
    """Draws a frame with all that lies within it, and marks what a row of the table stands for."""

    def __init__(
        self,
        root: FlameFrame,
        steps_of_rows: Sequence[Collection[int]],
        tones: Mapping[str, str],
        *,
        noun: str = "step",
        part_of_screen: int = 6,
    ) -> None:
        """``steps_of_rows``: for each row of the table the positions of the steps that it stands
        for. ``tones``: kind of a frame → colour of the theme. ``noun``: what a step is called.
        ``part_of_screen``: 6 for one row in six.
        """
        self._root = root
        self._steps = steps_of_rows
        self._tones = tones
        self._part_of_screen = part_of_screen
        self._blocks = lru_cache(maxsize=2)(lambda width: flame_rows(root, width, noun))

    def room(self, screen: int) -> int:
        return screen // self._part_of_screen

    def height(self, width: int) -> int:
        """Return the rows that all of it takes: its levels, and what points at the marked blocks."""
        return len(self._blocks(width)) + 1

    def rows(self, width: int, height: int, row: int) -> list[list[ChartPiece]]:
        drawn = marked_chart(self._blocks(width), width, height, self._of(row))
        return [
            [ChartPiece(text, self._tones.get(kind, ""), lit) for text, kind, lit in line]
            for line in drawn
        ]

    def row_at(self, width: int, height: int, row: int, x: int, y: int) -> int | None:
        """Return the row of the table that the block at a cell stands for; None where there is
        none.
        """
        blocks = self._blocks(width)
        levels = shown_levels(blocks, height, self._of(row))
        if y >= len(levels):
            return None
        found = [
            block for block in blocks[levels[y]] if block.first <= x < block.first + block.cells
        ]
        return self._row_of(found[0]) if found else None

    def _of(self, row: int) -> Collection[int]:
        return self._steps[row] if row < len(self._steps) else ()

    def _row_of(self, block: FlameBlock) -> int | None:
        """Return the row of exactly its steps, else the row of its first step."""
        steps = block.main.steps if block.main else block.steps
        for wanted in (frozenset(steps), frozenset(steps[:1])):
            rows = [
                row
                for row, own in enumerate(self._steps)
                if len(own) == len(wanted) and wanted.issuperset(own)
            ]
            if rows:
                return rows[-1]
        return next(
            (
                row
                for row, own in enumerate(self._steps)
                if steps and steps[0] in own and min(own) == steps[0]
            ),
            None,
        )
