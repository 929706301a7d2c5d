"""Finding text in a pane, and anything in the session."""

from __future__ import annotations

import functools
from collections.abc import Awaitable

from fx_explorer.analysis.documents import Place
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.dialogs.choose import Chooser, Found
from fx_explorer.tui.tasks.beside import read_beside
from fx_explorer.tui.tasks.conversation import ask, conversation
from fx_explorer.tui.views.reads import FIND_READS


class Finder:
    """Opens the bar to find with, and the dialog."""

    def __init__(self, services: Services) -> None:
        self._explorer = services.explorer
        self.app = services.app

    def in_pane(self) -> None:
        explorer = self._explorer
        view = explorer.outline if explorer.outline.has_focus else explorer.views.body
        for pane in explorer.linked.panes:
            if pane.body is view:
                pane.unfold()  # what is folded would not be found
        if view:
            explorer.find_bar.open(view)

    @conversation("find anything", "find anything in the session")
    async def anything(self) -> None:
        reader = self._explorer.reader
        if reader is None:
            return

        from fx_explorer.tui.dialogs.choices import found_choices  # not needed for the first paint

        def search(typed: str) -> Found[Place] | Awaitable[Found[Place]]:
            look = functools.partial(found_choices, typed=typed)
            if typed and FIND_READS.takes_long(reader):
                return read_beside(reader.path, look)
            return look(reader)

        place = await ask(
            self.app, Chooser("Find a node, kernel, line (model.py:12) or graph break", search)
        )
        if place:
            await self._explorer.go(place)
