"""MLIR pass by pass: which passes of Triton's compiler changed a kernel's IR, and what each of them did to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from fx_explorer.analysis.below.passes import Pass, pass_diff, passes
from fx_explorer.analysis.diff import DiffRow, difference_in_words
from fx_explorer.errors import FxExplorerError
from fx_explorer.highlight import printable
from fx_explorer.tui.bindings import closing_bindings, first_key, priority_bindings
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.views.compare import DIFF_COLUMNS, SIGN_KINDS, diff_rows
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import Column, Row, RowList, Rows

TELL_S = 0.25
SHOW_DELAY_S = 0.08
"""Moving fast over the passes compares only the one the cursor rests on."""

COLUMNS = (
    Column("", "muted", "right", min_width=3),
    Column("pass", "strong", min_width=30, max_width=60),
    Column("lines", "muted", "right", min_width=5),
    Column("changed", "warning", min_width=16),
    Column("", "muted", min_width=24, max_width=60, priority=1),
)

UNIFIED_COLUMNS = (Column("", "muted", min_width=1, max_width=1), Column("", "text"))

WIDE_CELLS = 180
"""From here on before and after stand side by side."""

LAST = "the last one: what it left is the TTGIR"

_HINTED = ("compare.next", "compare.previous", "compare.other", "dialog.close")

Dump = Callable[[], Awaitable[str]]


class PassesScreen(ModalScreen[None]):
    """Above every pass, those that changed something marked; below, what the one under the cursor did."""

    DEFAULT_CSS = """
    PassesScreen { align: center middle; }
    PassesScreen > Vertical { width: 98%; height: 96%; background: $surface; border: round $border; padding: 0 1; }
    PassesScreen #passes { height: 1fr; background: $surface; }
    PassesScreen #difference { height: 2fr; background: $surface; }
    PassesScreen #title { color: $foreground; background: $panel; }
    PassesScreen OneLine { padding: 0; color: $text-muted; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*closing_bindings("app.quit"), *priority_bindings("compare")]

    def __init__(self, title: str, dump: Dump, keymap: Keymap) -> None:
        """``dump`` compiles the kernel once more and returns what MLIR printed; it may raise FxExplorerError."""
        super().__init__()
        self._heading = title
        self._dump = dump
        self._keymap = keymap
        self._passes: list[Pass] = []
        self._list = RowList(COLUMNS, id="passes", placeholder="Compiling the kernel once more, with every pass printed.")
        self._difference = RowList(DIFF_COLUMNS, header=False, id="difference")
        self._title = OneLine(id="title")
        self._hint = OneLine()

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = printable(self._heading)
            yield self._list
            yield self._title
            yield self._difference
            yield self._hint

    def on_mount(self) -> None:
        self._list.focus()
        self._hint.show(Content("Locations are left out."), self._keys)
        self._load()

    @work(name="passes", group="passes", description="compile a kernel with every pass printed")
    async def _load(self) -> None:
        """Closing the screen cancels it."""
        began = time.monotonic()
        dumping = asyncio.ensure_future(self._dump())
        try:
            while not dumping.done():
                self._list.placeholder = (
                    f"Compiling the kernel once more, with every pass printed … {time.monotonic() - began:.0f} s"
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
        self._hint.show(Content(f"{changed} of {len(self._passes)} passes changed the IR. Locations are left out."), self._keys)
        self._compare(first)

    @property
    def _keys(self) -> Content:
        following, before, other, close = (first_key(by_id(command), self._keymap) for command in _HINTED)
        return Content(f"{following} {before} differences · {other} other list · {close} closes")

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        if event.control is self._list:
            self._compare(event.line)

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        """Enter on a pass goes into its difference."""
        event.stop()
        if event.control is self._list and self._passes:
            self._difference.focus()

    @work(name="compare", group="compare", exclusive=True, description="compare the IR before and after a pass")
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
        what = LAST if one.is_last else difference_in_words(rows, "line") if one.changed else "changed nothing"
        self._title.show(Content.styled(f"{one.name}: {what}", "bold"))

    def action_next_difference(self, step: int) -> None:
        marks, here = sorted(self._difference.marks), self._difference.cursor
        ahead = [mark for mark in marks if (mark > here if step > 0 else mark < here)]
        if not ahead:
            self.app.bell()
            return
        self._difference.move_to(ahead[0] if step > 0 else ahead[-1], center=True)

    def action_other_list(self) -> None:
        (self._list if self._difference.has_focus else self._difference).focus()

    def action_leave(self) -> None:
        self.dismiss(None)


def unified_rows(rows: Sequence[DiffRow[str]]) -> list[Row]:
    """What was, above what is: lines of MLIR are too long for two columns."""
    shown: list[Row] = []
    for row in rows:
        for sign, text in ((row.sign, row.before),) if row.sign == " " else (("-", row.before), ("+", row.after)):
            if text is not None:
                shown.append(((sign, SIGN_KINDS[sign]), (text, "text" if sign == " " else SIGN_KINDS[sign])))
    return shown


def pass_row(one: Pass) -> Row:
    changed = "" if not one.changed else f"● {len(one.before):,} → {len(one.after):,} lines"
    kind = "strong" if one.changed else "muted"
    return (str(one.position), (one.name, kind), f"{len(one.before):,}", LAST if one.is_last else changed, one.argument)
