"""This module exports text from the screen: to the clipboard, or to a file of its own.

The session itself is saved in ``leaving.py``.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.documents import Document, document_of
from fx_explorer.analysis.words import counted
from fx_explorer.errors import FxExplorerError
from fx_explorer.folders import typed_path
from fx_explorer.output_file import OutputFile, never_ours
from fx_explorer.session import SessionReader
from fx_explorer.tui.background_tasks import BackgroundTask, TaskResult
from fx_explorer.tui.content.shown_levels import NO_KERNEL
from fx_explorer.tui.controllers.panes import focused_graph
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.conversation import ask, conversation
from fx_explorer.tui.dialogs.dialog import Ask
from fx_explorer.tui.panes.first_page import FirstPage
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.terminal.other_programs import OSC52_LIMIT_BYTES, CopyDestination, copy
from fx_explorer.tui.widgets.line_view import LineView

LINES_AT_ONCE = 1_000
"""Maximum number of lines of an answer that is written before the next frame."""

READ_S = 10

NOTHING = "There is nothing to copy here."

NO_PICTURE = (
    "This view has no picture. These views have one: compile time (v w), kernels against the roof "
    "(v k), a call (v l), the memory of a step (v m) and the bench (v p)."
)


class Exports:
    """Copies lines, kernels, nodes and whole views, and writes pictures and graphs to files."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._explorer = services.explorer
        self.app = services.app
        self._beside: BackgroundTask[str] = BackgroundTask(
            services.explorer, "copy", "copy the whole answer"
        )

    # what is copied

    def copy_line(self) -> None:
        """Copy the line under the cursor, or the lines selected with the mouse."""
        explorer = self._explorer
        view = explorer.outline if explorer.outline.has_focus else explorer.views.body
        if isinstance(explorer.focused, LineView):
            view = explorer.focused  # the focus may also be on the detail below a list
        text = view.text_to_copy() if view else ""
        if text:
            self.copy_text(text)
        else:
            explorer.notify(NOTHING)

    def copy_kernel(self) -> None:
        """Copy the code of the kernel that the cursor is on."""
        reader, place = self._explorer.reader, self._explorer.cursor.place_or_selection
        kernel = self._explorer.linked_selection.kernel_at(place) if reader and place else None
        if reader is None or kernel is None:
            self._explorer.notify(NO_KERNEL)
        else:
            from fx_explorer.tui.content import copied_text  # not needed for the first paint

            self._copy(copied_text.kernel_text(reader, kernel))

    def copy_node(self) -> None:
        """Copy everything known about the place of the cursor."""
        from fx_explorer.tui.content import copied_text  # not needed for the first paint

        reader, place = self._explorer.reader, self._explorer.cursor.place_or_selection
        if reader is None or place is None:
            self._copy("")
            return
        self._copy(
            copied_text.node_text(
                reader, place, self._explorer.linked.kernel_marks.time_of_node(reader, place)
            )
        )

    def copy_view(self) -> None:
        """Copy the rows and texts of the view as markdown."""
        from fx_explorer.tui.content import copied_text  # not needed for the first paint

        explorer, shown = self._explorer, self._explorer.views.shown
        if explorer.reader is None:
            return
        if isinstance(shown, FirstPage):
            self._copy(copied_text.facts_markdown(shown.facts.facts))
        elif isinstance(shown, TablePane):
            self._copy_when_made(shown.answer(explorer.view), shown.answer_lines)
        elif explorer.linked.active and explorer.linked.active.document:
            document = explorer.linked.active.document
            self._copy_when_made(
                functools.partial(copied_text.document_markdown, document=document),
                document.line_count,
            )

    def _copy_when_made(self, make: Callable[[SessionReader], str], lines: int) -> None:
        """Copy a text that has to be made first; a long one is made in the background."""
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
        """Copy a text by the best available way, and tell the user which."""
        if len(text) > OSC52_LIMIT_BYTES:
            copying = functools.partial(self._copy_long, text)
            self._services.begin(copying, "copy", "copy", "copy a long text")
            return
        try:
            self._notify_copied(copy(text, self._services.write_past_screen), text)
        except OSError as error:
            self._notify_not_copied(error)

    async def _copy_long(self, text: str) -> None:
        """Copy a text that is too long for the terminal's clipboard sequence, in the background."""
        try:
            self._notify_copied(await asyncio.to_thread(copy, text, None), text)
        except OSError as error:
            self._notify_not_copied(error)

    def _notify_not_copied(self, error: OSError) -> None:
        self._services.notify(f"nothing was copied: {error}", severity="error")

    def _notify_copied(self, copied: CopyDestination, text: str) -> None:
        lines = counted(text.count("\n") + 1, "line")
        message = f"{lines} {copied}"
        if copied.problem:
            message += f" ({copied.problem})"
        self._services.notify(message)

    # what is written

    @conversation("picture as SVG", "write the picture of a view")
    async def save_picture(self) -> None:
        """Ask for a file, and write the picture of the view to it."""
        explorer = self._explorer
        draw = explorer.table.svg if explorer.table else None
        if draw is None:
            self._services.notify(NO_PICTURE)
            return
        name = await ask(
            self.app, Ask("Write the picture as SVG to", f"{explorer.view}.svg", "writes")
        )
        if not name:
            return
        try:
            await asyncio.to_thread(_write_picture, draw, typed_path(name))
        except FxExplorerError as error:
            self._services.notify(str(error), severity="error", timeout=READ_S)
            return
        self._services.notify(f"Wrote {name}.", timeout=READ_S)

    @conversation("graph as a script", "write a graph as a script")
    async def write_graph(self) -> None:
        """Ask for a file, and write the graph to it as a script that runs it alone."""
        from fx_explorer.analysis.graph_files import script_name  # not for the first paint

        reader, pane = self._explorer.reader, focused_graph(self._explorer)
        if reader is None or pane is None or pane.document is None:
            return
        shown = document_of(reader, "graph", pane.document.id)
        name = await ask(
            self.app,
            Ask("Write the graph as a script to", script_name(shown.owner, shown.title), "writes"),
        )
        if not name:
            return
        try:
            await asyncio.to_thread(_write_script, reader.path, shown, typed_path(name))
        except FxExplorerError as error:
            self._services.notify(str(error), severity="error", timeout=READ_S)
            return
        self._services.notify(f"Wrote {name}. Run it with: python {name}", timeout=READ_S)


def _write_picture(draw: Callable[[], str], path: Path) -> None:
    """Write the picture to a free name. Raises UsageError when it cannot be drawn, or written
    there.
    """
    output = OutputFile(path, "picture", never_ours, option="another name")
    output.check()
    output.write_text(draw())


def _write_script(session: Path, shown: Document, path: Path) -> None:
    """Write the script of a graph to a free name. Raises UsageError when it cannot be written
    there.
    """
    from fx_explorer.analysis.graph_files import written_graph
    from fx_explorer.session.ownership import is_own_session

    output = OutputFile(path, "script", never_ours, option="another name")
    output.check()
    with SessionReader(session) as reader:  # a second one, for this thread
        graph = reader.get(model.Graph, shown.id)
        output.write_text(
            written_graph(reader, graph, shown.title, "script", is_own=is_own_session(session)),
            "backslashreplace",
        )
