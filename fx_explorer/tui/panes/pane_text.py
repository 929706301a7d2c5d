"""This module has a pane's text: source, generated code, IR or a kernel, with the marks beside its
lines. From a profile it shows the time of each node or line and their sum, and can sort a graph's
rows by time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.analysis.documents import Document, is_of_graph, text_of
from fx_explorer.analysis.kernel_documents import kernel_of
from fx_explorer.drawing.colours import kernel_kind
from fx_explorer.model import Kernel
from fx_explorer.overview.own_file import LineEvent, line_events
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import bodies_in_output_code, calls_of_output_code
from fx_explorer.tui.background_tasks import BackgroundTask, TaskResult
from fx_explorer.tui.content import long_work
from fx_explorer.tui.content.graph_rows import time_cell
from fx_explorer.tui.content.shown_lines import (
    EVENT_GLYPHS,
    ShownLines,
    code_of,
    most_expensive_first,
)
from fx_explorer.tui.panes.assembly import FEW_LINES, has_control_words, layout_of, machine_column
from fx_explorer.tui.panes.kernel_marks import source_gutter
from fx_explorer.tui.widgets.code_view import CodeView
from fx_explorer.tui.widgets.line_painter import Piece
from fx_explorer.tui.widgets.text_layout import AS_IT_IS, LineLayout, folded, wrapped_text

if TYPE_CHECKING:
    from fx_explorer.analysis.graph_python import GraphText
    from fx_explorer.instruments.kernels.line_heat import LineHeat
    from fx_explorer.instruments.profile.figures import GraphTimes, PlaceTime
    from fx_explorer.tui.panes.kernel_marks import KernelMarks


SORTED_AT_ONCE = 2_000
"""Maximum number of nodes that are sorted before the next frame; more are sorted in the
background.
"""

SORTED_WORDS = "most expensive first"


class PaneTimes:
    """The times of the document in one pane. ``is_sorted`` is whether its graph's rows are sorted
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
        """Cancel the sorting of a graph that is no longer shown."""
        self._sorting.stop()
        self.is_sorted = False

    def of_graph(
        self, reader: SessionReader | None, document: Document | None
    ) -> GraphTimes | None:
        """Return the times of the shown graph; None if none of its nodes has one, or if they are
        not known yet.
        """
        is_graph = document is not None and is_of_graph(document.kind)
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
        """Call ``take`` with the lines of a graph, the most expensive first; a large graph is
        sorted in the background.
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
        """Show the times before the lines of generated code, or of a graph's text. ``kernel`` is
        the kernel of the text; 0 for none or several.
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
            self._code.annotate_by({line: time}.get, TIME_CELLS)
        elif graph := self.of_graph(reader, document):
            self._code.annotate_by(
                partial(time_in_graph, graph, long_work.graph_text_of(reader, document)),
                TIME_CELLS,
            )

    def describe(self, reader: SessionReader | None, document: Document | None, kernel: int) -> str:
        """Describe the time of everything in the pane: ``profiled 812 µs``; empty where it is not
        known.
        """
        times = self._marks.times
        if times is None or document is None:
            return ""
        if is_of_graph(document.kind):
            graph = self.of_graph(reader, document)
            time = graph.whole if graph else None
        elif document.kind == "artifact":
            time = times.kernels.get(kernel) or times.output_codes.get(document.id)
        else:
            return ""
        order = f" · {SORTED_WORDS}" if self.is_sorted else ""
        return f"profiled {time.description}{order}" if time else ""


# What a profile says before the lines of generated code, and of a graph as a text: ``12.3 µs``.

TIME_CELLS = 10
"""Width of a time with its sign, in cells, such as ``Σ 0.123 µs``."""

SUM = "Σ"
"""Sign of the sum over all calls, where the code of a kernel begins: the calls have their own
times.
"""

DEFINES = ("def ", "void ", 'extern "C"')

LINES_LOOKED_AT = 400


