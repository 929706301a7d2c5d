"""This module moves the user: to the next part of the main screen, back in the history, to search
results or linked lines, and to their own line in an editor.
"""

from __future__ import annotations

import functools
import os
import subprocess
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from fx_explorer.analysis.documents import Place
from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.tui.background_tasks import read_in_thread
from fx_explorer.tui.content.destinations import Stop
from fx_explorer.tui.content.long_work import FIND_READS
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.conversation import ask, conversation, in_turn
from fx_explorer.tui.dialogs.choose import Choice, Chooser, Found, matching
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.terminal.other_programs import editor_command, needs_terminal

if TYPE_CHECKING:
    from textual.app import App

    from fx_explorer.tui.content.destinations import Entry


READ_S = 8


class Navigation:
    """Moves the user by focus, history, a find or a link."""

    def __init__(self, services: Services) -> None:
        self._explorer = services.explorer
        self.app = services.app
        self.turn = services.explorer.turn

    # the focus

    def next_pane(self) -> None:
        self._focus_neighbour(1)

    def previous_pane(self) -> None:
        self._focus_neighbour(-1)

    def _focus_neighbour(self, step: int) -> None:
        """Focus the next of outline and panes, from left to right, and after the last the first
        again. Panes that are shown come before those behind tabs.
        """
        explorer = self._explorer
        stops: list[Pane | None] = [None] if explorer.outline.display else []
        panes = list(explorer.linked.panes) if explorer.view == "source" else []
        if not panes:
            self._focus_stop(step)
            return
        stops += panes
        at = 0 if explorer.outline.has_focus else stops.index(explorer.linked.active)
        following = _following(stops, at, step)
        if following is None:
            explorer.set_focus(explorer.outline, scroll_visible=False)
        else:
            explorer.linked.activate(following)
        explorer.show_inspector()

    def _focus_stop(self, step: int) -> None:
        """Focus the next of outline, list and detail, in a view without panes."""
        explorer = self._explorer
        parts = (explorer.outline, explorer.views.body, explorer.views.detail)
        stops = [part for part in parts if part is not None and part.display]
        if stops:
            at = next((i for i, part in enumerate(stops) if part.has_focus), -step)
            explorer.set_focus(stops[(at + step) % len(stops)], scroll_visible=False)

    def toggle_outline(self) -> None:
        explorer = self._explorer
        explorer.outline_side.is_asked_for = not explorer.outline.display
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
            pane = await explorer.linked_selection.go(stop.place, opens=False)
            if pane:
                explorer.linked.activate(pane)
        explorer.show_inspector()

    # what is found

    def find_in_pane(self) -> None:
        explorer = self._explorer
        view = explorer.outline if explorer.outline.has_focus else explorer.views.body
        for pane in explorer.linked.panes:
            if pane.body is view:
                pane.unfold()  # what is folded would not be found
        table = explorer.views.table
        if table is not None and view is table.body:
            table.unfold_all()
        if view:
            explorer.find_bar.open(view)

    @conversation("find anything", "find anything in the session")
    async def find_anything(self) -> None:
        reader = self._explorer.reader
        if reader is None:
            return

        from fx_explorer.tui.dialogs.choose import found_choices  # not needed for the first paint

        def search(typed: str) -> Found[Place] | Awaitable[Found[Place]]:
            look = functools.partial(found_choices, typed=typed)
            if typed and FIND_READS.takes_long(reader):
                return read_in_thread(reader.path, look)
            return look(reader)

        place = await ask(
            self.app, Chooser("Find a node, kernel, line (model.py:12) or graph break", search)
        )
        if place:
            await self._explorer.go(place)

    # from the selection

    @conversation("follow", "follow a link")
    async def follow_link(self, event: Pane.Followed) -> None:
        """Go to the place that a line in a pane is linked to; if there are several, let the user
        choose.
        """
        reader = self._explorer.reader
        if reader is None:
            return
        from fx_explorer.tui.content import inspect  # not needed for the first paint

        links = [
            (entry, entry.place) for entry in inspect.links(reader, event.place) if entry.place
        ]
        if not links:
            self._explorer.notify("No graph node comes from this line.")
            return
        choices = [
            Choice(f"{entry.label:<10} {entry.text}", _certainty(entry), place)
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
    async def show_facts(self) -> None:
        """Show all facts of the selection, and go to the place, or the row of a view, that the user
        chooses among them.
        """
        reader, place = self._explorer.reader, self._explorer.cursor.place_or_selection
        table = self._explorer.views.table
        about_view = table.description if table else []
        is_first_page = self._explorer.view == "overview"
        if reader is None or (place is None and not about_view and not is_first_page):
            self._explorer.notify(
                "Nothing is selected: go to a line of source, a node or a line of a kernel first."
            )
            return
        from fx_explorer.tui.content import inspect  # not needed for the first paint, all three
        from fx_explorer.tui.content.destinations import Entry, RowOfView
        from fx_explorer.tui.screens.inspector import Inspector

        entries: list[Entry] = []
        if place:
            time = self._explorer.linked.kernel_marks.time_of_node(reader, place)
            entries += inspect.entries(reader, place, time)
        entries += [Entry(label, text) for label, text in about_view]
        if is_first_page:
            entries += inspect.search_entries(reader)
        chosen = await ask(self.app, Inspector(entries))
        if isinstance(chosen, RowOfView):
            await self._explorer.show_row(chosen)
        elif chosen:
            await self._explorer.go(chosen)

    def edit_line(self) -> None:
        """Open the user's line of the present place in their editor."""
        reader, place = self._explorer.reader, self._explorer.cursor.place_or_selection
        if reader is None:
            return
        from fx_explorer.tui.content import inspect  # not needed for the first paint

        line = inspect.user_line(reader, place) if place else None
        if line is None:
            self._explorer.notify("No line of your source is known for this.", severity="warning")
            return
        try:
            open_in_editor(self.app, *line)
        except FxExplorerError as error:
            self._explorer.notify(str(error), severity="warning", timeout=READ_S)


def _certainty(entry: Entry) -> str:
    if entry.is_certain:
        return entry.note
    return f"{entry.note} (not certain)"


def open_in_editor(app: App[int], path: str, line: int) -> None:
    """Open ``path`` at ``line`` and, for an editor in this terminal, wait for its end. Raises
    UsageError when it cannot.
    """
    if not os.path.exists(path):
        raise UsageError(f"{path} is not on this machine; the session keeps its text, shown here.")
    command = editor_command(path, line)
    try:
        if needs_terminal(command):
            with app.suspend():
                subprocess.run(command, check=False)
            app.refresh()
        else:
            subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be started: {error.strerror or error}") from error
    except SuspendNotSupported as error:
        raise UsageError(
            f"this terminal cannot suspend the app for {command[0]}; set EDITOR to an editor with "
            "its own window"
        ) from error


def _following(stops: Sequence[Pane | None], at: int, step: int) -> Pane | None:
    """Return the stop after the one at a position: the next one that is shown, and after the last
    of those the first that is behind a tab.
    """
    if step > 0:
        beyond, around = stops[at + 1 :], stops[:at]
    else:
        beyond, around = stops[:at][::-1], stops[at + 1 :][::-1]
    for stop in beyond:
        if stop is None or stop.display:
            return stop
    for stop in (*beyond, *around):
        if stop is None or not stop.display:
            return stop
    return stops[(at + step) % len(stops)]
