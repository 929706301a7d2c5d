"""Mending from the keyboard: what may take the graph break under the cursor away."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.conversation import ask, conversation

if TYPE_CHECKING:
    from fx_explorer.mending import Figures, Mend, Trial, TryMend
    from fx_explorer.model import CaptureRequest

NO_BREAK = "There is nothing here to mend: this list is empty."


class Fixes:
    """Looks for mends, and shows them."""

    def __init__(self, services: Services, try_mend: TryMend | None) -> None:
        """``try_mend``: what tries a mend; None: a worker in the interpreter that the app itself runs in."""
        self._services = services
        self.app = services.app
        self._try_mend = try_mend
        self._trials: dict[Path, list[Trial]] = {}
        """By session."""

    @conversation("mends", "look for what may take a graph break away")
    async def show(self) -> None:
        """Works on a saved session too: proposing runs nothing."""
        from fx_explorer import mending
        from fx_explorer.tui.screens.mends import MendScreen  # not needed for the first paint: libcst is loaded with it
        from fx_explorer.tui.views.breaks import subjects

        explorer = self._services.explorer
        if explorer.view != "breaks":
            await explorer.action_show_view("breaks")
        found = subjects(explorer.reader)[explorer.row_of_breaks() :][:1] if explorer.reader else []
        if not found or explorer.reader is None:
            self._services.notify(NO_BREAK)
            return
        offer = await asyncio.to_thread(mending.offer, explorer.reader.path, found[0])
        if offer.mends:
            trials = self._trials.setdefault(explorer.reader.path, [])
            await ask(
                self.app, MendScreen(offer, self._asking_first(self._try_mend or mending.try_any), trials, explorer.keymap)
            )
        else:
            self._services.notify(offer.why_none, title="no mend", timeout=15)

    def _asking_first(self, try_mend: TryMend) -> TryMend:
        """A trial runs the program that the session names, with source files of the session in place of those on disk."""

        async def try_after_asking(request: CaptureRequest, mend: Mend, before: Figures) -> Trial:
            await self._services.ask_to_run()
            return await try_mend(request, mend, before)

        return try_after_asking
