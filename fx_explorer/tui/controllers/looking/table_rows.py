"""The rows of a table: which of them are shown, and in what order."""

from __future__ import annotations

from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.tasks.conversation import ask, conversation

WORDS_OF_GUARDS = "Only checks with these words: a name, a kind, inputs, model.py:31"
WORDS_OF_ROWS = "Only rows with these words, of any column"


class TableRows:
    """Narrows and sorts the table on screen."""

    def __init__(self, services: Services) -> None:
        self._explorer = services.explorer
        self.app = services.app

    @conversation("filter rows", "narrow a table by typing")
    async def filter(self) -> None:
        """Narrow the table on screen; elsewhere that of the guards, which is the longest."""
        from fx_explorer.tui.screens.table_filter import TableFilter  # not needed for the first paint

        pane = self._explorer.table or await self._guards()
        if pane:
            await ask(self.app, TableFilter(pane, WORDS_OF_GUARDS if pane.id == "guards" else WORDS_OF_ROWS))

    async def _guards(self) -> TablePane | None:
        await self._explorer.show_view("guards")
        return self._explorer.table

    @conversation("sort rows", "choose the column to sort by")
    async def sort(self) -> None:
        """Sort the table on screen by a column that the user chooses."""
        pane = self._explorer.table
        if pane is None:
            self._explorer.notify("Only tables can be sorted: the kernels (6), for example.")
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
