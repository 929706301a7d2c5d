"""This module has the selection, which decides what the linked panes show and which lines are
highlighted in them.

A pane only tells where its cursor went. The other panes are turned to what belongs there, and the
linked lines light up; panes moved by it do not answer back, so there is no loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from fx_explorer.analysis.annotated_regions import RegionKey, has_region, positions_in
from fx_explorer.analysis.documents import (
    Document,
    DocumentKind,
    Place,
    graph_form,
    is_of_graph,
    node_at,
    place_of_row,
)
from fx_explorer.analysis.kernel_documents import kernel_of
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.analysis.selected_nodes import same_place
from fx_explorer.analysis.stage_data import StageWork
from fx_explorer.model import LEVELS, Direction, FrontEnd, Graph, Kernel, Level
from fx_explorer.overview.own_file import own_place
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_ids, first_compilation
from fx_explorer.session.queries.nodes import first_operation
from fx_explorer.tui.content.following import (
    anchor_of,
    compilation_of,
    kernel_following,
    linked_lines,
    seen_above,
    showable_documents,
    turned,
    why_missing,
    with_region,
)
from fx_explorer.tui.content.library_calls import describe_missing_kernel
from fx_explorer.tui.content.long_work import graph_takes_long, is_large_graph, place_in_rows
from fx_explorer.tui.content.presets import (
    PRESETS,
    ShowableDocuments,
    asked_slots,
    document_for,
    first_marked,
    fits,
    shown_parts,
    stage_sources,
)
from fx_explorer.tui.content.shown_levels import BuildWanted, Levels
from fx_explorer.tui.panes.linked_panes import LinkedPanes
from fx_explorer.tui.panes.pane import Pane


class LinkedSelection:
    """Decides what one row of panes shows and highlights, over one session at a time."""

    def __init__(self, linked: LinkedPanes) -> None:
        self._linked = linked
        self._reader: SessionReader | None = None
        self._compilation = 0
        self._showable = ShowableDocuments((), ())
        self._was_touched = False
        self._chosen: Place | None = None
        """The place that the user went to last; None since a stage was shown."""
        self.selection: Place | None = None
        """The place that is highlighted in all panes."""
        self._selected: Selection | None = None
        """The selection with all data computed for it; None after the session has grown."""
        self._looked_at: Selection | None = None
        """The place that was asked for last without being selected; None after the session has
        grown.
        """
        self.region: RegionKey | None = None
        """The region that all graphs are narrowed to."""
        self.levels = Levels()

    # the session

    def open(self, reader: SessionReader) -> None:
        """Show another session. Panes keep their documents and lines if the session has them."""
        old, self._reader = self._reader, reader
        selection, self.selection = self.selection, None
        self._compilation, self._chosen = 0, None
        self.levels.forget()
        self._linked.kernel_marks.forget()
        if self.region and not has_region(reader, self.region):
            self.region = None
        self._linked.forget_stage()
        for pane in self._linked.panes:
            place = pane.place
            if place is None and pane.document:
                place = Place(pane.document)
            self._show_again(pane, old, place, reader)
        if old and selection:
            new_selection = same_place(old, _find_quickly(old, selection), reader)
        else:
            new_selection = None
        if new_selection:
            self._compilation = new_selection.document.compilation
            # Otherwise something is selected, and the cursors go there.
            self.selection = self._chosen = new_selection
        self.refresh()
        if new_selection:
            self.select(new_selection)
        self._linked.refresh_tabs()

    def _show_again(
        self, pane: Pane, old: SessionReader | None, place: Place | None, reader: SessionReader
    ) -> None:
        """Show a place of the earlier session in this one; a large graph as text once that is
        written.
        """
        looked_for = _find_quickly(old, place) if old and place else None
        if old and looked_for:
            same = same_place(old, looked_for, reader)
        else:
            same = None
        if same is None:
            self._show(pane, None, 0)
            return
        self._show(pane, same.document, same.line)
        if place and same.document.kind != place.document.kind:
            self.show_form(pane, place.document.kind)

    @property
    def compilation(self) -> int:
        """Return the id of the compilation on screen; 0 without one."""
        return self._compilation

    def refresh(self) -> None:
        """Update after the session grew. Empty panes are filled; until the user has chosen
        something, the best available documents are shown.
        """
        self._selected = self._looked_at = None
        if self._reader is None:
            return
        self._compilation = self._compilation or first_compilation(self._reader)
        if not self._compilation:
            return
        self._showable = showable_documents(self._reader, self._compilation)
        for pane in self._linked.panes:
            if pane.document is None or (pane.slot and not self._was_touched):
                self._turn(pane, document_for(pane.slot, self._showable))
            pane.annotate(self._reader)
        if self._linked.panes:
            self._linked.kernel_marks.renew(self._reader)
        if self.selection is None or not self._was_touched:
            self._select_something()
        self.refresh_levels()
        self._linked.refresh_tabs()

    # what is shown

    async def show_preset(self, name: str) -> None:
        """Show a preset (source, graph, kernel and the like) for the compilation that the user
        looks at.
        """
        if self._reader and name == "front_ends":
            asked = {row.name for row in self._reader.rows(FrontEnd)}
        else:
            asked = set()
        panes = await self._linked.set_slots(asked_slots(name, asked))
        selection = self.selection
        direction = selection.document.direction if selection else ""
        if self._reader is None:
            return
        self._linked.kernel_marks.renew(self._reader)
        for pane in panes:
            document = document_for(pane.slot, self._showable, direction)
            if pane.slot == "source" and selection and selection.document.kind == "source":
                document = selection.document
            if pane.slot == "neighbourhood" and selection and is_of_graph(selection.document.kind):
                document = graph_form(selection.document, "graph")
            self._show(pane, document, why=why_missing(self._reader, pane.slot, self._compilation))
        if selection:
            self.select(selection)
            self._put_cursors()
        else:
            self._select_something()

    async def show_own_file(self) -> None:
        """Show the user's own file beside graph and kernel, whatever was shown before. The cursor
        stays at a line of it that the user went to; it goes to the most interesting line from
        anywhere else, and when the file is on screen already.
        """
        is_shown = tuple(pane.slot for pane in self._linked.panes) == PRESETS["source"]
        kept = None if is_shown else self._chosen_in_own_file()
        self.selection = self._chosen = kept
        await self.show_preset("source")

    def _chosen_in_own_file(self) -> Place | None:
        """Return the place that the user went to, if it is on a line of the user's own file."""
        if self._reader is None or self._chosen is None:
            return None
        own = own_place(self._reader, self._linked.kernel_marks.heat)
        if own is None:
            return None
        node = node_at(self._reader, self._chosen)
        file = node.file if node else 0
        if self._chosen.document.kind == "source":
            file = self._chosen.document.id
        return self._chosen if file == own.place.document.id else None

    async def show_stage(self, work: StageWork) -> None:
        """Show the documents before and after a stage side by side, with what happened to each
        operation. The panes keep these documents.
        """
        point = work.point
        sources = stage_sources(self._reader, point) if self._reader else ()
        documents = [*sources, *shown_parts(point)]
        panes = await self._linked.set_slots([""] * len(documents))
        self._was_touched, self._chosen = True, None
        for pane, document in zip(panes, documents, strict=True):
            pane.work = work if work.fates and document.kind == "graph" else None
            self._show(pane, document)
        graph = next((document for document in documents if document.kind == "graph"), None)
        if self._reader and documents:
            if graph:
                begins = Place(graph, first_marked(self._reader, graph, work.fates))
            else:
                begins = Place(documents[0])
            self.select(begins)
            self._put_cursors()

    def show_level(self, pane: Pane, level: Level) -> None:
        """Show a level of the current kernel in this pane, at the user's choice."""
        pane.slot = level
        self._was_touched = True
        self._show(pane, None)
        if self.selection:
            self.select(self.selection)
        self._linked.refresh_tabs()

    def show_document(self, pane: Pane, document: Document) -> None:
        """Show a document in this pane, at the user's choice. It stays, whatever is selected."""
        if self._reader is None:
            return
        pane.slot = ""
        self._was_touched = True
        self._show(pane, document)
        self._linked.refresh_tabs()
        if self.selection:
            self.select(self.selection)

    def show_form(self, pane: Pane, form: DocumentKind) -> None:
        """Show the graph of this pane in another form, with the cursor on the same node. The pane
        keeps its slot.
        """
        if self._reader is None or pane.document is None:
            return
        if graph_takes_long(self._reader, graph_form(pane.document, form)):
            pane.write(
                self._reader, graph_form(pane.document, form), partial(self.show_form, pane, form)
            )
            return
        node = node_at(self._reader, pane.place) if pane.place else None
        document = graph_form(pane.document, form)
        line = place_of_row(self._reader, document, node.position).line if node else 0
        self._was_touched = True
        self._show(pane, document, line)
        self._linked.refresh_tabs()
        if self.selection:
            self.select(self.selection)

    async def go(self, place: Place, *, opens: bool = True, version: str = "") -> Pane | None:
        """Show a place with the cursor on it, in the pane that shows its document, else in the best
        pane for it. With ``opens``, what it is folded in is opened. The other panes show the
        compilation called ``version``; with an empty one, the compilation of the place.
        """
        if self._reader is None:
            return None
        if graph_takes_long(self._reader, place.document):
            place = Place(graph_form(place.document, "graph"))
        if not self._linked.panes:
            await self.show_preset("source")
        self._was_touched, self._chosen = True, place
        if self._linked.stage_words.text and place.document not in self._linked.shown_documents:
            await self.show_preset("source")  # what the panes show is no stage any more
        if self.region and self.hides(place):
            self._linked.notify(f"Showing every node again: this one is not in {self.region[1]}.")
            self.narrow(None)
        pane = self._pane_for(place.document)
        if pane.document != place.document:
            pane.slot = pane.slot if fits(pane.slot, place.document) else ""
            self._show(pane, place.document, place.line)
        if opens:
            pane.move_to(place.line)
        else:
            pane.put_cursor(place.line)
        asked = compilation_ids(self._reader, [version]) if version else []
        self.select(place, pane, next(iter(asked), 0))
        return pane

    def _pane_for(self, document: Document) -> Pane:
        panes = self._linked.panes
        showing = [pane for pane in panes if pane.document == document]
        fitting = [pane for pane in panes if fits(pane.slot, document)]
        empty = [pane for pane in panes if pane.document is None]
        active = [self._linked.active] if self._linked.active else []
        return (showing or fitting or empty or active or panes)[0]

    def _turn(self, pane: Pane, document: Document | None) -> None:
        if self._reader is not None and document is not None and document != pane.document:
            self._show(pane, document)
            self._linked.refresh_tabs()

    def _show(self, pane: Pane, document: Document | None, line: int = 0, why: str = "") -> None:
        if self._reader is None:
            return
        if document and graph_takes_long(self._reader, document):
            pane.show(self._reader, graph_form(document, "graph"), region=self.region)
            self.show_form(pane, document.kind)
        else:
            pane.show(self._reader, document, line, why, self.region)

    # narrowed to a region

    def narrow(self, region: RegionKey | None) -> None:
        """Narrow every graph, including those shown later, to the nodes in this region. None shows
        everything again.
        """
        self.region = region
        for pane in self._linked.panes:
            if pane.document and pane.document.kind == "graph":
                line = pane.place.line if pane.place else 0
                self._show(pane, pane.document, line)
                if pane.place is None and pane.slot and self._reader:
                    self._turn(
                        pane,
                        document_for(pane.slot, with_region(self._reader, self._showable, region)),
                    )
        if self.selection:
            self.select(self.selection)
        self._linked.refresh_tabs()

    def hides(self, place: Place) -> bool:
        """Return whether the node at this place is hidden, because its graph is narrowed to a
        region without it.
        """
        if self._reader is None or self.region is None or place.document.kind != "graph":
            return False
        return place.line not in positions_in(self._reader, place.document, self.region)

    def toggle_kernel_marks(self) -> bool:
        """Mark kernels in all panes, or do not any more. Returns whether they are marked now."""
        marks = self._linked.kernel_marks
        marks.is_on = not marks.is_on
        if self._reader is not None and self._linked.panes:
            marks.renew(self._reader)
        for pane in self._linked.panes:
            pane.show_marks_again()
        return marks.is_on

    # what is lit

    def select(self, place: Place, origin: Pane | None = None, compilation: int = 0) -> None:
        """Make ``place`` the selection: panes follow and light up. ``origin`` is the pane it was
        selected in, if any. ``compilation`` is the id of the one to show; 0 for that of the place.
        """
        if self._reader is None:
            return
        self.selection = place
        selected = self._selected = self._selection_of(place, origin)
        self._look_at(compilation or compilation_of(selected, self._compilation))
        panes, shows_levels = self._linked.panes, self._linked.shows_levels
        if shows_levels:
            self.levels.follow(
                self._reader, place, kernel_following(selected, self.levels.kernel, self._showable)
            )
        seen_from = seen_above(selected)
        stands_for_many = origin is not None and len(origin.lines_here) > 1
        shares = self._linked.kernel_marks.shares if stands_for_many else None
        # A kernel goes by the graph beside it, which turns first.
        for pane in sorted(panes, key=lambda pane: pane.slot == "kernel"):
            if pane is not origin and pane.slot and pane.slot not in LEVELS:
                beside = _direction_of_graphs(panes)
                document = turned(
                    seen_from, pane.slot, pane.document, self._showable, beside, shares
                )
                if document and shows_levels:
                    document = self.levels.in_configuration(self._reader, document)
                self._turn(pane, document)
        for pane in panes:
            if pane.slot == "kernel":
                is_elsewhere = pane is not origin
                missing = describe_missing_kernel(seen_from, pane.document) if is_elsewhere else ""
                pane.show_remark(missing)
        fresh = self._turn_levels(origin) if shows_levels else []
        self._light(selected, origin, fresh)

    def _light(self, selected: Selection, origin: Pane | None, fresh: Sequence[Pane]) -> None:
        """Highlight what is linked to the selection in all panes. ``fresh`` are the panes that show
        another level since.
        """
        assert self._reader is not None
        panes = self._linked.panes
        shown = {pane.document for pane in panes if pane.document}
        lit = linked_lines(selected, shown)
        for pane in panes:
            if pane.document:
                is_origin = pane is origin
                if is_origin:
                    lines = lit[pane.document] - {selected.place.line, *pane.lines_here}
                else:
                    lines = lit[pane.document]
                if is_origin:
                    anchor = None
                else:
                    anchor = anchor_of(self._reader, pane.document, pane.shown(lines))
                if pane in fresh and anchor is not None:
                    pane.move_to(
                        anchor
                    )  # what stands above the anchor in assembly is the same in every kernel
                pane.show_links(lines, anchor)

    def _selection_of(self, place: Place, origin: Pane | None) -> Selection:
        """Return the selection of a place, or of the nodes that its row in ``origin`` stands
        for.
        """
        assert self._reader is not None
        lines = origin.lines_here if origin and origin.modules else []
        if len(lines) < 2:
            return Selection(self._reader, place)
        first_node = self._reader.get(Graph, place.document.id).first_node
        return Selection(self._reader, place, nodes=[first_node + line for line in lines])

    def selected_at(self, place: Place) -> Selection | None:
        """Return the Selection of a place; None without a session. The selected place and the place
        of the last call are cached.
        """
        if self._reader is None:
            return None
        for known in (self._selected, self._looked_at):
            if known and known.place == place and known.reader is self._reader:
                return known
        self._looked_at = Selection(self._reader, place)
        return self._looked_at

    # below the kernel

    def refresh_levels(self) -> None:
        """Show the levels again and highlight linked lines, after more was compiled or another
        configuration was chosen.
        """
        if self._linked.shows_levels and self.selection:
            origin = next(
                (pane for pane in self._linked.panes if pane.place == self.selection), None
            )
            self.select(self.selection, origin)

    def show_news(self, news: str) -> None:
        """Show a message about missing levels in panes without a document."""
        self.levels.news = news
        for pane in self._linked.panes:
            if self._reader and pane.document is None and pane.slot in LEVELS:
                pane.show_message(self.levels.words(self._reader, pane.slot))

    def kernel_at(self, place: Place) -> Kernel | None:
        """Return the kernel of a place: its own, or the one that computes it."""
        selected = self.selected_at(place)
        if self._reader is None or selected is None:
            return None
        own_kernel = kernel_of(self._reader, place.document)
        if own_kernel:
            return own_kernel
        if selected is self._selected and not self._linked.shows_levels:
            for pane in self._linked.panes:
                document = pane.document
                if pane.slot == "kernel" and document and document.id in selected.computing:
                    return kernel_of(self._reader, document)
        showable = showable_documents(self._reader, compilation_of(selected, self._compilation))
        document = kernel_following(selected, self.levels.kernel, showable)
        if document and document.id in selected.computing:
            return kernel_of(self._reader, document)
        return None

    def _turn_levels(self, origin: Pane | None) -> list[Pane]:
        """Make panes with levels show the selected kernel. Returns those that changed their
        document.
        """
        if self._reader is None:
            return []
        fresh = []
        for pane in self._linked.panes:
            if pane.slot in LEVELS and pane is not origin:
                document = self.levels.document(self._reader, pane.slot)
                if document:
                    fresh += [pane] * (document != pane.document)
                    self._turn(pane, document)
                else:
                    self._show(pane, None)
                    pane.show_message(self.levels.words(self._reader, pane.slot))
        if self.levels.kernel and self.levels.is_wanting(self._reader):
            # Straight to the app: Textual stops what bubbles at whoever was being called when it
            # was made, here the screen.
            self._linked.app.post_message(
                BuildWanted(self.levels.kernel.id, self.levels.position(self._reader))
            )
        return fresh

    def _look_at(self, compilation: int) -> None:
        if self._reader is not None and compilation != self._compilation:
            self._compilation = compilation
            self._showable = showable_documents(self._reader, compilation)

    def user_selected(self, place: Place, origin: Pane) -> None:
        self._was_touched, self._chosen = True, place
        self.select(place, origin)

    def _select_something(self) -> None:
        """Select the most interesting line of the user's own file, else the first operation, before
        the user selects anything, so that the links are visible at once.
        """
        if self._reader is None or self._select_own():
            return
        for document in self._linked.shown_documents:
            if document.kind == "graph":
                first = first_operation(self._reader, document.id)
                self.select(Place(document, first))
                self._put_cursors()
                return

    def _select_own(self) -> bool:
        """Select the most interesting line of the user's own file, in the pane for sources. Returns
        whether there are both.
        """
        pane = next((pane for pane in self._linked.panes if pane.slot == "source"), None)
        if self._reader is None or pane is None:
            return False
        own = own_place(self._reader, self._linked.kernel_marks.heat)
        if own is None:
            return False
        self._turn(pane, own.place.document)
        self._look_at(own.compilation or self._compilation)
        self.select(own.place)
        self._put_cursors()
        pane.move_to(own.place.line)
        return True

    def _put_cursors(self) -> None:
        """Put the cursors on highlighted lines, so that the first key continues from there."""
        for pane in self._linked.panes:
            if self._reader is not None and pane.document:
                anchor = anchor_of(self._reader, pane.document, pane.lit)
                if anchor is not None:
                    pane.put_cursor(anchor)
        self._linked.refresh_tabs()


def _find_quickly(old: SessionReader, place: Place) -> Place:
    """Return a place in another session without writing a large graph as text."""
    if is_large_graph(old, place.document):
        return place_in_rows(old, place)
    return place


def _direction_of_graphs(panes: Iterable[Pane]) -> Direction:
    """Return the direction of the graphs that are shown; empty where they have none, or both."""
    documents = [pane.document for pane in panes if pane.document]
    directions = {document.direction for document in documents if document.kind == "graph"}
    directions.discard("")
    return directions.pop() if len(directions) == 1 else ""