def time_in_code(
    calls: Mapping[int, PlaceTime], definitions: Mapping[int, PlaceTime], line: int
) -> Piece | None:
    """Return the text before a line (from 0) of the output code: the time of the calls it makes, or
    in grey the sum of all calls of the kernel that it defines.
    """
    if time := calls.get(line):
        return (f"{time.description:>{TIME_CELLS}}", "text")
    time = definitions.get(line)
    if time:
        return (f"{f'{SUM} {time.description}':>{TIME_CELLS}}", "muted")
    return None


def time_in_graph(times: GraphTimes, text: GraphText, line: int) -> Piece | None:
    """Return the text before a line (from 0) of a graph's text: the time of the node, on its first
    line.
    """
    node = text.node_of_line.get(line, 0)
    if node and text.line_of_node[node] == line:
        time = times.of_node(node)
    else:
        time = None
    if time:
        return (f"{time.description:>{TIME_CELLS}}", "text")
    return None


def definition_line(text: str, name: str) -> int:
    """Return the line (from 0) on which the function of a kernel of this name is defined:
    Inductor's helpers may come before it, and C++ has its own names. The first line if none
    matches.
    """
    likely = 0
    for at, line in enumerate(islice(text.split("\n"), LINES_LOOKED_AT)):
        if line.lstrip().startswith(f"def {name}("):
            return at
        if not likely and line.lstrip().startswith(DEFINES):
            likely = at
    return likely


LEAST_WORDS_CELLS = 20
"""Smallest width at which a message in place of a text is wrapped."""


class PaneTextView:
    """Loads texts into the view of a pane, and marks their lines."""

    def __init__(self, placeholder: str, marks: KernelMarks) -> None:
        self.code = CodeView(placeholder=placeholder)
        self.times = PaneTimes(self.code, marks)
        self._source_marks = SourceMarks(self.code, marks)
        self._numbers = NumberColours(self.code, marks)
        self._machine_words = MachineWords(self.code)
        self._message = ""
        """The message in place of a text; empty if there is a text."""

    @property
    def kernel(self) -> int:
        """Return the kernel of the text; 0 for none or several."""
        return self._numbers.kernel

    def stop(self) -> None:
        """Cancel reading for a text that is no longer shown."""
        self._machine_words.stop()
        self._numbers.stop()
        self._message = ""

    def load_empty(self, placeholder: str) -> None:
        self.code.placeholder = placeholder
        self.code.load("")

    def load(self, reader: SessionReader, document: Document, shown: ShownLines, line: int) -> None:
        """Load a text with the cursor on ``line``. A level below a kernel shows only its code, with
        the line numbers of the whole text.
        """
        self.code.placeholder = "The text is empty."
        whole, language = text_of(reader, document), document.language
        text = whole if shown.lines is None else code_of(language, whole, shown)
        if shown.lines is None:
            ready = long_work.coloured_graph(reader, document)
        else:
            ready = None
        layout = _layout_of(document, text, shows_code=shown.lines is not None)
        self.code.load(
            ready or text, language, line=shown.row_of(line), numbers=shown.lines, layout=layout
        )
        self._numbers.renew(reader, document)
        self._source_marks.forget()
        if shown.lines is None:
            self.times.show_before_lines(reader, document, self.kernel)
        if (
            shown.lines is not None
            and self._machine_words.are_wanted
            and has_control_words(language, whole)
        ):
            self._machine_words.show(reader.path, whole, shown.lines)

    def show_message(self, words: str) -> None:
        """Show a message in place of a text: why there is none, or how far it is."""
        if words != self._message:
            self._message = words
            self._write_message()

    def _write_message(self) -> None:
        self.code.load(wrapped_text(self._message, max(LEAST_WORDS_CELLS, self.code.body_width)))

    def mark_lines(self, reader: SessionReader, document: Document) -> bool:
        """Mark the source lines with events and costs, as far as they are known now. Returns
        whether the marks have changed.
        """
        return self._source_marks.renew(reader, document)

    def mark_kernels_again(
        self, reader: SessionReader, document: Document, shown: ShownLines
    ) -> None:
        """Colour the numbers of generated code, and show the times of a profile, as far as kernels
        are marked now.
        """
        self.code.colour_numbers(None)
        self._numbers.renew(reader, document)
        if shown.lines is None:
            self.code.annotate({})
            self.times.show_before_lines(reader, document, self.kernel)

    def toggle_machine_words(
        self, reader: SessionReader, document: Document, shown: ShownLines
    ) -> bool:
        """Show the address, the control bits and the live registers of each SASS instruction, or
        hide them. Returns whether the text has them.
        """
        text = text_of(reader, document)
        if not has_control_words(document.language, text):
            return False
        self._machine_words.are_wanted = not self._machine_words.are_wanted
        if self._machine_words.are_wanted:
            self._machine_words.show(reader.path, text, shown.lines or ())
        else:
            self._machine_words.hide()
        return True

    def lay_out_again(self) -> None:
        """Lay out what depends on the width of the pane."""
        if self._message:
            self._write_message()
        self._source_marks.lay_out_again()


