"""This module holds the views to the right of the outline: which one is on screen, and which of its
parts has the focus. The outline is read in the background, and gets the room that the views leave.

``Cursor`` knows what the cursor is on: a place, a break, a region or a configuration, in any
focused widget; the line at the bottom describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

from fx_explorer.analysis.annotated_regions import RegionKey, regions, regions_at
from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.kernel_documents import builds_here
from fx_explorer.analysis.selected_nodes import library_at
from fx_explorer.drawing.view_table import ViewTable
from fx_explorer.highlight import printable
from fx_explorer.overview.outline import OutlineEntry, kernels_below, outline
from fx_explorer.session import SessionReader
from fx_explorer.tui.background_tasks import BackgroundTask, Renewed
from fx_explorer.tui.commands import OF_A_PLACE, OF_TRITON, sentence_of
from fx_explorer.tui.content.long_work import OUTLINE_READS, UNREADABLE
from fx_explorer.tui.failures import explained
from fx_explorer.tui.panes.first_page import FirstPage
from fx_explorer.tui.panes.linked_panes import LinkedPanes
from fx_explorer.tui.panes.linked_selection import LinkedSelection
from fx_explorer.tui.panes.overview_pane import FactList, leads_to
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.panes.titles import OldFiles
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.one_line import Cached, OneLine
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
        from fx_explorer.overview.view_tables import TABLES  # not needed for the first paint: 20 ms
        from fx_explorer.tui.content.long_work import PLUGIN_READS, READS

        if name in TABLES:
            pane = TablePane(TABLES[name], READS.get(name), id=name)
        elif name == "candidates":
            pane = TablePane(self._make_candidates, id=name)
        else:
            from fx_explorer.overview.plugin_tables import table_of_plugin

            pane = TablePane(partial(table_of_plugin, name), PLUGIN_READS, id=name)
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


class Cursor:
    """Finds what the cursor of the main screen is on: a place, a break, a region or a
    configuration.
    """

    def __init__(
        self,
        outline: Outline,
        views: Views,
        facts: FactList,
        linked: LinkedPanes,
        linked_selection: LinkedSelection,
    ) -> None:
        self._outline = outline
        self._views = views
        self._facts = facts
        self._linked = linked
        self._linked_selection = linked_selection

    @property
    def place(self) -> Place | None:
        """Return the place under the cursor of the focused widget."""
        if self._outline.has_focus:
            return self._outline.place
        shown = self._views.shown
        if isinstance(shown, FirstPage):
            if shown.source.body.has_focus:
                return shown.source.place
            return self._facts.fact.place if self._facts.fact else None
        if isinstance(shown, TablePane):
            return shown.place
        if self._linked.active:
            return self._linked.active.place
        return None

    @property
    def version(self) -> str:
        """Return the name of the compilation that the row under the cursor of a table is of, such
        as ``0/1``; empty without one.
        """
        shown = self._views.shown
        if isinstance(shown, TablePane) and not self._outline.has_focus:
            return shown.version
        return ""

    @property
    def place_or_selection(self) -> Place | None:
        """Return the place under the cursor; without one, the selection in the linked panes."""
        return self.place or self._linked_selection.selection

    @property
    def compilation(self) -> int:
        """Return the id of the compilation under the cursor; 0 without one."""
        if self._outline.has_focus:
            return self._outline.compilation
        place = self.place
        compilation = place.document.compilation if place else 0
        return compilation or self._linked_selection.compilation

    @property
    def pane(self) -> Pane | None:
        """Return the linked pane that receives keys; None in another view."""
        if self._views.name_shown == "source":
            return self._linked.active
        return None

    @property
    def part(self) -> str:
        """Return the part of the linked panes that has its own keys and help: ``neighbourhood`` if
        it has the focus, ``below`` if levels below a kernel are shown; else empty.
        """
        if self.pane is None:
            return ""
        if self.pane.picture:
            return "neighbourhood"
        return "below" if self._linked.shows_levels else ""

    @property
    def selected_lines(self) -> list[int]:
        """Return the lines that are selected with the mouse in the document of ``place``."""
        if self.pane and not self._outline.has_focus:
            return self.pane.selected
        return []

    def regions(self, reader: SessionReader) -> list[RegionKey]:
        """Return the regions that the row or node under the cursor belongs to."""
        table = self._views.table
        if self._views.name_shown == "regions" and table and not self._outline.has_focus:
            return [(region.key, region.value) for region in regions(reader)[table.position :][:1]]
        if self.place:
            return regions_at(reader, self.place)
        return []

    def row_of_breaks(self) -> int:
        """Return the row that the cursor is on in the list of breaks."""
        table = self._views.table_of("breaks")
        return table.position if table else 0

    @property
    def place_of_shown_break(self) -> Place | None:
        """Return the line of the break under the overview's cursor; None in another view, and on
        another fact.
        """
        on_it = (
            self._views.name_shown == "overview" and self._facts.is_on_a_break and self._facts.fact
        )
        return on_it.place if on_it else None

    def candidate(self, reader: SessionReader) -> int | None:
        """Return the configuration that the cursor is on, in the view of configurations."""
        table = self._views.table
        if self._views.name_shown != "candidates" or not table or self._outline.has_focus:
            return None
        kernel = self._linked_selection.levels.listed
        rows = builds_here(reader, kernel) if kernel else []
        if table.position < len(rows):
            return rows[table.position].position
        return None

    def idle_commands(self) -> tuple[str, ...]:
        """Return the view's commands that do nothing for the row under the cursor."""
        view, place = self._views.name_shown, self.place
        if view == "overview":
            if self._facts.is_on_a_break:
                return ()
            return ("breaks.fix",)
        if view not in ("breaks", "guards", "kernels", "sizes", "source"):
            return ()
        if place is None:
            return () if view == "source" else (*OF_A_PLACE, "line.follow")
        if view in ("kernels", "source"):
            return self._idle_for_kernel(place)
        return ()

    def _idle_for_kernel(self, place: Place) -> tuple[str, ...]:
        """Return the commands for a Triton kernel, where another kernel, or a library call without
        other choices, computes a place.
        """
        selected = self._linked_selection.selected_at(place)
        kernel = self._linked_selection.kernel_at(place)
        if selected is None or (kernel is None and not selected.computing):
            return ()
        if kernel is not None and kernel.language == "triton":
            return ()
        library = library_at(selected.reader, place) if kernel is None else None
        if library and builds_here(selected.reader, library):
            return tuple(command for command in OF_TRITON if command != "view.candidates")
        return OF_TRITON


