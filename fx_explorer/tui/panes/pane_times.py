"""What a profile says of what a pane shows: the time of each node or line, of all together, and the order of a graph's rows
by it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from fx_explorer.analysis.documents import OF_GRAPHS, Document
from fx_explorer.model import Kernel
from fx_explorer.session import SessionReader
from fx_explorer.tui.kernel_marks.profiled_lines import (
    TIME_CELLS,
    definition_line,
    time_in_code,
    time_in_graph,
)
from fx_explorer.tui.selection import graph_texts
from fx_explorer.tui.selection.graph_rows import time_cell
from fx_explorer.tui.selection.shown_lines import ShownLines, dearest_first
from fx_explorer.tui.tasks.beside import Beside, Made
from fx_explorer.tui.widgets.lines.code_view import CodeView

if TYPE_CHECKING:
    from fx_explorer.analysis.profiles.places import GraphTimes
    from fx_explorer.tui.kernel_marks.shown_marks import KernelMarks

SORTED_AT_ONCE = 2_000
"""Nodes that are sorted before the next frame; more are sorted beside the screen."""

SORTED_WORDS = "dearest first"


class PaneTimes:
    """Knows the times of what one pane shows. ``is_sorted`` is whether the rows of its graph stand by them."""

    def __init__(self, code: CodeView, marks: KernelMarks) -> None:
        self._code = code
        self._marks = marks
        self._sorting: Beside[list[int]] = Beside(code, "sort nodes", "sort the nodes of a graph")
        self.is_sorted = False

    def stop(self) -> None:
        """Abandon the sorting of a graph that is not shown any more."""
        self._sorting.stop()
        self.is_sorted = False

    def of_graph(
        self, reader: SessionReader | None, document: Document | None
    ) -> GraphTimes | None:
        """Return the times of the graph that is shown; None where none of its nodes has one, or it is not known yet."""
        is_graph = document is not None and document.kind in OF_GRAPHS
        return (
            self._marks.times_of_graph(reader, document.id)
            if is_graph and document and reader
            else None
        )

    def sort(
        self,
        reader: SessionReader,
        times: GraphTimes,
        shown: ShownLines,
        take: Callable[[list[int]], None],
    ) -> None:
        """Give ``take`` the lines of a graph, the dearest first; those of a large graph are sorted beside the screen."""
        if self._sorting.is_busy:
            return
        opened = shown.opened().lines
        lines: Sequence[int] = range(len(times.seconds)) if opened is None else opened
        if len(lines) <= SORTED_AT_ONCE:
            take(dearest_first(lines, times))
            return

        def taken(made: Made[list[int]]) -> None:
            made.reader.close()
            take(made.value)

        self._sorting.begin(
            reader.path, lambda _: dearest_first(lines, times), taken, lambda _: None
        )

    def show_before_lines(self, reader: SessionReader, document: Document, kernel: int) -> None:
        """Show them before the lines of generated code, and of a graph as a text. ``kernel`` is the one that the text is
        of; 0 for none, and for several.
        """
        times = self._marks.times
        if times is None or not self._marks.is_on:
            return
        if document.kind == "artifact" and document.stage == "output_code":
            calls, definitions = (
                times.calls.get(document.id, {}),
                times.definitions.get(document.id, {}),
            )
            if calls or definitions:
                self._code.annotate_by(partial(time_in_code, calls, definitions), TIME_CELLS)
        elif kernel in times.kernels:
            line = definition_line(self._code.text, reader.get(Kernel, kernel).name)
            time = time_cell(times.kernels[kernel])
            self._code.annotate_by(lambda at: time if at == line else None, TIME_CELLS)
        elif graph := self.of_graph(reader, document):
            self._code.annotate_by(
                partial(time_in_graph, graph, graph_texts.written_text(reader, document)),
                TIME_CELLS,
            )

    def in_words(self, reader: SessionReader | None, document: Document | None, kernel: int) -> str:
        """Say what all that the pane shows took in the profile: ``profiled 812 µs``; empty where that is not known."""
        times = self._marks.times
        if times is None or document is None:
            return ""
        if document.kind in OF_GRAPHS:
            graph = self.of_graph(reader, document)
            time = graph.whole if graph else None
        elif document.kind == "artifact":
            time = times.kernels.get(kernel) or times.output_codes.get(document.id)
        else:
            return ""
        order = f" · {SORTED_WORDS}" if self.is_sorted else ""
        return f"profiled {time.in_words}{order}" if time else ""
