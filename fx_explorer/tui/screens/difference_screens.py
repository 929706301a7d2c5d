"""This module has the screens for differences: of two captures of one program, with the content of
the row under the cursor; and of a kernel's MLIR, pass by pass, with each pass's change.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from textual import work
from textual.content import Content

from fx_explorer.analysis.diff import DiffRow, Sign, describe_difference
from fx_explorer.analysis.words import counted
from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable
from fx_explorer.instruments.diff.differences import Differences
from fx_explorer.instruments.diff.differences import Row as DifferingRow
from fx_explorer.instruments.diff.rows_behind import rows_behind
from fx_explorer.instruments.diff.screen import (
    DIFF_COLUMNS,
    SHOW_DELAY_S,
    SIGN_KINDS,
    DifferenceScreen,
    diff_rows,
    figure_columns,
    figure_row,
)
from fx_explorer.instruments.kernels.mlir_passes import Pass, pass_diff, passes
from fx_explorer.session import SessionReader
from fx_explorer.tui.background_tasks import read_in_thread
from fx_explorer.tui.commands import Keymap
from fx_explorer.tui.widgets.row_list import ListColumn, Row, RowList, Rows

SIDES = ("before", "now")

NOTHING_LEFT = "There is none on either side."
NO_FILE = "Your files have not changed since the capture."


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
        sides: Sequence[str] = SIDES,
    ) -> None:
        """``before`` and ``after`` are the sessions, and ``sides`` their names. ``aspect``: the
        cursor begins on its first row.
        """
        figures = RowList(figure_columns(("", *sides)), id="figures", placeholder=NO_FILE)
        super().__init__(heading, figures, "", keymap)
        self._before = before
        self._after = after
        self._differences = differences
        self._first = differences.first_of(aspect)

    def on_mount(self) -> None:
        self._list.load(FigureRows(self._differences.rows), line=self._first)
        self._list.styles.max_height = (
            len(self._differences.rows) + 1
        )  # the rest is for what stands behind them
        self._list.focus()
        self._show_hint("")
        self._compare(self._first)

    def _has_difference(self, line: int) -> bool:
        return line < len(self._differences.rows)

    @work(name="compare", group="compare", exclusive=True, description="compare two captures")
    async def _compare(self, line: int) -> None:
        """Show the content of a row. It is computed in the background: a source file or a kernel
        may have 50,000 lines.
        """
        await asyncio.sleep(SHOW_DELAY_S)
        if not self._has_difference(line):
            return
        row = self._differences.rows[line]
        shown = await read_in_thread(
            self._after, partial(_behind, self._before, self._differences, row)
        )
        self._difference.placeholder = NOTHING_LEFT
        self._difference.load(Rows(shown.rows))
        self._difference.show_marks(shown.marks)
        self._difference.move_to(min(shown.marks, default=0), center=True)
        title = row.figure.what.strip().removeprefix("→ ")
        self._title.show(Content.styled(printable(f"{title}: {shown.words}"), "bold"))


class FigureRows:
    """Gives the rows of differences to the list when they are shown: there may be 100,000."""

    def __init__(self, rows: Sequence[DifferingRow]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def page(self, start: int, stop: int) -> Sequence[Row]:
        return [figure_row(row.figure) for row in self._rows[start:stop]]


class ShownChange(NamedTuple):
    """The list or text that opens from a row of the differences."""

    rows: list[Row]
    marks: frozenset[int]
    """The rows that differ."""
    words: str


def _behind(
    before: Path, differences: Differences, row: DifferingRow, reader: SessionReader
) -> ShownChange:
    with SessionReader(before) as other:
        rows = rows_behind(other, reader, differences, row)
    marks = frozenset(i for i, row in enumerate(rows) if row.sign != " ")
    noun = "line" if row.source or row.pair else "entry"
    return ShownChange(diff_rows(rows), marks, describe_difference(rows, noun))


TELL_S = 0.25

PASS_COLUMNS = (
    ListColumn("", "muted", "right", min_width=3),
    ListColumn("pass", "strong", min_width=30, max_width=60),
    ListColumn("lines", "muted", "right", min_width=5),
    ListColumn("changed", "warning", min_width=16),
    ListColumn("", "muted", min_width=24, max_width=60, priority=1),
)

UNIFIED_COLUMNS = (ListColumn("", "muted", min_width=1, max_width=1), ListColumn("", "text"))

WIDE_CELLS = 180
"""Width from which on before and after stand side by side."""

LAST = "the last one: its result is the TTGIR"

Dump = Callable[[], Awaitable[str]]


class PassesScreen(DifferenceScreen):
    """Shows every pass above, with those marked that changed something; below, the change of the
    pass under the cursor.
    """

    DEFAULT_CSS = "PassesScreen #difference { height: 2fr; }"

    def __init__(self, title: str, dump: Dump, keymap: Keymap) -> None:
        """``dump`` compiles the kernel once more and returns MLIR's output; it may raise
        FxExplorerError.
        """
        pairs = RowList(
            PASS_COLUMNS,
            id="passes",
            placeholder="Compiling the kernel once more, with every pass printed.",
        )
        super().__init__(printable(title), pairs, "", keymap)
        self._dump = dump
        self._passes: list[Pass] = []

    def on_mount(self) -> None:
        self._list.focus()
        self._show_hint("Locations are left out.")
        self._load()

    @work(name="passes", group="passes", description="compile a kernel with every pass printed")
    async def _load(self) -> None:
        """Compile the kernel and show its passes. Closing the screen cancels it."""
        began = time.monotonic()
        dumping = asyncio.ensure_future(self._dump())
        try:
            while not dumping.done():
                self._list.placeholder = (
                    "Compiling the kernel once more, with every pass printed … "
                    f"{time.monotonic() - began:.0f} s"
                )
                await asyncio.wait({dumping}, timeout=TELL_S)
            self._passes = await asyncio.to_thread(passes, dumping.result())
        except FxExplorerError as error:
            self._list.placeholder = printable(str(error))
            return
        finally:
            dumping.cancel()
        self._show_passes()

    def _show_passes(self) -> None:
        first = next(
            (i for i, compiler_pass in enumerate(self._passes) if compiler_pass.changed), 0
        )
        self._list.placeholder = "MLIR printed no pass."
        self._list.load(
            Rows([pass_row(compiler_pass) for compiler_pass in self._passes]), line=first
        )
        changed = sum(compiler_pass.changed for compiler_pass in self._passes)
        self._show_hint(
            f"{changed} of {counted(len(self._passes), 'pass')} changed the IR. Locations are left "
            "out."
        )
        self._compare(first)

    def _has_difference(self, line: int) -> bool:
        return line < len(self._passes)

    @work(
        name="compare",
        group="compare",
        exclusive=True,
        description="compare the IR before and after a pass",
    )
    async def _compare(self, line: int) -> None:
        await asyncio.sleep(SHOW_DELAY_S)
        if line >= len(self._passes):
            return
        compiler_pass = self._passes[line]
        rows: list[DiffRow[str]] = await asyncio.to_thread(pass_diff, compiler_pass)
        shown = diff_rows(rows) if self.size.width >= WIDE_CELLS else unified_rows(rows)
        marks = [i for i in range(len(shown)) if shown[i][0] != (" ", SIGN_KINDS[" "])]
        columns = DIFF_COLUMNS if self.size.width >= WIDE_CELLS else UNIFIED_COLUMNS
        first_marked = marks[0] if marks else 0
        self._difference.load(Rows(shown), columns, line=first_marked)
        self._difference.marks = frozenset(marks)
        if compiler_pass.is_last:
            what = LAST
        elif compiler_pass.changed:
            what = describe_difference(rows, "line")
        else:
            what = "changed nothing"
        self._title.show(Content.styled(f"{compiler_pass.name}: {what}", "bold"))


def unified_rows(rows: Sequence[DiffRow[str]]) -> list[Row]:
    """Return old lines above new ones, because lines of MLIR are too long for two columns."""
    shown: list[Row] = []
    for row in rows:
        for sign, text in _signed_texts(row):
            kind = "text" if sign == " " else SIGN_KINDS[sign]
            shown.append(((sign, SIGN_KINDS[sign]), (text, kind)))
    return shown


def _signed_texts(row: DiffRow[str]) -> Iterator[tuple[Sign, str]]:
    if row.before is not None:
        sign: Sign = " " if row.sign == " " else "-"
        yield sign, row.before
    if row.after is not None and row.sign != " ":
        yield "+", row.after


def pass_row(compiler_pass: Pass) -> Row:
    if compiler_pass.is_last:
        change = LAST
    elif compiler_pass.changed:
        change = f"● {len(compiler_pass.before):,} → {counted(len(compiler_pass.after), 'line')}"
    else:
        change = ""
    kind = "strong" if compiler_pass.changed else "muted"
    return (
        str(compiler_pass.position),
        (compiler_pass.name, kind),
        f"{len(compiler_pass.before):,}",
        change,
        compiler_pass.argument,
    )
