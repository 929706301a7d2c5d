"""Writing a large graph as a text, beside the screen: the row below the pane that says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from textual.content import Content

from fx_explorer.analysis.documents import Document
from fx_explorer.analysis.graph_code.code import GraphText
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.tui.beside import BackgroundTask, TaskResult
from fx_explorer.tui.selection import graph_texts
from fx_explorer.tui.widgets.one_line import OneLine

WRITING, STOPS = "Writing {what} …", "Esc stops"
NOT_WRITTEN = "The graph could not be written in another form."


class GraphWriting(OneLine):
    """Shows ``Writing 100,000 nodes …  Esc stops`` while a graph is being written, and nothing
    else.
    """

    DEFAULT_CSS = """
    GraphWriting { background: $surface; color: $text-secondary; display: none; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._beside: BackgroundTask[GraphText] = BackgroundTask(
            self, "write graph", "write a graph as a text"
        )

    def write(self, reader: SessionReader, document: Document, done: Callable[[], None]) -> None:
        """Write the text of a graph, and call ``done`` when ``graph_texts`` has it at once."""
        self.show(
            Content(printable(WRITING.format(what=graph_texts.words(reader, document)))),
            Content(STOPS),
        )
        self.display = True

        def take(made: TaskResult[GraphText]) -> None:
            made.reader.close()
            graph_texts.keep_written(reader, document, made.value)
            self.display = False
            done()

        def cannot(_: Exception) -> None:
            self.show(Content(NOT_WRITTEN))

        self._beside.begin(
            reader.path, partial(graph_texts.written, document=document), take, cannot
        )

    def stop(self) -> bool:
        """Abandon what is being written. Returns whether there was something."""
        self.display = False
        return self._beside.stop()
