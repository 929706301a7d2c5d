"""The roofline above the rows of its view: a point for each kernel that has one."""

from __future__ import annotations

from functools import lru_cache

from fx_explorer.analysis.kernels.roofline_points import KernelRoofline
from fx_explorer.report.pictures.roofline import (
    LEAST_HEIGHT,
    LEAST_WIDTH,
    RooflinePlot,
    roofline_plot,
)
from fx_explorer.tui.pictures.chart import ChartPiece

ROWS = 28
"""More rows than these make no picture clearer."""

SHORT_SCREEN, SHORT_ROWS = 36, 9
"""A lower screen than the one leaves the picture these rows: there the list needs the others."""

LIT = "$accent"


class RooflineChart:
    """Draws the kernels, and marks the one under the cursor. Row ``n`` of the table is kernel ``n``, those that
    are drawn first.
    """

    def __init__(self, found: KernelRoofline) -> None:
        self._plot = lru_cache(maxsize=2)(lambda width, height: roofline_plot(found, width, height))

    def room(self, screen: int) -> int:
        return screen // 2 if screen >= SHORT_SCREEN else SHORT_ROWS

    def height(self, width: int) -> int:
        return ROWS

    def rows(self, width: int, height: int, row: int) -> list[list[ChartPiece]]:
        if width < LEAST_WIDTH or height < LEAST_HEIGHT:
            return [[ChartPiece("There is no room for the picture."[:width])]]
        plot: RooflinePlot = self._plot(width, height)
        lit = plot.cells[row] if row < len(plot.cells) else None
        return [
            _pieces(line, lit[1] if lit and lit[0] == number else None)
            for number, line in enumerate(plot.lines)
        ]

    def row_at(self, width: int, height: int, row: int, x: int, y: int) -> int | None:
        """Return the kernel at a cell: of several the one behind that under the cursor, round and round."""
        if width < LEAST_WIDTH or height < LEAST_HEIGHT:
            return None
        cells = self._plot(width, height).cells
        there = [number for number, cell in enumerate(cells) if cell == (y, x)]
        return next((number for number in there if number > row), there[0]) if there else None


def _pieces(line: str, lit: int | None) -> list[ChartPiece]:
    """Return a line in pieces, with one cell marked."""
    if lit is None or lit >= len(line):
        return [ChartPiece(line)]
    return [
        ChartPiece(line[:lit]),
        ChartPiece(line[lit], LIT, is_marked=True),
        ChartPiece(line[lit + 1 :]),
    ]