def _layout_of(document: Document, text: str, *, shows_code: bool) -> LineLayout:
    if document.kind != "artifact":
        return AS_IT_IS  # what somebody wrote is shown as written
    layout = layout_of(document.language, text) if shows_code else None
    return layout or folded(text)


# The column beside SASS with each instruction's address, control bits and live registers, while
# the user wants it.


class MachineWords:
    """Shows the control bits of SASS in a column beside the text."""

    def __init__(self, code: CodeView) -> None:
        self._code = code
        self._beside: BackgroundTask[Mapping[int, Piece]] = BackgroundTask(
            code, "machine words", "read the control bits of SASS"
        )
        self.are_wanted = False

    def show(self, session: Path, text: str, lines: Sequence[int]) -> None:
        """Show the column of these lines; a long column is made in the background."""
        if len(lines) <= FEW_LINES:
            self._code.annotate(machine_column(text, lines))
            return

        def take(made: TaskResult[Mapping[int, Piece]]) -> None:
            made.reader.close()
            self._code.annotate(made.value)

        def cannot(_: Exception) -> None:
            self.are_wanted = False

        self._beside.begin(session, lambda _: machine_column(text, lines), take, cannot)

    def hide(self) -> None:
        self.stop()
        self._code.annotate({})

    def stop(self) -> None:
        """Cancel work for a text that is no longer shown."""
        self._beside.stop()


# What stands before the lines of a source file in a pane: where something happened, and what the
# lines cost.

FEW_BLOCKS, MANY_BLOCKS = 1, 3
"""Number of blocks in the gutter of a line: for the most expensive kernel alone, and for more in a
wide pane.
"""

WIDE_CELLS = 60


class SourceMarks:
    """Writes the gutter of one text, and gives its line numbers the colours of kernels."""

    def __init__(self, code: CodeView, marks: KernelMarks) -> None:
        self._code = code
        self._marks = marks
        self._events: dict[int, list[LineEvent]] = {}
        self._heat: Mapping[int, LineHeat] = {}
        """Line of the source → its share of the kernels' cost."""
        self._blocks = FEW_BLOCKS

    def forget(self) -> None:
        """Forget the marks, because another text was loaded."""
        self._events, self._heat = {}, {}

    def renew(self, reader: SessionReader, document: Document) -> bool:
        """Mark the lines with the session's present facts. Returns whether the marks have
        changed.
        """
        events, heat = line_events(reader, document), self._marks.lines_of(document)
        if (events, heat) == (self._events, self._heat):
            return False
        self._events, self._heat = events, heat
        self._write()
        kinds = {line: kernel_kind(line_heat.most_expensive) for line, line_heat in heat.items()}
        if kinds:
            self._code.colour_numbers(kinds.get)
        else:
            self._code.colour_numbers(None)
        return True

    def lay_out_again(self) -> None:
        """Write the gutter again where the pane has become wide, or narrow."""
        if self._heat and (self._blocks == FEW_BLOCKS) != (self._code.size.width < WIDE_CELLS):
            self._write()

    def _write(self) -> None:
        """Write the gutter, in as much room as the pane can give."""
        glyphs = {line: EVENT_GLYPHS[events[0].what] for line, events in self._events.items()}
        if self._code.size.width < WIDE_CELLS:
            self._blocks = FEW_BLOCKS
        else:
            self._blocks = MANY_BLOCKS
        self._code.annotate(source_gutter(glyphs, self._heat, self._blocks))


