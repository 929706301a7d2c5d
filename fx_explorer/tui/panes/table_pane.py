"""This module is a view of rows: a description and a notice above, the rows in the user's order,
their sums, and details of the row under the cursor.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.worker import WorkType

from fx_explorer.analysis.annotated_regions import RegionKey
from fx_explorer.analysis.documents import Place
from fx_explorer.drawing import view_table as views
from fx_explorer.drawing.view_table import Folding, row_around
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.tui.background_tasks import BackgroundTask, TaskResult
from fx_explorer.tui.content.long_work import FAILED, READING, Reads
from fx_explorer.tui.failures import TellsUnreadable
from fx_explorer.tui.panes.around_table import TableChart, TableDetail
from fx_explorer.tui.panes.table_rows import (
    Arrangement,
    NestedRows,
    Sort,
    Steps,
    TableRows,
    arranged,
    at_once,
    columns,
    next_sort,
    rows_in_order,
)
from fx_explorer.tui.panes.titles import OldFiles, TableNotes
from fx_explorer.tui.widgets import row_list
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import RowList

TableMaker = Callable[[SessionReader], views.ViewTable]

ROWS_AT_ONCE = 1_000
"""Maximum number of rows of a table that is sorted before the next frame, which takes about 8
ms.
"""

ARRANGING = "arrange rows"
ARRANGING_WORDS = "Looking through the rows …"
ORIGIN = "origin"
ADDING_UP = "Adding up …"
NONE_HAS = "No row has all of these words: {words}"
NONE_IN = "No row belongs to {region}. Escape shows all rows."
NOT_NARROWED = "These rows belong to no part of the program, so all are shown."
STOPPED = "The rows were not all read. Choose the view again to read them."


class TablePane(TellsUnreadable, Vertical):
    """Shows two lines of text, a chart if the table has one, a list, a line of sums, and below it
    the detail of the row under the cursor. A function makes the table: before the next frame, or in
    the background if it will be large.
    """

    DEFAULT_CSS = """
    TablePane { height: 1fr; }
    TablePane > TableNotes { background: $surface; padding: 0 1; height: auto; }
    TablePane > RowList { height: 3fr; }
    TablePane > .totals { background: $surface; color: $text-muted; padding: 0 1; }
    TablePane > .detail { height: 2fr; border-top: solid $border; }
    """

    class Moved(Message):
        """Posted when the cursor moved to another row. ``place`` is the row's place, if it has
        exactly one.
        """

        def __init__(self, place: Place | None) -> None:
            super().__init__()
            self.place = place

    class Followed(Moved):
        """Posted when the user presses enter on a row."""

    def __init__(self, make_table: TableMaker, reads: Reads | None = None, *, id: str) -> None:
        """``reads``: the rows that may make the table large; None for a table that is never
        large.
        """
        super().__init__(id=id)
        self._make_table = make_table
        self._reads = reads
        self._beside: BackgroundTask[views.ViewTable] = BackgroundTask(
            self, "make table", "make a table"
        )
        self._table_reader: SessionReader | None = None
        """The reader of a table that was made in the background."""
        self._made_of: tuple[SessionReader, int] | None = None
        """(session, version of its data) of a table that was made in the background."""
        self._is_stopped = False
        """Whether the user stopped the table, or it could not be made."""
        self._around: list[tuple[views.ViewTable, int]] = []
        """The tables from which this one was opened, the outermost first, each with the line of the
        cursor.
        """
        self._wanted: Sequence[str] = ()
        """Keys of the row that the cursor goes to when the table is shown; empty for none."""
        self._wanted_place: Place | None = None
        """The same, for the row that stands for this place."""
        self._missed: SessionReader | None = None
        """The session, when it has grown while a part of the table was open; None otherwise."""
        self.narrowed_to = ""
        """The words that rows must have to be shown; empty for all rows."""
        self._region: RegionKey | None = None
        """The region that rows must belong to; None for all rows."""
        self._folding = Folding()
        self._old = OldFiles()
        self.sort: Sort | None = None
        """The column by which the rows are sorted; None for the order of the table."""
        self._whole: views.ViewTable | None = None
        self._table: views.ViewTable | None = None
        self._arranged: Sequence[int] = ()
        """The rows in their order, including folded ones."""
        self._order: Sequence[int] = ()
        self._sums = ""
        self._words = TableNotes()
        self._chart = TableChart()
        self.rows = RowList(())
        self._totals = OneLine(classes="totals")
        self._detail = TableDetail(self.rows, self._find_detail)

    def compose(self) -> ComposeResult:
        yield self._words
        yield self._chart
        yield self.rows
        yield self._totals
        yield self._detail

    @property
    def body(self) -> LineView:
        return self.rows

    @property
    def detail(self) -> CodeView:
        """Return the text below the rows."""
        return self._detail.text

    @property
    def position(self) -> int:
        """Return the row of the table that the cursor is on, independent of the order on screen."""
        line = self.rows.cursor
        if line < len(self._order):
            return self._order[line]
        if self._table:
            return len(self._table.rows)
        return 0

    @property
    def place(self) -> Place | None:
        """Return the place of the row under the cursor."""
        row = self._row()
        if row and row.find_place:
            return row.find_place()
        return row.place if row else None

    @property
    def version(self) -> str:
        """Return the name of the compilation of the row under the cursor; empty without one."""
        row = self._row()
        return row.version if row else ""

    @property
    def narrows_to(self) -> RegionKey | None:
        """Return the region to which Enter on the row under the cursor narrows every view."""
        row = self._row()
        return row.narrows_to if row else None

    @property
    def description(self) -> list[tuple[str, str]]:
        """Return what the help and the facts say of the view beside its rows: (label, text)."""
        table = self._table
        if table is None:
            return []
        heading = " ".join(filter(None, (table.answer, table.notice)))
        parts = (("this view", table.shows), ("answer", heading), (ORIGIN, table.origin))
        return [(label, text) for label, text in parts if text]

    @property
    def headings(self) -> list[str]:
        """Return the titles of the columns, which rows can be sorted by."""
        if self._table:
            return [column.title for column in self._table.columns if column.title]
        return []

    def refresh_from(self, reader: SessionReader) -> None:
        """Make the table again. The cursor stays, and opened parts of a table stay open."""
        if self._around:
            self._missed = reader
            return
        if self._reads is None or not self._reads.takes_long(reader):
            self._beside.stop()
            self._made_of = None
            self._take(self._narrowed_table(reader), None)
        elif not self._is_stopped and not self._beside.is_busy:
            self._refresh_in_thread(reader, self._reads)

    def show_only(self, region: RegionKey | None) -> None:
        """Show only the rows that belong to a region from the next refresh on; None shows all."""
        if region != self._region:
            self._region = region
            self._made_of = None
            self._beside.stop()

    def _narrowed_table(self, reader: SessionReader) -> views.ViewTable:
        table, region = self._make_table(reader), self._region
        if region is None:
            return table
        only = table.within(reader, region) if table.within else None
        if only is not None:
            return replace(table, only=only)
        if table.rows:
            return replace(table, notice=f"{table.notice} {NOT_NARROWED}".strip())
        return table

    def _refresh_in_thread(self, reader: SessionReader, reads: Reads) -> None:
        """Make the table in the background, unless the session has it already."""
        now = (reader, reader.data_version())
        if now == self._made_of:
            return
        if self._whole is None:
            self._say(f"{READING.format(what=reads.words(reader))} Escape stops it.")
        self._beside.begin(
            reader.path,
            self._narrowed_table,
            functools.partial(self._take_result, now),
            self._cannot,
        )

    def _take_result(
        self, made_of: tuple[SessionReader, int], made: TaskResult[views.ViewTable]
    ) -> None:
        self._made_of = made_of
        self._take(made.value, made.reader)
        self.post_message(self.Moved(self.place))
        self.refresh_from(made_of[0])  # it may have grown meanwhile

    def _take(self, table: views.ViewTable, reader: SessionReader | None) -> None:
        """Show a table. ``reader`` is its own, and is closed with it."""
        is_first = self._whole is None
        if is_first:
            self._detail.forget_height()
        before, self._table_reader = self._table_reader, reader
        self._whole = table
        line = self.rows.cursor
        if is_first:
            line = table.first if table.only is None and not self.sort else 0
        self._show_table(line)
        if before is not None:
            before.close()

    def _cannot(self, _: Exception) -> None:
        self._is_stopped = True
        if self._whole is None:
            self._say(FAILED)

    def _say(self, words: str) -> None:
        """Show a sentence instead of a table."""
        self.rows.placeholder = words
        self.rows.load(row_list.Rows())
        self._totals.display = self._detail.display = False

    def resume(self) -> None:
        """Allow the table to be made again, because the user asks for it."""
        self._is_stopped = False

    def stop_reading(self) -> bool:
        """Stop making the table. Returns whether one was being made."""
        was_busy = self._beside.stop()
        if was_busy:
            self._is_stopped = True
            if self._whole is None:
                self._say(STOPPED)
        return was_busy

    def open_row(self) -> bool:
        """Show the rows inside the row under the cursor. Returns whether there are any."""
        table = self._table
        inner = table.opens(self.position) if table and table.opens and self._row() else None
        if table is None or inner is None:
            return False
        self._around.append((table, self.rows.cursor))
        self._turn_to(inner, 0)
        return True

    def leave_row(self) -> bool:
        """Show the table from which this one was opened. Returns whether there is one."""
        if not self._around:
            return False
        self._turn_to(*self._around.pop())
        if self._missed is not None and not self._around:
            missed, self._missed = self._missed, None
            self.refresh_from(missed)
        return True

    def _turn_to(self, table: views.ViewTable, line: int) -> None:
        self.narrowed_to = ""
        self._whole = table
        self._show_table(line)
        self.post_message(self.Moved(self.place))

    def show_old(self, old: OldFiles) -> None:
        """Mark the rows of files that are other files by now, and say so above them."""
        if old != self._old:
            self._old = old
            self._show_table(self.rows.cursor)

    def narrow(self, words: str) -> None:
        """Show only the rows that have all ``words``."""
        if words != self.narrowed_to:
            self.narrowed_to = words
            self._show_table(0)

    def sort_by(self, column: str) -> None:
        """Sort by a column; the same column again reverses the order; a third time restores the
        table's order.
        """
        if self._table:
            self.sort = next_sort(self._table, self.sort, column)
            self._show_table(0)

    def go_to(self, keys: Sequence[str]) -> None:
        """Move the cursor to the first of these rows that the table has, with what is around it
        unfolded; where the table is still being made, as soon as it is shown.
        """
        while self.leave_row():
            pass
        self._wanted = keys
        self.narrow("")
        self._go_to_wanted()

    def go_to_place(self, place: Place) -> None:
        """Move the cursor to the first row that stands for this place, as ``go_to`` does."""
        self._wanted_place = place
        self._go_to_wanted()

    def hides(self, keys: Sequence[str]) -> bool:
        """Return whether the table has one of these rows, and does not show it."""
        at = self._table.row_with(keys) if self._table else None
        return at is not None and at not in self._order

    def _go_to_wanted(self) -> None:
        table = self._table
        if table is None:
            return
        at = table.row_with(self._wanted) if self._wanted else None
        if at is None and self._wanted_place is not None:
            at = table.row_at(self._wanted_place)
        if at is None or at not in self._arranged:
            return
        self._wanted = ()
        self._wanted_place = None
        if table.tree is not None:
            self._folding.reveal(table.tree, at)
            self._show_rows(table, Arrangement(self._arranged, self._sums), 0)
        self.rows.user_moves_to(self._order.index(at), center=True)

    def unfold_all(self) -> None:
        """Unfold every row, so that a find looks at all of them."""
        table = self._table
        if table is None or table.tree is None or self.narrowed_to:
            return
        at = self.position
        for row in range(len(table.rows)):
            if self._folding.is_folded(table.tree, row):
                self._folding.fold(table.tree, row, is_folded=False)
        self._show_rows(table, Arrangement(self._arranged, self._sums), 0)
        if at in self._order:
            self.rows.move_to(self._order.index(at))

    def fold_here(self, is_folding: bool | None = None) -> bool:
        """Fold or unfold the row under the cursor; None toggles it. If there is nothing to fold,
        the cursor moves to the enclosing row. Returns whether the table is a tree.
        """
        table, at = self._table, self.position
        if table is None or table.tree is None or self.narrowed_to or at >= len(table.rows):
            return False
        tree, is_folded = table.tree, self._folding.is_folded(table.tree, at)
        if is_folding and (is_folded or not tree.has_parts(at)):
            at = row_around(tree, self._order, at)
        if is_folding is None or tree.has_parts(at):
            folds = not is_folded if is_folding is None else is_folding
            self._folding.fold(tree, at, folds)
        self._show_rows(table, Arrangement(self._arranged, self._sums), 0)
        self.rows.move_to(self._order.index(at))
        self._detail.renew()
        return True

    def _show_table(self, line: int) -> None:
        """Show the rows in the chosen order: at once if there are few, else after sorting a few
        milliseconds at a time, so that no key waits for it.
        """
        table = self._whole
        if table and table.searched and self.narrowed_to:
            table = table.searched(self.narrowed_to)
        if table is None:
            return
        self._table = table
        self._words.show(table, self._old.words)
        steps = arranged(table, self.sort, self.narrowed_to)
        if len(table.rows) <= ROWS_AT_ONCE:
            self.workers.cancel_group(self, ARRANGING)
            self._show_rows(table, at_once(steps), line)
            return
        if not self.sort and not self.narrowed_to:
            every = range(len(table.rows)) if table.only is None else table.only
            self._show_rows(table, Arrangement(every, ADDING_UP), line)
        else:
            self._totals.show(Content(ARRANGING_WORDS))
        arrange: WorkType[None] = functools.partial(self._arrange, table, steps, line)
        self.run_worker(
            arrange,
            name=ARRANGING,
            group=ARRANGING,
            exclusive=True,
            description="sort, filter and add up rows",
        )

    async def _arrange(self, table: views.ViewTable, steps: Steps, line: int) -> None:
        for arrangement in steps:
            await asyncio.sleep(0)
            if arrangement:
                self._show_arranged(table, arrangement, line)

    def _show_arranged(self, table: views.ViewTable, arrangement: Arrangement, line: int) -> None:
        if arrangement.order == self._arranged:
            self._sums = arrangement.totals
            self._totals.show(
                Content(printable(arrangement.totals))
            )  # the cursor may have moved meanwhile
        else:
            self._show_rows(table, arrangement, line)

    def _show_rows(self, table: views.ViewTable, arrangement: Arrangement, line: int) -> None:
        self._arranged, self._sums = arrangement.order, arrangement.totals
        tree = None if self.narrowed_to else table.tree
        self._order = self._folding.visible(tree, arrangement.order) if tree else arrangement.order
        self.rows.placeholder = self._why_no_row(table)
        self.rows.is_tree = tree is not None
        old = self._old
        shown = (
            NestedRows(table, self._order, old, self._folding)
            if tree
            else TableRows(table, self._order, old)
        )
        self.rows.load(shown, columns(table, self.sort), line=line)
        self._chart.show(table.chart, self.position)
        self._totals.show(Content(printable(arrangement.totals)))
        self._totals.display = bool(table.rows)
        self._detail.renew()
        self._go_to_wanted()

    @property
    def svg(self) -> Callable[[], str] | None:
        """Return a function that draws the picture of the view; None without one."""
        return self._table.svg if self._table else None

    def _why_no_row(self, table: views.ViewTable) -> str:
        if table.rows and self.narrowed_to:
            return NONE_HAS.format(words=self.narrowed_to)
        if table.rows and table.only is not None and self._region:
            return NONE_IN.format(region=self._region[1])
        return table.empty

    def answer(self, title: str) -> Callable[[SessionReader], str]:
        """Return a function that writes everything in the view, with the rows as they are on the
        screen; empty if it has nothing. It may be called in another thread.
        """
        from fx_explorer.tui.content import copied_text  # not needed for the first paint

        table, order, row = self._table, self._order, self._row()
        if table is None:
            return lambda _: ""
        detail = row.detail() if row and row.detail else None
        return lambda reader: copied_text.table_markdown(
            title, table, rows_in_order(table, order, reader), detail
        )

    @property
    def answer_lines(self) -> int:
        """Return about how many lines that text has."""
        return len(self._order)

    def forget(self) -> None:
        """Drop all references to the session, which is about to be closed."""
        self.workers.cancel_group(self, ARRANGING)
        self._beside.stop()
        self._made_of = self._missed = None
        self._around.clear()
        self._whole = self._table = None
        self._arranged = self._order = ()
        self._close_reader()
        self._chart.show(None, 0)
        self.rows.load(row_list.Rows())
        self.detail.load("")

    def on_unmount(self) -> None:
        self._close_reader()

    def _close_reader(self) -> None:
        before, self._table_reader = self._table_reader, None
        if before is not None:
            before.close()

    def on_row_list_heading_picked(self, event: RowList.HeadingPicked) -> None:
        event.stop()
        if self._table and event.column < len(self._table.columns):
            self.sort_by(self._table.columns[event.column].title)

    def on_row_list_fold_wanted(self, event: RowList.FoldWanted) -> None:
        event.stop()
        self.fold_here(event.is_folding)

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        if event.view is self.rows:
            self._wanted = ()
            self._wanted_place = None
            self._chart.point_at(self.position)
            self._detail.renew()
            self.post_message(self.Moved(self.place))

    def on_table_chart_picked(self, event: TableChart.Picked) -> None:
        event.stop()
        self.rows.focus()
        if event.row in self._order:
            self.rows.user_moves_to(self._order.index(event.row), center=True)

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        event.stop()
        if event.view is self.rows and not self.open_row():
            self.post_message(self.Followed(self.place))

    def _find_detail(self) -> views.Detail:
        row = self._row()
        if row and row.detail:
            return row.detail()
        return views.Detail("")

    def on_resize(self) -> None:
        self.renew_detail()

    def renew_detail(self) -> None:
        """Show the detail of the row under the cursor as it is now, once there is room for it."""
        self.call_after_refresh(self._detail.renew)

    def _row(self) -> views.TableRow | None:
        rows = self._table.rows if self._table else ()
        position = self.position
        return rows[position] if position < len(rows) else None
