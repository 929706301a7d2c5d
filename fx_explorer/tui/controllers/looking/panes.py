"""The linked panes: which there are, what they show, and how wide they are."""

from __future__ import annotations

import asyncio

from fx_explorer.analysis.documents import Document
from fx_explorer.tui.assembly import NO_MACHINE_WORDS
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.dialogs.choose import Chooser, matching, matching_when_read
from fx_explorer.tui.tasks.beside import read_beside
from fx_explorer.tui.tasks.conversation import ask, conversation
from fx_explorer.tui.tasks.turn_lock import in_turn
from fx_explorer.tui.views.reads import DOCUMENT_READS


class Panes:
    """Arranges the linked panes, and turns the focused one to another document."""

    def __init__(self, services: Services) -> None:
        self._explorer = services.explorer
        self.app = services.app
        self.turn = services.explorer.turn

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

    @conversation("choose document", "choose what a pane shows")
    async def pick_document(self) -> None:
        explorer = self._explorer
        if explorer.reader is None:
            return
        from fx_explorer.tui.dialogs.choices import pane_choices  # not needed for the first paint

        await explorer.show_view("source")
        pane = explorer.linked.active
        if DOCUMENT_READS.takes_long(explorer.reader):
            reading = asyncio.create_task(read_beside(explorer.reader.path, pane_choices))
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

    async def add(self) -> None:
        """Add a pane, and ask what it shows."""
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
                "The last pane stays: choose another document for it, or another view."
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
            self._explorer.notify("There is one pane on screen: it has all the room.")
        else:
            linked.widen(pane, cells)

    def wrap_lines(self) -> None:
        pane = self._explorer.cursor.pane
        if pane is None:
            self._explorer.notify("Lines are wrapped in the linked panes: press 2 to see them.")
        elif pane.document and pane.document.kind == "graph":
            self._explorer.notify(
                "A graph is a table: its rows are not wrapped. → shows what is right of the edge."
            )
        else:
            pane.toggle_wrap()
            self._explorer.notify(
                "Long lines continue in the next row."
                if pane.wraps
                else "Each line is in one row again."
            )

    def mark_kernels(self) -> None:
        """Mark kernels in the linked panes, or do not any more."""
        is_on = self._explorer.linked_selection.toggle_kernel_marks()
        if self._explorer.view == "source":
            where = ""
        else:
            where = " in the linked panes: press 2 to see them"
        self._explorer.notify(
            f"Kernels are marked{where}." if is_on else f"Kernels are not marked any more{where}."
        )

    def machine_words(self) -> None:
        """Show or hide what the machine's code says beside each SASS instruction."""
        pane = self._explorer.cursor.pane
        if pane is None or pane.document is None or pane.document.language != "sass":
            self._explorer.notify(
                "Addresses and control bits are SASS's: go to a pane that shows it (p k)."
            )
        elif not pane.toggle_machine_words():
            self._explorer.notify(NO_MACHINE_WORDS)
