"""This module lets the user choose what the panes show, and how: the linked panes side by side, the
form of a graph in one, the region to which every view is narrowed, and the rows of a table.

Tables say which of their rows belong to a region (``Table.within``); of a graph,
``content/shown_lines.py`` knows which of its lines a pane shows.
"""

from __future__ import annotations

import asyncio

from textual.widgets import Input

from fx_explorer.analysis.annotated_regions import RegionKey, first_place
from fx_explorer.analysis.documents import Document, DocumentKind, is_of_graph
from fx_explorer.analysis.graph_texts import forms_of
from fx_explorer.plugin_loading import why_off
from fx_explorer.session import SessionReader
from fx_explorer.tui.background_tasks import read_in_thread
from fx_explorer.tui.content.long_work import DOCUMENT_READS
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.conversation import ask, conversation, in_turn
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching, matching_when_read
from fx_explorer.tui.dialogs.dialog import Ask
from fx_explorer.tui.panes.assembly import NO_MACHINE_WORDS
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.screens.explorer import Explorer

NO_GRAPH = (
    "First go to a pane that shows a graph: this key works on the graph of a pane. (p d chooses "
    "one, v a lists all.)"
)

NO_PLUGIN_VIEW = "No installed plug-in adds a view. fx-explorer doctor lists the plug-ins."

NO_ROWS = "The picture has no rows to fold: p d shows the graph, and p f folds it."

ONE_REGION = (
    "The graphs are narrowed to one region: esc shows everything again, then p f folds a graph by "
    "module."
)

NO_REGION = (
    "No node is in a region. Mark some nodes (c m), or put annotate around your lines; the "
    "regions (v r) explain how."
)

NOT_SORTED = (
    "Tables can be sorted (6 lists the kernels, for example), and a graph that is shown as rows "
    "can be sorted by its times if a profile (--profile) has any."
)

WORDS_OF_GUARDS = "Only checks with these words: a name, a kind, inputs, model.py:31"
WORDS_OF_ROWS = "Only rows with these words, of any column"


