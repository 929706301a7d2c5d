"""A profile says of what a pane shows the time of each node or line, of all together, and the order
of a graph's rows by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from fx_explorer.analysis.documents import OF_GRAPHS, Document
from fx_explorer.model import Kernel
from fx_explorer.session import SessionReader
from fx_explorer.tui.beside import BackgroundTask, TaskResult
from fx_explorer.tui.content import long_work
from fx_explorer.tui.content.graph_rows import time_cell
from fx_explorer.tui.content.shown_lines import ShownLines, most_expensive_first
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.line_painter import Piece

if TYPE_CHECKING:
    from fx_explorer.analysis.graph_code.code import GraphText
    from fx_explorer.instruments.profile.figures import GraphTimes, PlaceTime
    from fx_explorer.tui.panes.kernel_marks import KernelMarks


SORTED_AT_ONCE = 2_000
"""Nodes that are sorted before the next frame; more are sorted beside the screen."""

SORTED_WORDS = "most expensive first"


class PaneTimes:
    """Knows the times of what one pane shows. ``is_sorted`` is whether the rows of its graph stand
    by them.
    """

    def __init__(self, code: CodeView, marks: KernelMarks) -> None:
        self._code = code
        self._marks = marks
        self._sorting: BackgroundTask[list[int]] = BackgroundTask(
            code, "sort nodes", "sort the nodes of a graph"
        )
        self.is_sorted = False

    def stop(self) -> None:
        """Abandon the sorting of a graph that is not shown any more."""
        self._sorting.stop()
        self.is_sorted = False

    def of_graph(
        self, reader: SessionReader | None, document: Document | None
    ) -> GraphTimes | None:
        """Return the times of the graph that is shown; None where none of its nodes has one, or it
        is not known yet.
        """
        is_graph = document is not None and document.kind in OF_GRAPHS
        if is_graph and document and reader:
            return self._marks.times_of_graph(reader, document.id)
        return None

    def sort(
        self,
        reader: SessionReader,
        times: GraphTimes,
        shown: ShownLines,
        take: Callable[[list[int]], None],
    ) -> None:
        """Give ``take`` the lines of a graph, the most expensive first; those of a large graph are
        sorted beside the screen.
        """
        if self._sorting.is_busy:
            return
        unfolded = shown.unfolded().lines
        lines: Sequence[int] = range(len(times.seconds)) if unfolded is None else unfolded
        if len(lines) <= SORTED_AT_ONCE:
            take(most_expensive_first(lines, times))
            return

        def taken(made: TaskResult[list[int]]) -> None:
            made.reader.close()
            take(made.value)

        self._sorting.begin(
            reader.path, lambda _: most_expensive_first(lines, times), taken, lambda _: None
        )

    def show_before_lines(self, reader: SessionReader, document: Document, kernel: int) -> None:
        """Show them before the lines of generated code, and of a graph as a text. ``kernel`` is the
        one that the text is of; 0 for none, and for several.
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
                partial(time_in_graph, graph, long_work.graph_text_of(reader, document)),
                TIME_CELLS,
            )

    def in_words(self, reader: SessionReader | None, document: Document | None, kernel: int) -> str:
        """Say what all that the pane shows took in the profile: ``profiled 812 µs``; empty where
        that is not known.
        """
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


# What a profile says before the lines of generated code, and of a graph as a text: ``12.3 µs``.

TIME_CELLS = 10
"""``Σ 0.123 µs``."""

SUM = "Σ"
"""Stands before the sum of all calls, where the code of a kernel begins: the calls have their own
times.
"""

DEFINES = ("def ", "void ", 'extern "C"')

LINES_LOOKED_AT = 400


def time_in_code(
    calls: Mapping[int, PlaceTime], definitions: Mapping[int, PlaceTime], line: int
) -> Piece | None:
    """Return what stands before a line (from 0) of the output code: the time of the calls it makes,
    or in grey the sum of all calls of the kernel that it defines.
    """
    if time := calls.get(line):
        return (f"{time.in_words:>{TIME_CELLS}}", "text")
    time = definitions.get(line)
    return (f"{f'{SUM} {time.in_words}':>{TIME_CELLS}}", "muted") if time else None


def time_in_graph(times: GraphTimes, text: GraphText, line: int) -> Piece | None:
    """Return what stands before a line (from 0) of a graph as a text: the time of the node, at the
    first of its lines.
    """
    node = text.node_of_line.get(line, 0)
    time = times.of_node(node) if node and text.line_of_node[node] == line else None
    return (f"{time.in_words:>{TIME_CELLS}}", "text") if time else None


def definition_line(text: str, name: str) -> int:
    """Return the line (from 0) on which the function of a kernel of this name is defined:
    Inductor's helpers may stand before it, and C++ has names of its own. The first line where none
    looks like it.
    """
    likely = 0
    for at, line in enumerate(islice(text.split("\n"), LINES_LOOKED_AT)):
        if line.lstrip().startswith(f"def {name}("):
            return at
        likely = likely or (at if line.lstrip().startswith(DEFINES) else 0)
    return likely