class InspectorLine(OneLine):
    """Shows the selection in one line: ``erf · aten.erf.default · f32[4, 64] …`` for a node."""

    DEFAULT_CSS = """
    InspectorLine { background: $surface; color: $text-muted; }
    """

    def show_cursor(
        self,
        place: Place | None,
        outline: Outline,
        views: Views,
        linked: LinkedPanes,
        linked_selection: LinkedSelection,
    ) -> None:
        """Describe what the cursor is on. It takes 1 ms, and is painted in the same frame as the
        highlights.
        """
        shown = views.shown
        if outline.has_focus:
            self.show(Content(printable(outline.text)))
        elif isinstance(shown, FirstPage) and shown.facts.fact:
            lead = leads_to(shown.facts.fact)
            sentence = f"⏎ {lead}" if lead else sentence_of(views.name_shown)
            self.show(Content(sentence))
        elif place and (selection := linked_selection.selected_at(place)):
            with explained(self):
                costs = linked.kernel_marks.words(selection.place)
                from fx_explorer.tui.content.place_summary import (
                    summary,  # not needed for the first paint
                )

                active = linked.active
                of_row = active.facts_here if active else []
                here, *facts = of_row or summary(selection) or [""]
                change = active.change if active else ""
                facts = [*filter(None, (change, costs)), *facts]
                self.show(inspector_content([here, *facts]))
        else:
            self.show(Content(sentence_of(views.name_shown)))


def inspector_content(parts: Sequence[str]) -> Content:
    """Return ``erf · aten.erf.default · f32[4, 64] …`` with the first part standing out."""
    if not parts:
        return Content("")
    separator = Content.styled(" · ", "$text-disabled")
    return separator.join(
        [
            Content.styled(printable(parts[0]), "bold $foreground"),
            *(Content(printable(p)) for p in parts[1:]),
        ]
    )
