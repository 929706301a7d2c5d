"""What can be asked of what the cursor is on: where it is linked to, all facts of it, and the
user's line for an editor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fx_explorer.errors import FxExplorerError
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.tasks.conversation import ask, conversation
from fx_explorer.tui.terminal import editing

if TYPE_CHECKING:
    from fx_explorer.tui.inspector.entry import Entry

READ_S = 8


class Selected:
    """Follows, inspects and edits the selection."""

    def __init__(self, services: Services) -> None:
        self._explorer = services.explorer
        self.app = services.app

    @conversation("follow", "follow a link")
    async def follow(self, event: Pane.Followed) -> None:
        """Go where a line in a pane is linked to, if it is one place; else let the user choose."""
        reader = self._explorer.reader
        if reader is None:
            return
        from fx_explorer.tui.inspector import inspect  # not needed for the first paint

        links = [
            (entry, entry.place) for entry in inspect.links(reader, event.place) if entry.place
        ]
        if not links:
            self._explorer.notify("No graph node comes from this line.")
            return
        choices = [
            Choice(f"{entry.label:<10} {entry.text}", certainty(entry), place)
            for entry, place in links
        ]
        place = (
            links[0][1]
            if len(links) == 1
            else await ask(self.app, Chooser("Follow", matching(choices)))
        )
        if place:
            await self._explorer.go(place)

    @conversation("inspect", "show all facts of the selection")
    async def inspect(self) -> None:
        reader, place = self._explorer.reader, self._explorer.cursor.place_or_selection
        if reader is None or place is None:
            self._explorer.notify(
                "Nothing is selected: go to a line of source, a node or a line of a kernel first."
            )
            return
        from fx_explorer.tui.inspector import inspect  # not needed for the first paint, both
        from fx_explorer.tui.screens.inspector import Inspector

        time = self._explorer.linked.kernel_marks.time_of_node(reader, place)
        chosen = await ask(self.app, Inspector(inspect.entries(reader, place, time)))
        if chosen:
            await self._explorer.go(chosen)

    def edit(self) -> None:
        """Open the user's line that this came from in their editor."""
        reader, place = self._explorer.reader, self._explorer.cursor.place_or_selection
        if reader is None:
            return
        from fx_explorer.tui.inspector import inspect  # not needed for the first paint

        found = inspect.user_line(reader, place) if place else None
        if found is None:
            self._explorer.notify("No line of your source is known for this.", severity="warning")
            return
        try:
            editing.edit(self.app, *found)
        except FxExplorerError as error:
            self._explorer.notify(str(error), severity="warning", timeout=READ_S)


def certainty(entry: Entry) -> str:
    return entry.note if entry.is_certain else f"{entry.note} (not certain)"
