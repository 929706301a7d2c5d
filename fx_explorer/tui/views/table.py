"""A view as data: one line saying what it shows, one saying what is worth noticing, rows that lead somewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from fx_explorer.analysis.documents import Place

Tone = Literal["", "number", "name", "code", "dim", "good", "notice", "problem"]
"""How a cell looks."""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    tone: Tone = ""
    align_right: bool = False
    width: int = 0
    """Cells; 0: as wide as its widest value, up to MAX_WIDTH."""


MAX_WIDTH = 44


@dataclass(frozen=True, slots=True)
class Detail:
    """What is shown below the list for the row under the cursor."""

    text: str
    language: str = "text"


@dataclass(frozen=True, slots=True)
class Row:
    cells: tuple[str, ...]
    place: Place | None = None
    """Where Enter goes; None when the row stands for no one place."""
    detail: Callable[[], Detail] | None = None
    """Asked for when the cursor comes to the row; None: nothing more is known than the row says."""
    tone: Tone = ""
    """Of the first cell, where it differs from the column's."""


@dataclass(frozen=True, slots=True)
class Table:
    shows: str
    """What the view shows, in one line."""
    notice: str
    """What is worth noticing; empty when nothing is."""
    origin: str
    """Where the data came from."""
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    empty: str
    """Why there is nothing, shown when there are no rows."""


def column_widths(table: Table, sample: int = 2000) -> list[int]:
    """Width of each column: its own wish, or its widest value among the first ``sample`` rows."""
    widths = []
    for i, column in enumerate(table.columns):
        widest = max((len(row.cells[i]) for row in table.rows[:sample]), default=0)
        widths.append(column.width or max(len(column.title), min(MAX_WIDTH, widest)))
    return widths
