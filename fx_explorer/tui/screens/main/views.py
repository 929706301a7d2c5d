"""The room right of the outline, which holds the views: which of them is on screen, and what in it
has the keys.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.containers import Vertical
from textual.widget import Widget

from fx_explorer.drawing.view_table import ViewTable
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.linked import LinkedPanes
from fx_explorer.tui.panes.overview import FactList
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.panes.titles import OldFiles
from fx_explorer.tui.widgets.dragged_edge import DraggedEdge
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import Cached


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
        self._facts = facts
        self._linked = linked
        self._make_candidates = make_candidates
        self._by_name: dict[str, Widget] = {}
        self._old = OldFiles()
        self.name_shown = ""
        """The view on screen; empty before there is one."""

    async def mounted(self, name: str) -> Widget:
        """Return the widget of a view. Views are mounted when they are first shown, so that
        starting costs only the first.
        """
        if name not in self._by_name:
            widget = self._by_name[name] = self._made(name)
            await self.mount(widget)
        return self._by_name[name]

    def _made(self, name: str) -> Widget:
        if name == "overview":
            return self._facts
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
        """Mark what is old, in these views and in later ones."""
        self._old = old
        self._linked.show_old(old)
        for pane in self._tables:
            pane.show_old(old)

    def forget(self) -> None:
        """Drop what the tables show of a session, which is about to be closed."""
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
        if isinstance(shown, FactList):
            return shown
        if isinstance(shown, TablePane):
            return shown.body
        return self._linked.active.body if self._linked.active else None

    @property
    def table(self) -> TablePane | None:
        """Return the table on screen; None where the view is no table."""
        return self.shown if isinstance(self.shown, TablePane) else None

    def table_of(self, name: str) -> TablePane | None:
        """Return the table of a view that was shown already; None for another view."""
        widget = self._by_name.get(name)
        return widget if isinstance(widget, TablePane) else None

    @property
    def detail(self) -> LineView | None:
        """Return the text below the list on screen; None where there is none."""
        return self.table.detail if self.table and self.table.detail.line_count else None

    def stop_reading(self) -> bool:
        """Abandon what is being made for the view on screen. Returns whether there was something."""
        if self.name_shown == "source":
            stopped = [pane.stop_writing() for pane in self._linked.panes]
            return any(stopped)
        return self.table.stop_reading() if self.table else False

    def leave_row(self) -> bool:
        """Show what the table on screen was opened from. Returns whether it was opened from
        anything.
        """
        return bool(self.table and self.table.leave_row())
