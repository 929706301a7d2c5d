"""Narrowing every view to one region or module, and showing everything again.

Tables say which of their rows belong to it (``Table.within``); of a graph,
``selection/shown_lines.py`` knows which of its lines a pane shows.
"""

from __future__ import annotations

from fx_explorer.analysis.regions.region_nodes import RegionKey, first_place
from fx_explorer.session import SessionReader
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.dialogs.choose import Chooser, matching
from fx_explorer.tui.tasks.conversation import ask, conversation

NO_REGION = (
    "No node is in a region. Mark some (c m), or put annotate around your lines: the regions "
    "(v r) say how."
)


class Narrowing:
    """Narrows to the region under the cursor, or to one that the user chooses."""

    def __init__(self, services: Services) -> None:
        self._explorer = services.explorer
        self.app = services.app

    @conversation("only this region", "choose a region to narrow the graphs to")
    async def turn(self) -> None:
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
        """Return the region under the cursor. With none or several there, the user is asked."""
        here = self._explorer.cursor.regions(reader)
        from fx_explorer.tui.dialogs.choices import region_choices  # not needed for the first paint

        choices = region_choices(reader, here)
        if not choices:
            self._explorer.notify(NO_REGION)
            return None
        if len(here) == 1:
            return here[0]
        return await ask(self.app, Chooser("Show only the nodes of", matching(choices)))
