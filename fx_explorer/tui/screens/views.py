"""This module holds the views to the right of the outline: which one is on screen, and which of its
parts has the focus. The outline is read in the background, and gets the room that the views leave.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.containers import Vertical
from textual.widget import Widget

from fx_explorer.drawing.view_table import ViewTable
from fx_explorer.overview.outline import OutlineEntry, kernels_below, outline
from fx_explorer.session import SessionReader
from fx_explorer.tui.background_tasks import BackgroundTask, Renewed
from fx_explorer.tui.content.long_work import OUTLINE_READS, UNREADABLE
from fx_explorer.tui.failures import explained
from fx_explorer.tui.panes.first_page import FirstPage
from fx_explorer.tui.panes.linked_panes import LinkedPanes
from fx_explorer.tui.panes.overview_pane import FactList
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.panes.titles import OldFiles
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import Cached
from fx_explorer.tui.widgets.outline_tree import Outline
from fx_explorer.tui.widgets.pane_border import DraggedEdge


class Views(Cached, DraggedEdge, Vertical):
    """Holds the views, beside the outline; the border between them can be dragged. One view is
    shown at a time.
    """

    DEFAULT_CSS = """
    Views { width: 1fr; height: 1fr; }
    Views.-beside { border-left: solid $border; }
    """
    EDGE = "left"

    def __init__(
        self,
        facts: FactList,
        linked: LinkedPanes,
        make_candidates: Callable[[SessionReader], ViewTable],
    ) -> None:
        """``make_candidates`` makes the table of a kernel's configurations, which depends on more
        than the session.
        """
        super().__init__(id="views")
        self.page = FirstPage(facts, linked.kernel_marks)
        self._linked = linked
        self._make_candidates = make_candidates
        self._by_name: dict[str, Widget] = {}
        self._old = OldFiles()
        self.name_shown = ""
        """The view on screen; empty before there is one."""

    async def mount_view(self, name: str) -> Widget:
        """Return the widget of a view. Views are mounted when they are first shown, so that
        starting costs only the first.
        """
        if name not in self._by_name:
            widget = self._by_name[name] = self._make(name)
            await self.mount(widget)
        return self._by_name[name]

    def _make(self, name: str) -> Widget:
        if name == "overview":
            return self.page
        if name == "source":
            return self._linked
        from fx_explorer.tui.content.long_work import READS
        from fx_explorer.tui.content.tables import TABLES  # not needed for the first paint: 20 ms

        pane = TablePane(TABLES.get(name, self._make_candidates), READS.get(name), id=name)
        pane.show_old(self._old)
        return pane

    def hide_others(self) -> None:
        """Hide all views but the one on screen."""
        for name, widget in self._by_name.items():
            widget.display = name == self.name_shown

    def show_old(self, old: OldFiles) -> None:
        """Mark outdated files, in these views and in later ones."""
        self._old = old
        self._linked.show_old(old)
        self.page.source.show_old(old)
        for pane in self._tables:
            pane.show_old(old)

    def forget(self) -> None:
        """Drop the tables' data of a session that is about to be closed."""
        self.page.forget()
        for pane in self._tables:
            pane.forget()

    @property
    def _tables(self) -> list[TablePane]:
        return [widget for widget in self._by_name.values() if isinstance(widget, TablePane)]

    # the one on screen

    @property
    def shown(self) -> Widget | None:
        return self._by_name.get(self.name_shown)

    @property
    def body(self) -> LineView | None:
        """Return the list or text that keys go to."""
        shown = self.shown
        if isinstance(shown, FirstPage):
            return shown.facts
        if isinstance(shown, TablePane):
            return shown.body
        if self._linked.active:
            return self._linked.active.body
        return None

    @property
    def table(self) -> TablePane | None:
        """Return the table on screen; None in a view without one."""
        if isinstance(self.shown, TablePane):
            return self.shown
        return None

    def table_of(self, name: str) -> TablePane | None:
        """Return the table of a view that has been shown; None for another view."""
        widget = self._by_name.get(name)
        return widget if isinstance(widget, TablePane) else None

    @property
    def detail(self) -> LineView | None:
        """Return the text below the list on screen; None without one."""
        if self.table and self.table.detail.line_count:
            return self.table.detail
        if isinstance(self.shown, FirstPage) and self.page.source.display:
            return self.page.source.body
        return None

    def stop_reading(self) -> bool:
        """Stop making the view on screen. Returns whether it was being made."""
        if self.name_shown == "source":
            stopped = [pane.stop_writing() for pane in self._linked.panes]
            return any(stopped)
        return self.table.stop_reading() if self.table else False

    def leave_row(self) -> bool:
        """Show the table from which the one on screen was opened. Returns whether there is one."""
        return bool(self.table and self.table.leave_row())


OUTLINE_CELLS = 32
LEAST_OUTLINE_CELLS = 16
LEAST_VIEW_CELLS = 40
"""Minimum width of the outline, and of the views, in cells, when the border is dragged."""


class OutlineSide:
    """Keeps the outline up to date, and decides whether it is shown."""

    def __init__(self, outline: Outline, views: Views) -> None:
        self._outline = outline
        self._views = views
        self._reader: SessionReader | None = None
        self._read: Renewed[list[OutlineEntry]] = Renewed(
            BackgroundTask(outline, "outline", "read the outline"), self._show, self._cannot_read
        )
        self.is_asked_for = False

    # what it lists

    def forget(self) -> None:
        """Drop the data of a session that is about to be closed."""
        self._read.forget()
        self._outline.forget()

    def renew(self, reader: SessionReader) -> None:
        """List the present content of the session."""
        self._reader = reader
        self._read.renew(reader, outline, takes_long=OUTLINE_READS.takes_long(reader))

    def _show(self, entries: list[OutlineEntry]) -> None:
        is_over = self._reader is not None and self._reader.meta("outcome") is not None
        if is_over:
            self._outline.placeholder = "Nothing was compiled."
        else:
            self._outline.placeholder = "Nothing has been compiled yet."
        self._outline.show(entries, self._below)

    def _below(self, entry: OutlineEntry) -> list[OutlineEntry]:
        with explained(self._outline):
            if self._reader:
                return kernels_below(self._reader, entry)
            return []
        return []

    def _cannot_read(self) -> None:
        self._outline.placeholder = UNREADABLE
        self._outline.refresh()

    # its room

    def drag_border(self, cell: int, width: int) -> None:
        """Make the outline as wide as the user drags its border to ``cell``, on a screen of
        ``width`` cells.
        """
        most = max(LEAST_OUTLINE_CELLS, width - LEAST_VIEW_CELLS)
        cells = max(LEAST_OUTLINE_CELLS, min(cell - self._outline.region.x, most))
        styles = self._outline.styles
        styles.width = styles.min_width = styles.max_width = cells

    def show_where_asked(self) -> None:
        """Show the outline if the user has asked for it: views need the room."""
        self._outline.set_class(not self.is_asked_for, "-hidden")
        self._views.set_class(self.is_asked_for, "-beside")