class Panes:
    """Arranges the linked panes, sets what each of them shows, and narrows and sorts what is on
    screen.
    """

    def __init__(self, services: Services) -> None:
        self._explorer = services.explorer
        self.app = services.app
        self.turn = services.explorer.turn

    # which panes there are, and how wide

    @in_turn
    async def preset(self, name: str) -> None:
        """Show panes that go together: source, graph and kernel, and the like."""
        explorer = self._explorer
        explorer.remember()
        await explorer.show_view("source")
        await explorer.linked_selection.show_preset(name)
        explorer.show_outline()
        if explorer.linked.panes:
            explorer.linked.activate(explorer.linked.panes[0])
        explorer.show_inspector()
        explorer.remember()

    async def add(self) -> None:
        """Add a pane, and ask for its content."""
        await self._add()
        await self.pick_document()

    @in_turn
    async def _add(self) -> None:
        await self._explorer.show_view("source")
        pane = await self._explorer.linked.add()
        self._explorer.show_outline()
        self._explorer.linked.activate(pane)

    @in_turn
    async def close(self) -> None:
        linked = self._explorer.linked
        if self._explorer.view != "source" or len(linked.panes) < 2 or linked.active is None:
            self._explorer.notify(
                "The last pane cannot be closed: choose another document for it, or another view."
            )
            return
        await linked.close(linked.active)
        self._explorer.show_outline()
        if linked.active:
            linked.activate(linked.active)

    def zoom(self) -> None:
        self._explorer.linked.toggle_zoom()

    def widen(self, cells: int) -> None:
        pane, linked = self._explorer.cursor.pane, self._explorer.linked
        if pane is None or linked.is_single or len(linked.panes) < 2:
            self._explorer.notify("The only pane already has all the room.")
        else:
            linked.widen(pane, cells)

    # what a pane shows

    @conversation("choose document", "choose what a pane shows")
    async def pick_document(self) -> None:
        explorer = self._explorer
        if explorer.reader is None:
            return
        from fx_explorer.tui.dialogs.choose import pane_choices  # not needed for the first paint

        await explorer.show_view("source")
        pane = explorer.linked.active
        if DOCUMENT_READS.takes_long(explorer.reader):
            reading = asyncio.create_task(read_in_thread(explorer.reader.path, pane_choices))
            try:
                document = await ask(
                    self.app, Chooser("Show in this pane", matching_when_read(reading))
                )
            finally:
                reading.cancel()
        else:
            document = await ask(
                self.app, Chooser("Show in this pane", matching(pane_choices(explorer.reader)))
            )
        if pane and document:
            if isinstance(document, Document):
                explorer.linked_selection.show_document(pane, document)
            else:
                explorer.linked_selection.show_level(pane, document)
            explorer.linked.activate(pane)
            explorer.show_inspector()

    def toggle_wrap(self) -> None:
        pane = self._explorer.cursor.pane
        if pane is None:
            self._explorer.notify("Lines are wrapped in the linked panes: press 2 to see them.")
        elif pane.document and pane.document.kind == "graph":
            self._explorer.notify(
                "A graph is a table: its rows are not wrapped. → scrolls to the right."
            )
        else:
            pane.toggle_wrap()
            if pane.wraps:
                self._explorer.notify("Long lines are wrapped.")
            else:
                self._explorer.notify("Long lines are no longer wrapped.")

    def toggle_kernel_marks(self) -> None:
        """Mark kernels in the linked panes, or do not any more."""
        is_on = self._explorer.linked_selection.toggle_kernel_marks()
        if self._explorer.view == "source":
            where = ""
        else:
            where = " in the linked panes: press 2 to see them"
        if is_on:
            self._explorer.notify(f"Kernels are marked{where}.")
        else:
            self._explorer.notify(f"Kernels are no longer marked{where}.")

    def toggle_machine_words(self) -> None:
        """Show or hide the decoded control bits beside each SASS instruction."""
        pane = self._explorer.cursor.pane
        if pane is None or pane.document is None or pane.document.language != "sass":
            self._explorer.notify(
                "Only SASS has addresses and control bits: go to a pane that shows it (p k)."
            )
        elif not pane.toggle_machine_words():
            self._explorer.notify(NO_MACHINE_WORDS)

    def next_graph_form(self) -> None:
        """Show the graph in the next of its forms, with the cursor on the same node."""
        pane = focused_graph(self._explorer)
        if pane and pane.document:
            self._explorer.linked_selection.show_form(pane, _next_form(pane.document))

    def fold_modules(self) -> None:
        """Fold the graph in the focused pane by module, or show every node again."""
        pane = focused_graph(self._explorer)
        if pane is None or pane.document is None:
            return
        if pane.picture:
            self._explorer.notify(NO_ROWS)
        elif self._explorer.linked_selection.region:
            self._explorer.notify(ONE_REGION)
        else:
            if pane.document.kind != "graph":
                self._explorer.linked_selection.show_form(pane, "graph")
            pane.fold_modules()
            self._explorer.show_inspector()

    # what plug-ins add

    @conversation("views of plug-ins", "choose a view of a plug-in")
    async def show_plugin_view(self) -> None:
        """Show the view that a plug-in adds; ask which if there are several."""
        from fx_explorer.overview.plugin_tables import plugin_views  # not for the first paint

        views = plugin_views()
        if not views:
            reason = why_off()
            self._explorer.notify(f"No plug-in is used: {reason}." if reason else NO_PLUGIN_VIEW)
            return
        name: str | None = views[0].name
        if len(views) > 1:
            choices = [Choice(view.title, view.shows, view.name) for view in views]
            name = await ask(self.app, Chooser("Show the view", matching(choices)))
        if name:
            self._explorer.remember()
            await self._explorer.show_view(name)
            self._explorer.remember()

    # one region, or everything

    @conversation("only this region", "choose a region to narrow the graphs to")
    async def narrow_to_region(self) -> None:
        """Narrow the graphs to a region that the user chooses, or show all of them again."""
        explorer = self._explorer
        if explorer.reader is None:
            return
        if explorer.linked_selection.region:
            explorer.narrow(None)
            return
        region = await self._choose_region(explorer.reader)
        if region is None:
            return
        was_elsewhere = explorer.view != "source"
        await explorer.show_view("source")
        explorer.linked_selection.narrow(region)
        linked = explorer.linked
        graphs = [pane for pane in linked.panes if pane.document and pane.document.kind == "graph"]
        first = first_place(explorer.reader, region)
        if first and all(
            pane.place is None for pane in graphs
        ):  # another compilation or another variant has the region
            await explorer.go(first)
        elif graphs and linked.active not in graphs and (was_elsewhere or linked.is_single):
            linked.activate(graphs[0])
        explorer.show_inspector()

    async def _choose_region(self, reader: SessionReader) -> RegionKey | None:
        """Return the region under the cursor. If there is none or several, ask the user."""
        here = self._explorer.cursor.regions(reader)
        from fx_explorer.tui.dialogs.choose import region_choices  # not needed for the first paint

        choices = region_choices(reader, here)
        if not choices:
            self._explorer.notify(NO_REGION)
            return None
        if len(here) == 1:
            return here[0]
        return await ask(self.app, Chooser("Show only the nodes of", matching(choices)))

    # the rows of a table

    @conversation("filter rows", "narrow a table by typing")
    async def filter_rows(self) -> None:
        """Narrow the table on screen; elsewhere that of the guards, which is the longest."""

        pane = self._explorer.table or await self._guards()
        if pane:
            words = WORDS_OF_GUARDS if pane.id == "guards" else WORDS_OF_ROWS
            await ask(self.app, TableFilter(pane, words))

    async def _guards(self) -> TablePane | None:
        await self._explorer.show_view("guards")
        return self._explorer.table

    @conversation("sort rows", "choose the column to sort by")
    async def sort_rows(self) -> None:
        """Sort the table on screen by a column that the user chooses; the graph of the focused pane
        by its times in a profile.
        """
        pane = self._explorer.table
        if pane is None:
            if self._explorer.view == "source":
                graph = self._explorer.linked.active
            else:
                graph = None
            if graph is None or not graph.sort_by_time():
                self._explorer.notify(NOT_SORTED)
            return
        sort = pane.sort
        choices = []
        for title in pane.headings:
            if sort and sort.column == title:
                detail = f"sorted by it {sort.arrow}: choose it again to reverse the order"
            else:
                detail = ""
            choices.append(Choice(title, detail, title))
        column = await ask(self.app, Chooser("Sort the rows by", matching(choices)))
        if column:
            pane.sort_by(column)


def _next_form(document: Document) -> DocumentKind:
    """Return the form of a graph after the one that is shown: rows, code, table, and those of
    plug-ins.
    """
    forms: list[DocumentKind] = ["graph", *forms_of(document.stage)]
    if document.kind not in forms:
        return "graph"
    return forms[(forms.index(document.kind) + 1) % len(forms)]


def focused_graph(explorer: Explorer) -> Pane | None:
    """Return the pane with the focus, if it shows a graph; if not, tell the user."""
    pane = explorer.linked.active if explorer.view == "source" else None
    if pane is None or pane.document is None or not is_of_graph(pane.document.kind):
        explorer.notify(NO_GRAPH)
        return None
    return pane


class TableFilter(Ask):
    """An input line at the bottom that narrows the list above it. Enter keeps the narrowed list,
    escape shows all rows again.
    """

    DEFAULT_CSS = """
    TableFilter { align: center bottom; background: $background 0%; }
    """

    def __init__(self, pane: TablePane, words: str) -> None:
        super().__init__(words, pane.narrowed_to, verb="keeps")
        self._pane = pane

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._pane.narrow(event.value.strip())

    def action_leave(self) -> None:
        self._pane.narrow("")
        super().action_leave()
