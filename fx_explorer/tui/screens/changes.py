"""Two captures of one program side by side: how their figures differ, and what stands behind the
row under the cursor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from textual import work
from textual.content import Content

from fx_explorer.analysis.diff import difference_in_words
from fx_explorer.highlight import printable
from fx_explorer.instruments.diff.screen import (
    SHOW_DELAY_S,
    DifferenceScreen,
    diff_rows,
    figure_columns,
    figure_row,
)
from fx_explorer.instruments.diff.since_last_rows import Differences, Row, rows_behind
from fx_explorer.session import SessionReader
from fx_explorer.tui.beside import read_beside
from fx_explorer.tui.commands import Keymap
from fx_explorer.tui.widgets import row_list
from fx_explorer.tui.widgets.row_list import RowList, Rows

SIDES = ("", "before", "now")

NOTHING_LEFT = "There is none on either side."
NO_FILE = "Your files are as they were captured."


class ChangesScreen(DifferenceScreen):
    """Shows the figures, and the files and kernels that differ, above; below, the lists or texts
    behind the row under the cursor.
    """

    def __init__(
        self,
        heading: str,
        before: Path,
        after: Path,
        differences: Differences,
        aspect: str,
        keymap: Keymap | None = None,
    ) -> None:
        """``before`` and ``after`` are the sessions. ``aspect``: the cursor begins on its first
        row.
        """
        super().__init__(
            heading, RowList(figure_columns(SIDES), id="figures", placeholder=NO_FILE), "", keymap
        )
        self._before = before
        self._after = after
        self._found = differences
        self._first = differences.first_of(aspect)

    def on_mount(self) -> None:
        self._list.load(FigureRows(self._found.rows), line=self._first)
        self._list.styles.max_height = (
            len(self._found.rows) + 1
        )  # the rest is for what stands behind them
        self._list.focus()
        self._show_hint("")
        self._compare(self._first)

    def _has_difference(self, line: int) -> bool:
        return line < len(self._found.rows)

    @work(name="compare", group="compare", exclusive=True, description="compare two captures")
    async def _compare(self, line: int) -> None:
        """Show what stands behind a row. It is made beside the screen: a source file or a kernel
        may have 50,000 lines.
        """
        await asyncio.sleep(SHOW_DELAY_S)
        if not self._has_difference(line):
            return
        row = self._found.rows[line]
        shown = await read_beside(self._after, partial(_behind, self._before, self._found, row))
        self._difference.placeholder = NOTHING_LEFT
        self._difference.load(Rows(shown.rows))
        self._difference.show_marks(shown.marks)
        self._difference.move_to(min(shown.marks, default=0), center=True)
        title = row.figure.what.strip().removeprefix("→ ")
        self._title.show(Content.styled(printable(f"{title}: {shown.words}"), "bold"))


class FigureRows:
    """Gives the rows of the differences to the list, as it shows them: there may be 100,000."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def page(self, start: int, stop: int) -> Sequence[row_list.Row]:
        return [figure_row(row.figure) for row in self._rows[start:stop]]


class ShownChange(NamedTuple):
    """What stands behind a row, as it is shown."""

    rows: list[row_list.Row]
    marks: frozenset[int]
    """The rows that differ."""
    words: str


def _behind(before: Path, differences: Differences, row: Row, reader: SessionReader) -> ShownChange:
    with SessionReader(before) as other:
        rows = rows_behind(other, reader, differences, row)
    marks = frozenset(i for i, row in enumerate(rows) if row.sign != " ")
    return ShownChange(
        diff_rows(rows),
        marks,
        difference_in_words(rows, "line" if row.source or row.pair else "entry"),
    )
