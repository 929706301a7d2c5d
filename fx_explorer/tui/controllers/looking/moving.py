"""Moving the focus from one part of the main screen to the next, and going back to where the user
was.
"""

from __future__ import annotations

from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.selection.history import Stop
from fx_explorer.tui.tasks.turn_lock import in_turn


class Moving:
    """Moves about on the main screen."""

    def __init__(self, services: Services) -> None:
        self._explorer = services.explorer
        self.turn = services.explorer.turn

    # the focus

    def next_pane(self) -> None:
        self._focus_neighbour(1)

    def previous_pane(self) -> None:
        self._focus_neighbour(-1)

    def _focus_neighbour(self, step: int) -> None:
        """Focus the next of outline and panes, from left to right, and then round again."""
        explorer = self._explorer
        stops: list[Pane | None] = [None] if explorer.outline.display else []
        panes = list(explorer.linked.panes) if explorer.view == "source" else []
        if not panes:
            self._focus_stop(step)
            return
        stops += panes
        at = 0 if explorer.outline.has_focus else stops.index(explorer.linked.active)
        following = stops[(at + step) % len(stops)]
        if following is None:
            explorer.set_focus(explorer.outline, scroll_visible=False)
        else:
            explorer.linked.activate(following)
        explorer.show_inspector()

    def _focus_stop(self, step: int) -> None:
        """Focus the next of outline, list and detail of a view that is no panes."""
        explorer = self._explorer
        parts = (explorer.outline, explorer.views.body, explorer.views.detail)
        stops = [one for one in parts if one is not None and one.display]
        if stops:
            at = next((i for i, one in enumerate(stops) if one.has_focus), -step)
            explorer.set_focus(stops[(at + step) % len(stops)], scroll_visible=False)

    def toggle_outline(self) -> None:
        explorer = self._explorer
        explorer.outline_side.wish = not explorer.outline.display
        explorer.show_outline()
        if explorer.outline.display:
            explorer.set_focus(explorer.outline, scroll_visible=False)
        elif explorer.views.body:
            explorer.set_focus(explorer.views.body, scroll_visible=False)

    # the history

    async def back(self) -> None:
        self._amend()
        await self._return_to(self._explorer.history.back(), "This is where you began.")

    async def forward(self) -> None:
        self._amend()
        await self._return_to(self._explorer.history.forward(), "There is nothing ahead.")

    def _amend(self) -> None:
        """Update the history, so that coming back leads to where the cursor is now."""
        history = self._explorer.history
        if history.current and history.current.view == self._explorer.view:
            history.amend(self._explorer.stop())

    @in_turn
    async def _return_to(self, stop: Stop | None, otherwise: str) -> None:
        explorer = self._explorer
        if stop is None:
            explorer.notify(otherwise)
            return
        await explorer.show_view(stop.view)
        if stop.place:
            pane = await explorer.linked_selection.go(stop.place)
            if pane:
                explorer.linked.activate(pane)
        explorer.show_inspector()
