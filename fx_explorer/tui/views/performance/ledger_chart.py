"""The flame chart above the rows of view 0: the same steps as the rows below it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

from fx_explorer.analysis.ledger.figures import LedgerFigures
from fx_explorer.analysis.ledger.flame import FlameKind, flame
from fx_explorer.analysis.ledger.flame_cells import FlameBlock, flame_rows
from fx_explorer.report.performance.flame_text import marked_chart, shown_levels
from fx_explorer.tui.views.table import ChartPiece

TONES: dict[FlameKind, str] = {
    **dict.fromkeys(("call", "part", "function", "code"), "$foreground 12%"),
    **dict.fromkeys(("kernel", "library", "graph"), "$success-muted"),
    **dict.fromkeys(("entry", "guards", "bytecode", "wrapper"), "$primary-muted"),
    **dict.fromkeys(("checks", "buffers", "launch"), "$secondary-muted"),
    **dict.fromkeys(("break", "python"), "$warning-muted"),
    **dict.fromkeys(("autograd", "loss", "gradients"), "$accent-muted"),
    **dict.fromkeys(("wait", "rest"), "$error-muted"),
}
"""Kind → colour of the theme. A theme has fewer than there are kinds; names and the rows tell them apart."""


class LedgerChart:
    """Draws the call, and marks what a row of the table stands for."""

    def __init__(self, figures: LedgerFigures, steps_of_rows: Sequence[Collection[int]]) -> None:
        """``steps_of_rows``: for each row of the table the positions of the steps that it stands for."""
        self._root = flame(figures)
        self._steps = steps_of_rows
        self._blocks = lru_cache(maxsize=2)(lambda width: flame_rows(self._root, width))

    def height(self, width: int) -> int:
        """Return the rows that all of it takes: its levels, and what points at the marked blocks."""
        return len(self._blocks(width)) + 1

    def rows(self, width: int, height: int, row: int) -> list[list[ChartPiece]]:
        drawn = marked_chart(self._blocks(width), width, height, self._of(row))
        return [[ChartPiece(text, TONES[kind] if kind else "", lit) for text, kind, lit in line] for line in drawn]

    def row_at(self, width: int, height: int, row: int, x: int, y: int) -> int | None:
        """Return the row of the table that the block at a cell stands for; None where there is none."""
        blocks = self._blocks(width)
        levels = shown_levels(blocks, height, self._of(row))
        found = (
            [block for block in blocks[levels[y]] if block.first <= x < block.first + block.cells] if y < len(levels) else []
        )
        return self._row_of(found[0]) if found else None

    def _of(self, row: int) -> Collection[int]:
        return self._steps[row] if row < len(self._steps) else ()

    def _row_of(self, block: FlameBlock) -> int | None:
        """Return the row of exactly its steps, else the row of its first step."""
        steps = block.main.steps if block.main else block.steps
        for wanted in (frozenset(steps), frozenset(steps[:1])):
            rows = [row for row, own in enumerate(self._steps) if len(own) == len(wanted) and wanted.issuperset(own)]
            if rows:
                return rows[-1]
        return None