# The line numbers of generated code, in the colours of the kernels that its lines are of.

COLOURED_AT_ONCE = 5_000
"""Maximum number of lines of output code whose kernels are read before the next frame; those of
longer code are read in the background.
"""


class NumberColours:
    """Colours the numbers of one text."""

    def __init__(self, code: CodeView, marks: KernelMarks) -> None:
        self._code = code
        self._marks = marks
        self._beside: BackgroundTask[OutputCodeKernels] = BackgroundTask(
            code, "kernels of lines", "read the kernel of each line"
        )
        self.kernel = 0
        """The kernel of the text; 0 for none or several."""

    def stop(self) -> None:
        """Cancel reading for a text that is no longer shown."""
        self._beside.stop()

    def renew(self, reader: SessionReader, document: Document) -> None:
        """Colour the numbers of this text if kernels are marked. For long output code this is done
        once the code has been read.
        """
        self._beside.stop()
        self.kernel = 0
        if document.kind != "artifact" or not self._marks.is_on:
            return
        self.kernel = kernel_of_text(reader, document)
        if self.kernel:
            self._code.colour_numbers(one_kernel(self.kernel))
        elif document.stage == "output_code" and document.line_count <= COLOURED_AT_ONCE:
            self._code.colour_numbers(OutputCodeKernels(reader, document.id))
        elif document.stage == "output_code":
            output_code = document.id
            self._beside.begin(
                reader.path,
                lambda session: OutputCodeKernels(session, output_code),
                self._take,
                self._without,
            )

    def _take(self, made: TaskResult[OutputCodeKernels]) -> None:
        made.reader.close()
        self._code.colour_numbers(made.value)

    def _without(self, _: Exception) -> None:
        self._code.colour_numbers(None)


# Which kernel each line of a generated text is of: all lines of a kernel's code and of the levels
# below it, and in the output code the bodies and the calls of each.

KindOfLine = Callable[[int], str | None]
"""Line (from 0) → the kind that its number is written in; empty or None for a line of no kernel."""


def kernel_of_text(reader: SessionReader, document: Document) -> int:
    """Return the id of the kernel whose text this is; 0 for the output code, and for others."""
    if document.kind == "artifact":
        kernel = kernel_of(reader, document)
    else:
        kernel = None
    return kernel.id if kernel else 0


def one_kernel(kernel: int) -> KindOfLine:
    """Return a function that gives every line the colour of a kernel."""
    kind = kernel_kind(kernel)
    return lambda _: kind


class OutputCodeKernels:
    """Gives each line of the output code the colour of its kernel. A wrapper of 100,000 calls is
    read in some tenths of a second.
    """

    def __init__(self, reader: SessionReader, output_code: int) -> None:
        self._bodies = bodies_in_output_code(reader, output_code)
        self._starts = [first - 1 for first, _, _ in self._bodies]
        self._calls = {
            line - 1: kernel for line, kernel in calls_of_output_code(reader, output_code)
        }

    def __call__(self, line: int) -> str:
        at = bisect_right(self._starts, line) - 1
        if at >= 0:
            _, end, kernel = self._bodies[at]
            if line < end - 1:
                return kernel_kind(kernel)
        called = self._calls.get(line)
        return kernel_kind(called) if called else ""
