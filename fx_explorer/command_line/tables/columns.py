"""Rows in columns of one width, of which the last is prose."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from rich.cells import cell_len

from fx_explorer.command_line.tables.fitting import INDENT, LEAST_PROSE

GAP = 2


class Columns:
    """Widths that fit all rows of a table, of which several parts may be written."""

    def __init__(self, rows: Sequence[Sequence[str]], width: int | None, indent: int = 2) -> None:
        """``width``: columns of the terminal; None for one line a row, however long."""
        self._widths = [max(map(cell_len, cells), default=0) for cells in zip(*rows, strict=True)][
            :-1
        ]
        self._width = width
        self._indent = indent
        self._before = indent + sum(self._widths) + GAP * len(self._widths)

    def lines(self, rows: Sequence[Sequence[str]]) -> list[str]:
        """Return these rows as lines. With a width, the last column goes on under itself."""
        return [line for row in rows for line in self._row(row)]

    def _row(self, row: Sequence[str]) -> list[str]:
        *cells, prose = row
        aligned = (
            _padded(cell, wide + GAP) for cell, wide in zip(cells, self._widths, strict=True)
        )
        start = " " * self._indent + "".join(aligned)
        if self._width is None:
            return [(start + prose).rstrip()]
        room = self._width - self._before
        if room < LEAST_PROSE:
            below = " " * (self._indent + INDENT)
            prose_lines = textwrap.wrap(
                prose, max(LEAST_PROSE, self._width), initial_indent=below, subsequent_indent=below
            )
            return [start.rstrip(), *prose_lines]
        first, *rest = textwrap.wrap(prose, room, break_on_hyphens=False) or [""]
        return [(start + first).rstrip(), *(" " * self._before + part for part in rest)]


def _padded(text: str, cells: int) -> str:
    return text + " " * (cells - cell_len(text))
