"""A graph in another form: the pane turns to it as Python or as FX's table, or a script that runs
it alone is written.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from fx_explorer import model
from fx_explorer.analysis.documents import OF_GRAPHS, Document, DocumentKind, document_of
from fx_explorer.errors import FxExplorerError
from fx_explorer.session import SessionReader
from fx_explorer.state_folder import typed_path
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.dialogs.ask import Ask
from fx_explorer.tui.panes.pane import Pane
from fx_explorer.tui.tasks.conversation import ask, conversation

NEXT_FORM: dict[DocumentKind, DocumentKind] = {"graph": "code", "code": "table", "table": "graph"}

NO_GRAPH = (
    "Go to a pane that shows a graph first: this key is about the graph in it. (d chooses "
    "one, 3 lists all.)"
)

READ_S = 10


class GraphForms:
    """Shows and writes the graph of the focused pane."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.app = services.app

    def turn(self) -> None:
        """Show the graph in the next of its forms, with the cursor on the same node."""
        pane = self._pane()
        if pane and pane.document:
            self._services.explorer.linked_selection.show_form(pane, NEXT_FORM[pane.document.kind])

    @conversation("graph as a script", "write a graph as a script")
    async def write(self) -> None:
        """Ask for a file, and write the graph to it as a script that runs it alone."""
        from fx_explorer.analysis.graph_code.written import (
            script_name,
        )  # not needed for the first paint

        reader, pane = self._services.explorer.reader, self._pane()
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
            await asyncio.to_thread(_write, reader.path, shown, typed_path(name))
        except FxExplorerError as error:
            self._services.notify(str(error), severity="error", timeout=READ_S)
            return
        self._services.notify(f"Wrote {name}. Run it with: python {name}", timeout=READ_S)

    def _pane(self) -> Pane | None:
        """Return the pane with the focus, when it shows a graph. The user is told otherwise."""
        explorer = self._services.explorer
        pane = explorer.linked.active if explorer.view == "source" else None
        if pane is None or pane.document is None or pane.document.kind not in OF_GRAPHS:
            self._services.notify(NO_GRAPH)
            return None
        return pane


def _write(session: Path, shown: Document, path: Path) -> None:
    """Write the script of a graph to a free name. Raises UsageError when it cannot be written
    there.
    """
    from fx_explorer.analysis.graph_code.written import written_graph
    from fx_explorer.client.trust import is_own
    from fx_explorer.output_file import OutputFile, never_ours

    output = OutputFile(path, "script", never_ours, option="another name")
    output.check()
    with SessionReader(session) as reader:  # a second one, for this thread
        graph = reader.get(model.Graph, shown.id)
        output.write_text(
            written_graph(reader, graph, shown.title, "script", is_own=is_own(session)),
            "backslashreplace",
        )
