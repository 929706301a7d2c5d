"""The rows of a table: which of them are shown, and in what order."""

from __future__ import annotations

from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.tasks.conversation import ask, conversation

WORDS_OF_GUARDS = "Only checks with these words: a name, a kind, inputs, model.py:31"
NOT_SORTED = (
    "Tables can be sorted (6 lists the kernels, for example), and a graph that is shown "
    "as rows by its times, where a profile "
    "(--profile) has any."
)
WORDS_OF_ROWS = "Only rows with these words, of any column"


class TableNarrowing:
    """Narrows and sorts the table on screen."""

    def __init__(self, services: Services) -> None:
        self._explorer = services.explorer
        self.app = services.app

    @conversation("filter rows", "narrow a table by typing")
    async def filter(self) -> None:
        """Narrow the table on screen; elsewhere that of the guards, which is the longest."""
        from fx_explorer.tui.screens.table_filter import (
            TableFilter,
        )  # not needed for the first paint

        pane = self._explorer.table or await self._guards()
        if pane:
            await ask(
                self.app,
                TableFilter(pane, WORDS_OF_GUARDS if pane.id == "guards" else WORDS_OF_ROWS),
            )

    async def _guards(self) -> TablePane | None:
        await self._explorer.show_view("guards")
        return self._explorer.table

    @conversation("sort rows", "choose the column to sort by")
    async def sort(self) -> None:
        """Sort the table on screen by a column that the user chooses; the graph of the focused pane
        by its times in a profile.
        """
        pane = self._explorer.table
        if pane is None:
            graph = self._explorer.linked.active if self._explorer.view == "source" else None
            if graph is None or not graph.sort_by_time():
                self._explorer.notify(NOT_SORTED)
            return
        sort = pane.sort
        choices = [
            Choice(
                title,
                f"sorted by it {sort.arrow}: chosen again it turns round"
                if sort and sort.column == title
                else "",
                title,
            )
            for title in pane.headings
        ]
        column = await ask(self.app, Chooser("Sort the rows by", matching(choices)))
        if column:
            pane.sort_by(column)
