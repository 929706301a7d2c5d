"""Copying: the line under the cursor, a kernel, a node, or the whole answer of a view."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable

from fx_explorer.analysis.words import counted
from fx_explorer.session import SessionReader
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.inspector.levels import NO_KERNEL
from fx_explorer.tui.panes.overview import FactList
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.tasks.beside import BackgroundTask, TaskResult
from fx_explorer.tui.terminal.clipboard import OSC52_LIMIT_BYTES, CopyDestination, copy
from fx_explorer.tui.widgets.lines.line_view import LineView

LINES_AT_ONCE = 1_000
"""An answer of so many lines is written before the next frame."""

NOTHING = "There is nothing to copy here."


class Copying:
    """Finds the text to copy, and says where it went."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._explorer = services.explorer
        self._beside: BackgroundTask[str] = BackgroundTask(
            services.explorer, "copy", "copy the whole answer"
        )

    # what is copied

    def copy(self) -> None:
        """Copy the line under the cursor, or what is selected with the mouse."""
        explorer = self._explorer
        view = explorer.outline if explorer.outline.has_focus else explorer.views.body
        if isinstance(explorer.focused, LineView):
            view = explorer.focused  # the focus may also be on the detail below a list
        text = view.text_to_copy() if view else ""
        if text:
            self.copy_text(text)
        else:
            explorer.notify(NOTHING)

    def kernel(self) -> None:
        """Copy the code of the kernel that the cursor is on."""
        reader, place = self._explorer.reader, self._explorer.cursor.place_or_selection
        kernel = self._explorer.linked_selection.kernel_at(place) if reader and place else None
        if reader is None or kernel is None:
            self._explorer.notify(NO_KERNEL)
        else:
            from fx_explorer.tui import copying  # not needed for the first paint

            self._copy(copying.kernel_text(reader, kernel))

    def node(self) -> None:
        """Copy everything known about what the cursor is on."""
        from fx_explorer.tui import copying  # not needed for the first paint

        reader, place = self._explorer.reader, self._explorer.cursor.place_or_selection
        if reader is None or place is None:
            self._copy("")
            return
        self._copy(
            copying.node_text(
                reader, place, self._explorer.linked.kernel_marks.time_of_node(reader, place)
            )
        )

    def answer(self) -> None:
        """Copy what the view says, as markdown."""
        from fx_explorer.tui import copying  # not needed for the first paint

        explorer, shown = self._explorer, self._explorer.views.shown
        if explorer.reader is None:
            return
        if isinstance(shown, FactList):
            self._copy(copying.facts_markdown(shown.facts))
        elif isinstance(shown, TablePane):
            self._copy_made(shown.answer(explorer.view), shown.answer_lines)
        elif explorer.linked.active and explorer.linked.active.document:
            document = explorer.linked.active.document
            self._copy_made(
                functools.partial(copying.document_markdown, document=document), document.line_count
            )

    def _copy_made(self, make: Callable[[SessionReader], str], lines: int) -> None:
        """Copy a text that is still to be made: beside the screen where it has many lines."""
        reader = self._explorer.reader
        if reader is None:
            return
        if lines <= LINES_AT_ONCE:
            self._copy(make(reader))
            return
        self._explorer.notify(f"Copying {counted(lines, 'line')} …")
        self._beside.begin(reader.path, make, self._take, lambda _: None)

    def _take(self, made: TaskResult[str]) -> None:
        made.reader.close()
        self._copy(made.value)

    def _copy(self, text: str) -> None:
        if text.strip():
            self.copy_text(text)
        else:
            self._explorer.notify(NOTHING)

    # where it goes

    def copy_text(self, text: str) -> None:
        """Copy a text by the best way there is, and say which it was."""
        if len(text) > OSC52_LIMIT_BYTES:
            copying = functools.partial(self._copy_long, text)
            self._services.begin(copying, "copy", "copy", "copy a long text")
            return
        try:
            self._tell_copied(copy(text, self._services.write_past_screen), text)
        except OSError as error:
            self._tell_not_copied(error)

    async def _copy_long(self, text: str) -> None:
        """Copy what no terminal takes, beside the screen: to write it may take a while."""
        try:
            self._tell_copied(await asyncio.to_thread(copy, text, None), text)
        except OSError as error:
            self._tell_not_copied(error)

    def _tell_not_copied(self, error: OSError) -> None:
        self._services.notify(f"nothing was copied: {error}", severity="error")

    def _tell_copied(self, copied: CopyDestination, text: str) -> None:
        what = counted(text.count("\n") + 1, "line")
        self._services.notify(
            f"{what} {copied}" if not copied.problem else f"{what} {copied} ({copied.problem})"
        )
