"""Two captures of one program side by side: how their figures differ, and what stands behind the row
under the cursor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from textual import work
from textual.content import Content

from fx_explorer.analysis.diff import DiffRow, difference_in_words
from fx_explorer.analysis.since_last.differences import Difference, rows_of
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.tui.beside import made_beside
from fx_explorer.tui.commands import Keymap
from fx_explorer.tui.screens.difference import SHOW_DELAY_S, DifferenceScreen
from fx_explorer.tui.screens.rows.compare import diff_rows
from fx_explorer.tui.widgets.row_list import Column, Row, RowList, Rows

COLUMNS = (
    Column("", "strong", min_width=26, max_width=44),
    Column("before", "text", min_width=14, max_width=60),
    Column("now", "text", min_width=14, max_width=60),
    Column("", "muted", min_width=2, max_width=4),
)

NOTHING_LEFT = "There is nothing in either."


class ChangesScreen(DifferenceScreen):
    """Shows the figures, the files and the kernels that differ above; below, the lists or texts of the
    one under the cursor.
    """

    def __init__(
        self, heading: str, before: Path, after: Path, rows: Sequence[Difference], aspect: str, keymap: Keymap | None = None
    ) -> None:
        """``aspect``: the cursor begins on its first row."""
        super().__init__(heading, RowList(COLUMNS, id="figures"), "Choose a line above.", keymap)
        self._before = before
        self._after = after
        self._found = rows
        self._first = next((i for i, one in enumerate(rows) if one.aspect == aspect), 0)

    def on_mount(self) -> None:
        self._list.load(Rows([_row(one) for one in self._found]), line=self._first)
        self._list.focus()
        self._show_hint("")
        self._compare(self._first)

    def _has_difference(self, line: int) -> bool:
        return line < len(self._found)

    @work(name="compare", group="compare", exclusive=True, description="compare two captures")
    async def _compare(self, line: int) -> None:
        """Show what stands behind a row. It is made beside the screen: a source file or a kernel may have
        50,000 lines.
        """
        await asyncio.sleep(SHOW_DELAY_S)
        if not self._has_difference(line):
            return
        one = self._found[line]
        made = await made_beside(self._after, partial(_rows, self._before, one))
        made.reader.close()
        rows = made.value
        self._difference.placeholder = NOTHING_LEFT
        self._difference.load(Rows(diff_rows(rows)))
        self._difference.show_marks(frozenset(i for i in range(len(rows)) if rows[i].sign != " "))
        first = next((i for i, row in enumerate(rows) if row.sign != " "), 0)
        self._difference.move_to(first, center=True)
        noun = "line" if one.source or one.pair else "row"
        title = one.figure.what.strip().removeprefix("→ ")
        self._title.show(Content.styled(printable(f"{title}: {difference_in_words(rows, noun)}"), "bold"))


def _rows(before: Path, one: Difference, reader: SessionReader) -> Sequence[DiffRow[str]]:
    with SessionReader(before) as other:
        return rows_of(other, reader, one)


def _row(one: Difference) -> Row:
    kind = "warning" if one.differs else "muted"
    return (one.figure.what, (one.figure.left, kind), (one.figure.right, kind), "≠" if one.differs else "")
