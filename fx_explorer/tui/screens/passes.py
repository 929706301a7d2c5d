"""MLIR pass by pass: which passes of Triton's compiler changed a kernel's IR, and how."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from textual import work
from textual.content import Content

from fx_explorer.analysis.diff import DiffRow, difference_in_words
from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable
from fx_explorer.instruments.diff.screen import (
    DIFF_COLUMNS,
    SHOW_DELAY_S,
    SIGN_KINDS,
    DifferenceScreen,
    diff_rows,
)
from fx_explorer.instruments.kernels.assembly.passes import Pass, pass_diff, passes
from fx_explorer.tui.commands import Keymap
from fx_explorer.tui.widgets.row_list import ListColumn, Row, RowList, Rows

TELL_S = 0.25

COLUMNS = (
    ListColumn("", "muted", "right", min_width=3),
    ListColumn("pass", "strong", min_width=30, max_width=60),
    ListColumn("lines", "muted", "right", min_width=5),
    ListColumn("changed", "warning", min_width=16),
    ListColumn("", "muted", min_width=24, max_width=60, priority=1),
)

UNIFIED_COLUMNS = (ListColumn("", "muted", min_width=1, max_width=1), ListColumn("", "text"))

WIDE_CELLS = 180
"""From this width on, before and after stand side by side."""

LAST = "the last one: what it left is the TTGIR"

Dump = Callable[[], Awaitable[str]]


class PassesScreen(DifferenceScreen):
    """Shows every pass above, with those marked that changed something; below, what the one under
    the cursor changed.
    """

    DEFAULT_CSS = "PassesScreen #difference { height: 2fr; }"

    def __init__(self, title: str, dump: Dump, keymap: Keymap) -> None:
        """``dump`` compiles the kernel once more and returns what MLIR printed; it may raise
        FxExplorerError.
        """
        pairs = RowList(
            COLUMNS,
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
        first = next((i for i, one in enumerate(self._passes) if one.changed), 0)
        self._list.placeholder = "MLIR printed no pass."
        self._list.load(Rows([pass_row(one) for one in self._passes]), line=first)
        changed = sum(one.changed for one in self._passes)
        self._show_hint(
            f"{changed} of {len(self._passes)} passes changed the IR. Locations are left out."
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
        one = self._passes[line]
        rows: list[DiffRow[str]] = await asyncio.to_thread(pass_diff, one)
        shown = diff_rows(rows) if self.size.width >= WIDE_CELLS else unified_rows(rows)
        marks = [i for i in range(len(shown)) if shown[i][0] != (" ", SIGN_KINDS[" "])]
        columns = DIFF_COLUMNS if self.size.width >= WIDE_CELLS else UNIFIED_COLUMNS
        self._difference.load(Rows(shown), columns, line=marks[0] if marks else 0)
        self._difference.marks = frozenset(marks)
        if one.is_last:
            what = LAST
        elif one.changed:
            what = difference_in_words(rows, "line")
        else:
            what = "changed nothing"
        self._title.show(Content.styled(f"{one.name}: {what}", "bold"))


def unified_rows(rows: Sequence[DiffRow[str]]) -> list[Row]:
    """Return old lines above new ones: lines of MLIR are too long for two columns."""
    shown: list[Row] = []
    for row in rows:
        for sign, text in (
            ((row.sign, row.before),) if row.sign == " " else (("-", row.before), ("+", row.after))
        ):
            if text is not None:
                shown.append(
                    ((sign, SIGN_KINDS[sign]), (text, "text" if sign == " " else SIGN_KINDS[sign]))
                )
    return shown


def pass_row(one: Pass) -> Row:
    changed = "" if not one.changed else f"● {len(one.before):,} → {len(one.after):,} lines"
    kind = "strong" if one.changed else "muted"
    return (
        str(one.position),
        (one.name, kind),
        f"{len(one.before):,}",
        LAST if one.is_last else changed,
        one.argument,
    )
