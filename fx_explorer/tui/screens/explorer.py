"""The main screen's commands: what each key of commands/ with scope ``explorer`` does."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from textual import on
from textual.message import Message

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place
from fx_explorer.analysis.kernels.kernel_documents import first_statement, gpu_of, is_of_a_library, kernel_document, source_here
from fx_explorer.analysis.links.library_calls import is_call_of, library_at
from fx_explorer.analysis.regions.region_nodes import RegionKey, first_place
from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader
from fx_explorer.tui.assembly.machine_column import NO_MACHINE_WORDS
from fx_explorer.tui.beside import Beside, Made, read_beside
from fx_explorer.tui.bindings import bindings_of
from fx_explorer.tui.commands import Keymap
from fx_explorer.tui.conversation import ask, conversation
from fx_explorer.tui.dialogs.choose import Choice, Chooser, Found, matching, matching_when_read
from fx_explorer.tui.inspector.levels import (
    FIRST_KERNEL,
    INSIDE_A_LIBRARY,
    NO_KERNEL,
    NOT_TRITON,
    OTHER_SOURCE,
    CandidatesWanted,
)
from fx_explorer.tui.panes.overview import FactList
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.screens.frame import ExplorerFrame
from fx_explorer.tui.selection.history import Stop
from fx_explorer.tui.turn_lock import in_turn
from fx_explorer.tui.views.reads import DOCUMENT_READS, FIND_READS
from fx_explorer.tui.widgets.lines.line_view import LineView

if TYPE_CHECKING:
    from fx_explorer.tui.help_topics import Topic
    from fx_explorer.tui.inspector.entry import Entry

LINES_AT_ONCE = 1_000
"""An answer of so many lines is written before the next frame."""

WORDS_OF_GUARDS = "Only checks with these words: a name, a kind, inputs, model.py:31"
WORDS_OF_ROWS = "Only rows with these words, of any column"
NOT_SORTED = (
    "Tables can be sorted (6 lists the kernels, for example), and a graph that is shown as rows by its times, where a profile "
    "(--profile) has any."
)


class Explorer(ExplorerFrame):
    """Shows one session, live or saved."""

    BINDINGS = bindings_of("explorer")

    def __init__(self, keymap: Keymap) -> None:
        super().__init__(keymap)
        self._copying: Beside[str] = Beside(self, "copy", "copy the whole answer")

    class CopyWanted(Message):
        """Asks the app to copy a text: it knows the ways out of the terminal."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class ViewShown(Message):
        """Tells the app that a view was asked for: it may need a stage that is still ahead."""

        def __init__(self, view: str) -> None:
            super().__init__()
            self.view = view

    class EditWanted(Message):
        """Asks the app to open line ``line`` (from 1) of a file of the user's."""

        def __init__(self, path: str, line: int) -> None:
            super().__init__()
            self.path = path
            self.line = line

    def help_topic(self) -> Topic:
        """Return the topic that help is about right now."""
        from fx_explorer.tui.help_topics import topic_of  # not needed for the first paint

        return topic_of("outline" if self.outline.has_focus else self.picture_here or self.view)

    # views and panes

    @in_turn
    async def action_show_view(self, name: str) -> None:
        self.remember()
        await self.show_view(name)
        self.remember()
        self.post_message(self.ViewShown(name))

    @in_turn
    async def action_preset(self, name: str) -> None:
        self.remember()
        await self.show_view("source")
        await self.linked_selection.show_preset(name)
        self.show_outline()
        if self.linked.panes:
            self.linked.activate(self.linked.panes[0])
        self.show_inspector()
        self.remember()

    async def action_below(self) -> None:
        await self.show_below()

    @in_turn
    async def action_candidates(self) -> None:
        """Show all configurations of the kernel that the cursor is on, or all choices for a library
        call.
        """
        kernel = self.library_here() or self.kernel_here()
        if kernel is None:
            return
        self.remember()
        self.linked_selection.levels.choose(kernel)
        self.linked_selection.levels.listed = kernel
        self.progress = ""
        await self.show_view("candidates")
        self.app.post_message(CandidatesWanted(kernel))
        self.remember()

    @in_turn
    async def show_below(self) -> None:
        """Show what is below the kernel of what the cursor is on, or below the configuration that
        it is on.
        """
        chosen = self.candidate_here()
        kernel = self.kernel_below() if chosen is None else self.linked_selection.levels.listed
        if self.reader is None or kernel is None:
            return
        place = self.place or self.linked_selection.selection
        self.linked_selection.levels.choose(kernel, chosen)
        own = self._source_below(self.reader, kernel, place)
        if own is None:
            self.notify(INSIDE_A_LIBRARY)
            return
        self.remember()
        gpu = gpu_of(self.reader)
        await self.show_view("source")
        # What was selected before may be in the kernel's own code, and would select the kernel's
        # own configuration.
        self.linked_selection.selection = own
        await self.linked_selection.show_preset("below_amd" if gpu and gpu.vendor == "amd" else "below")
        pane = await self.linked_selection.go(own)
        self.show_outline()
        if pane:
            self.linked.begin_with(pane)
        build = self.linked_selection.levels.build(self.reader)
        if build and build.source and not build.source_artifact:
            self.notify(OTHER_SOURCE)
        self.show_inspector()
        self.remember()

    def _source_below(self, reader: SessionReader, kernel: model.Kernel, place: Place | None) -> Place | None:
        """Return where the cursor goes in the Triton source of the configuration; None for a
        library call.
        """
        build = self.linked_selection.levels.build(reader)
        if is_of_a_library(kernel, build):
            return None
        document = (source_here(reader, build) if build else None) or kernel_document(reader, kernel)
        return place if place and place.line and place.document == document else first_statement(reader, document)

    def library_here(self) -> model.Kernel | None:
        """Return the library call that the cursor is on, unless a Triton kernel belongs there
        too.
        """
        place = self.place or self.linked_selection.selection
        if self.reader is None or place is None:
            return None
        library = library_at(self.reader, place)
        return library if library and (is_call_of(library, place) or self.linked_selection.kernel_at(place) is None) else None

    def kernel_below(self) -> model.Kernel | None:
        """Return ``kernel_here``; if nothing selected says which kernel, the session's first one,
        and tell the user.
        """
        place = self.place or self.linked_selection.selection
        if self.reader is None or (place and self.linked_selection.kernel_at(place)):
            return self.kernel_here()
        from fx_explorer.analysis.kernels.first_kernel import first_triton_kernel, why_no_triton

        kernel = first_triton_kernel(self.reader, place.document.compilation if place else 0)
        self.notify(FIRST_KERNEL.format(name=kernel.name) if kernel else why_no_triton(self.reader))
        return kernel

    def kernel_here(self) -> model.Kernel | None:
        """Return the Triton kernel of what the cursor is on. Where there is none, tell the user."""
        place = self.place or self.linked_selection.selection
        if self.reader is None:
            return None
        kernel = self.library_here() or (self.linked_selection.kernel_at(place) if place else None)
        if kernel is None:
            self.notify(NO_KERNEL)
        elif kernel.language != "triton":
            self.notify(INSIDE_A_LIBRARY if kernel.language == "extern" else NOT_TRITON.format(language=kernel.language))
            return None
        return kernel

    @conversation("choose document", "choose what a pane shows")
    async def action_pick_document(self) -> None:
        if self.reader is None:
            return
        from fx_explorer.tui.dialogs.choices import pane_choices  # not needed for the first paint

        await self.show_view("source")
        pane = self.linked.active
        if DOCUMENT_READS.takes_long(self.reader):
            reading = asyncio.create_task(read_beside(self.reader.path, pane_choices))
            try:
                document = await ask(self.app, Chooser("Show in this pane", matching_when_read(reading)))
            finally:
                reading.cancel()
        else:
            document = await ask(self.app, Chooser("Show in this pane", matching(pane_choices(self.reader))))
        if pane and document:
            if isinstance(document, Document):
                self.linked_selection.show_document(pane, document)
            else:
                self.linked_selection.show_level(pane, document)
            self.linked.activate(pane)
            self.show_inspector()

    async def action_add_pane(self) -> None:
        await self._add_pane()
        await self.action_pick_document()

    @in_turn
    async def _add_pane(self) -> None:
        await self.show_view("source")
        pane = await self.linked.add()
        self.show_outline()
        self.linked.activate(pane)

    @conversation("only this region", "choose a region to narrow the graphs to")
    async def action_filter_region(self) -> None:
        """Narrow the graphs to a region that the user chooses, or show all of them again."""
        if self.reader is None:
            return
        if self.linked_selection.region:
            self.narrow(None)
            return
        region = await self._choose_region(self.reader)
        if region is None:
            return
        was_elsewhere = self.view != "source"
        await self.show_view("source")
        self.linked_selection.narrow(region)
        graphs = [pane for pane in self.linked.panes if pane.document and pane.document.kind == "graph"]
        first = first_place(self.reader, region)
        if first and all(pane.place is None for pane in graphs):  # another compilation or another variant has the region
            await self.go(first)
        elif graphs and self.linked.active not in graphs and (was_elsewhere or self.linked.is_single):
            self.linked.activate(graphs[0])
        self.show_inspector()

    @conversation("filter rows", "narrow a table by typing")
    async def action_filter_rows(self) -> None:
        """Narrow the table on screen; elsewhere that of the guards, which is the longest."""
        from fx_explorer.tui.screens.table_filter import TableFilter  # not needed for the first paint

        pane = self.table or await self._guards()
        if pane:
            await ask(self.app, TableFilter(pane, WORDS_OF_GUARDS if pane.id == "guards" else WORDS_OF_ROWS))

    async def _guards(self) -> TablePane | None:
        await self.show_view("guards")
        return self.table

    @conversation("sort rows", "choose the column to sort by")
    async def action_sort_rows(self) -> None:
        """Sort the table on screen by a column that the user chooses; the graph of the focused pane by its times in a
        profile.
        """
        pane = self.table
        if pane is None:
            graph = self.linked.active if self.view == "source" else None
            if graph is None or not graph.sort_by_time():
                self.notify(NOT_SORTED)
            return
        sort = pane.sort
        choices = [
            Choice(
                title, f"sorted by it {sort.arrow}: chosen again it turns round" if sort and sort.column == title else "", title
            )
            for title in pane.headings
        ]
        column = await ask(self.app, Chooser("Sort the rows by", matching(choices)))
        if column:
            pane.sort_by(column)

    async def _choose_region(self, reader: SessionReader) -> RegionKey | None:
        """Return the region under the cursor. With none or several there, the user is asked."""
        here = self.regions_here()
        from fx_explorer.tui.dialogs.choices import region_choices  # not needed for the first paint

        choices = region_choices(reader, here)
        if not choices:
            self.notify(
                "No node is in a region. Mark some (c m), or put annotate around your lines: the regions (v r) say how."
            )
            return None
        if len(here) == 1:
            return here[0]
        return await ask(self.app, Chooser("Show only the nodes of", matching(choices)))

    @in_turn
    async def action_close_pane(self) -> None:
        if self.view != "source" or len(self.linked.panes) < 2 or self.linked.active is None:
            self.notify("The last pane stays: choose another document for it, or another view.")
            return
        await self.linked.close(self.linked.active)
        self.show_outline()
        if self.linked.active:
            self.linked.activate(self.linked.active)

    @conversation("compare variants", "choose two variants to compare")
    async def action_compare_variants(self) -> None:
        """Ask which compilations to compare. If there are only two, they are compared at once."""
        from fx_explorer.analysis.comparing.headings import original_first  # not needed for the first paint, all
        from fx_explorer.tui.dialogs.choices import variant_choices
        from fx_explorer.tui.screens.compare import CompareScreen

        variants = self.reader.rows(model.Compilation) if self.reader else []
        if self.reader is None or len(variants) < 2:
            self.notify("There is only one variant so far. Go again from a stage (c a) to have another one to compare it with.")
            return
        chosen = variants if len(variants) == 2 else []
        while len(chosen) < 2:
            title = f"Compare [{chosen[0].name}] with" if chosen else "Compare"
            variant = await ask(self.app, Chooser(title, matching(variant_choices(self.reader, chosen))))
            if variant is None:
                return
            chosen = [*chosen, variant]
        left, right = original_first(*chosen)
        self.app.push_screen(CompareScreen(self.reader, left, right, self.keymap))

    def action_zoom_pane(self) -> None:
        self.linked.toggle_zoom()

    def action_widen_pane(self, cells: int) -> None:
        pane = self.linked.active if self.view == "source" else None
        if pane is None or self.linked.is_single or len(self.linked.panes) < 2:
            self.notify("There is one pane on screen: it has all the room.")
        else:
            self.linked.widen(pane, cells)

    def action_wrap_lines(self) -> None:
        pane = self.linked.active if self.view == "source" else None
        if pane is None:
            self.notify("Lines are wrapped in the linked panes: press 2 to see them.")
        elif pane.document and pane.document.kind == "graph":
            self.notify("A graph is a table: its rows are not wrapped. → shows what is right of the edge.")
        else:
            pane.toggle_wrap()
            self.notify("Long lines go on in the next row." if pane.wraps else "Each line is in one row again.")

    def action_mark_kernels(self) -> None:
        """Mark kernels in the linked panes, or do not any more."""
        is_on = self.linked_selection.toggle_kernel_marks()
        where = "" if self.view == "source" else " in the linked panes: press 2 to see them"
        self.notify(f"Kernels are marked{where}." if is_on else f"Kernels are not marked any more{where}.")

    def action_machine_words(self) -> None:
        """Show or hide what the machine's code says beside each SASS instruction."""
        pane = self.linked.active if self.view == "source" else None
        if pane is None or pane.document is None or pane.document.language != "sass":
            self.notify("Addresses and control bits are SASS's: go to a pane that shows it (p k).")
        elif not pane.toggle_machine_words():
            self.notify(NO_MACHINE_WORDS)

    # moving about

    def action_next_pane(self) -> None:
        self._focus_neighbour(1)

    def action_previous_pane(self) -> None:
        self._focus_neighbour(-1)

    def _focus_stop(self, step: int) -> None:
        """Focus the next of outline, list and detail of a view that is no panes."""
        stops = [one for one in (self.outline, self.body, self.detail) if one is not None and one.display]
        if stops:
            at = next((i for i, one in enumerate(stops) if one.has_focus), -step)
            self.set_focus(stops[(at + step) % len(stops)], scroll_visible=False)

    def _focus_neighbour(self, step: int) -> None:
        """Focus the next of outline and panes, from left to right, and then round again."""
        stops: list[Pane | None] = [None] if self.outline.display else []
        panes = list(self.linked.panes) if self.view == "source" else []
        if not panes:
            self._focus_stop(step)
            return
        stops += panes
        at = 0 if self.outline.has_focus else stops.index(self.linked.active)
        following = stops[(at + step) % len(stops)]
        if following is None:
            self.set_focus(self.outline, scroll_visible=False)
        else:
            self.linked.activate(following)
        self.show_inspector()

    def action_toggle_outline(self) -> None:
        self.outline_wish = not self.outline.display
        self.show_outline()
        if self.outline.display:
            self.set_focus(self.outline, scroll_visible=False)
        elif self.body:
            self.set_focus(self.body, scroll_visible=False)

    async def action_back(self) -> None:
        self._amend()
        await self._return_to(self.history.back(), "This is where you began.")

    async def action_forward(self) -> None:
        self._amend()
        await self._return_to(self.history.forward(), "There is nothing ahead.")

    def _amend(self) -> None:
        """Update the history, so that coming back leads to where the cursor is now."""
        if self.history.current and self.history.current.view == self.view:
            self.history.amend(self.stop())

    @in_turn
    async def _return_to(self, stop: Stop | None, otherwise: str) -> None:
        if stop is None:
            self.notify(otherwise)
            return
        await self.show_view(stop.view)
        if stop.place:
            pane = await self.linked_selection.go(stop.place)
            if pane:
                self.linked.activate(pane)
        self.show_inspector()

    # finding

    def action_find_in_pane(self) -> None:
        view = self.outline if self.outline.has_focus else self.body
        for pane in self.linked.panes:
            if pane.body is view:
                pane.unfold()  # what is folded would not be found
        if view:
            self.find_bar.open(view)

    @conversation("find anything", "find anything in the session")
    async def action_find_anything(self) -> None:
        reader = self.reader
        if reader is None:
            return

        from fx_explorer.tui.dialogs.choices import found_choices  # not needed for the first paint

        def search(typed: str) -> Found[Place] | Awaitable[Found[Place]]:
            look = functools.partial(found_choices, typed=typed)
            return read_beside(reader.path, look) if typed and FIND_READS.takes_long(reader) else look(reader)

        place = await ask(self.app, Chooser("Find a node, kernel, source line or graph break", search))
        if place:
            await self.go(place)

    # the selection

    @on(Pane.Followed)
    @conversation("follow", "follow a link")
    async def follow_links(self, event: Pane.Followed) -> None:
        """Go where a line in a pane is linked to, if it is one place; else let the user choose."""
        if self.reader is None:
            return
        from fx_explorer.tui.inspector import inspect  # not needed for the first paint

        links = [(entry, entry.place) for entry in inspect.links(self.reader, event.place) if entry.place]
        if not links:
            self.notify("This line is linked to nothing: no node comes from it, and nothing was made of it.")
            return
        choices = [Choice(f"{entry.label:<10} {entry.text}", certainty(entry), place) for entry, place in links]
        place = links[0][1] if len(links) == 1 else await ask(self.app, Chooser("Follow", matching(choices)))
        if place:
            await self.go(place)

    @on(Pane.Walked)
    def walked(self, event: Pane.Walked) -> None:
        """Follow the user from one node to another, so that going back leads to the node before."""
        self.history.amend(Stop(self.view, event.before))
        self.pane_moved(event)
        self.remember()

    @conversation("inspect", "show all facts of the selection")
    async def action_inspect(self) -> None:
        place = self.place or self.linked_selection.selection
        if self.reader is None or place is None:
            self.notify("Nothing is selected: go to a line of source, a node or a line of a kernel first.")
            return
        from fx_explorer.tui.inspector import inspect  # not needed for the first paint, both
        from fx_explorer.tui.screens.inspector import Inspector

        chosen = await ask(self.app, Inspector(inspect.entries(self.reader, place)))
        if chosen:
            await self.go(chosen)

    def action_copy(self) -> None:
        view = self.outline if self.outline.has_focus else self.body
        if isinstance(self.focused, LineView):
            view = self.focused  # the focus may also be on the detail below a list
        text = view.text_to_copy() if view else ""
        if not text:
            self.notify("There is nothing to copy here.")
            return
        self.post_message(self.CopyWanted(text))

    def _copy(self, text: str) -> None:
        if text.strip():
            self.post_message(self.CopyWanted(text))
        else:
            self.notify("There is nothing to copy here.")

    def action_copy_kernel(self) -> None:
        place = self.place or self.linked_selection.selection
        kernel = self.linked_selection.kernel_at(place) if self.reader and place else None
        if self.reader is None or kernel is None:
            self.notify(NO_KERNEL)
        else:
            from fx_explorer.tui import copying  # not needed for the first paint

            self._copy(copying.kernel_text(self.reader, kernel))

    def action_copy_node(self) -> None:
        from fx_explorer.tui import copying  # not needed for the first paint

        place = self.place or self.linked_selection.selection
        self._copy(copying.node_text(self.reader, place) if self.reader and place else "")

    def action_copy_answer(self) -> None:
        """Copy what the view says, as markdown."""
        from fx_explorer.tui import copying  # not needed for the first paint

        shown = self._view_widgets.get(self.view)
        if self.reader is None:
            return
        if isinstance(shown, FactList):
            self._copy(copying.facts_markdown(shown.facts))
        elif isinstance(shown, TablePane):
            self._copy_made(shown.answer(self.view), shown.answer_lines)
        elif self.linked.active and self.linked.active.document:
            document = self.linked.active.document
            self._copy_made(functools.partial(copying.document_markdown, document=document), document.line_count)

    def _copy_made(self, make: Callable[[SessionReader], str], lines: int) -> None:
        """Copy a text that is still to be made: beside the screen where it has many lines."""
        if self.reader is None:
            return
        if lines <= LINES_AT_ONCE:
            self._copy(make(self.reader))
            return
        self.notify(f"Copying {counted(lines, 'line')} …")
        self._copying.begin(self.reader.path, make, self._copy_there, lambda _: None)

    def _copy_there(self, made: Made[str]) -> None:
        made.reader.close()
        self._copy(made.value)

    def action_edit(self) -> None:
        if self.reader is None:
            return
        from fx_explorer.tui.inspector import inspect  # not needed for the first paint

        place = self.place or self.linked_selection.selection
        found = inspect.user_line(self.reader, place) if place else None
        if found is None:
            self.notify("No line of your source is known for this.", severity="warning")
            return
        self.post_message(self.EditWanted(*found))


def certainty(entry: Entry) -> str:
    return entry.note if entry.is_certain else f"{entry.note} (not certain)"
