"""Mending from the keyboard: what may take the graph break under the cursor away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from textual import work

from fx_explorer.tui.changing import ChangingApp

if TYPE_CHECKING:
    from fx_explorer.mending import TryMend

NO_BREAK = "Mends are for graph breaks: go to one in this list. For a recompile, What to do says what avoids it."


class MendingApp(ChangingApp):
    """Looks for mends, and shows them."""

    try_mend: TryMend | None = None
    """What tries a mend; None: a worker in the interpreter that the app itself runs in."""

    @work(name="mends", group="choose", exclusive=True, description="look for what may take a graph break away")
    async def action_show_mends(self) -> None:
        """Works on a saved session too: proposing runs nothing."""
        from fx_explorer import mending
        from fx_explorer.tui.screens.mends import MendScreen  # not needed for the first paint: libcst is loaded with it

        explorer = self.explorer
        if explorer.view != "breaks":
            await explorer.action_show_view("breaks")
        found = explorer.breaks_here()
        if not found or explorer.reader is None:
            self.notify(NO_BREAK)
            return
        offer = await asyncio.to_thread(mending.offer, explorer.reader.path, found[0])
        if offer.mends:
            await self.push_screen_wait(MendScreen(offer, self.try_mend or mending.try_mend, explorer.keymap))
        else:
            self.notify(offer.why_none, title="no mend", timeout=15)
