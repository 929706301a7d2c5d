"""One of the linked panes: a title, and below it a document of any kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from fx_explorer.analysis.documents import OF_GRAPHS, Document, Place, text_of
from fx_explorer.analysis.graph_code.code import GraphText
from fx_explorer.analysis.kernels.kernel_documents import is_level
from fx_explorer.analysis.overview.line_events import LineEvent, line_events
from fx_explorer.analysis.regions.region_nodes import RegionKey
from fx_explorer.analysis.stages.work import Fate
from fx_explorer.highlight import printable
from fx_explorer.model import Graph, Kernel
from fx_explorer.session import SessionReader
from fx_explorer.tui.assembly.machine_column import FEW_LINES, has_words, layout_of, machine_column
from fx_explorer.tui.beside import Beside, Made
from fx_explorer.tui.inspector.levels import LEVEL_TITLES
from fx_explorer.tui.kernel_marks.kernel_colours import kernel_kind
from fx_explorer.tui.kernel_marks.profiled_lines import TIME_CELLS, definition_line, time_in_code, time_in_graph
from fx_explorer.tui.kernel_marks.source_gutter import source_gutter
from fx_explorer.tui.kernel_marks.text_kernels import OutputCodeKernels, kernel_of_text, one_kernel
from fx_explorer.tui.selection import graph_texts
from fx_explorer.tui.selection.graph_rows import COLUMNS, TIME_TITLE, GraphRows, columns_of, time_cell
from fx_explorer.tui.selection.line_glyphs import GLYPHS
from fx_explorer.tui.selection.presets import MISSING, Slot
from fx_explorer.tui.selection.shown_lines import EVERY_LINE, SortedLines, code_of, dearest_first, lines_in
from fx_explorer.tui.status.old_files import MARK, OldFiles
from fx_explorer.tui.terminal.wrapping import wrapped_text
from fx_explorer.tui.unreadable import TellsUnreadable
from fx_explorer.tui.widgets.lines.code_view import CodeView
from fx_explorer.tui.widgets.lines.line_painter import Piece
from fx_explorer.tui.widgets.lines.line_view import LineView
from fx_explorer.tui.widgets.lines.text_layout import AS_IT_IS, LineLayout, folded
from fx_explorer.tui.widgets.one_line import OneLine
from fx_explorer.tui.widgets.row_list import RowList

if TYPE_CHECKING:
    from fx_explorer.analysis.heat.line_heat import LineHeat
    from fx_explorer.analysis.profiles.places import GraphTimes
    from fx_explorer.tui.kernel_marks.shown_marks import KernelMarks
    from fx_explorer.tui.pictures.neighbourhood.view import NeighbourhoodView

MAX_LINES_MEASURED = 50

COLOURED_AT_ONCE = 5_000
"""Lines of output code whose kernels are read before the next frame; of more they are read beside the
screen.
"""

SORTED_AT_ONCE = 2_000
"""Nodes that are sorted before the next frame; more are sorted beside the screen."""

SORTED_WORDS = "dearest first"

FEW_BLOCKS, MANY_BLOCKS = 1, 3
"""So many kernels of a line have a block in the gutter: the dearest alone, and more in a wide pane."""

WIDE_CELLS = 60

MARGIN_CELLS = 4

CELLS_SEEN = 12
"""What is seen at least of a lit line."""

MAX_REGION_CHARACTERS = 16

WRITING, STOPS = "Writing {what} …", "Esc stops"
NOT_WRITTEN = "The graph could not be written in another form."


class Pane(TellsUnreadable, Vertical):
    """Shows a title line, then source, a graph, bytecode, IR, generated code or a kernel. Lines
    linked to the selection are lit.

    It tells where its cursor goes (``Moved``, ``Followed``) and shows what it is told. It knows
    nothing of other panes.
    """

    DEFAULT_CSS = """
    Pane { width: 1fr; height: 1fr; }
    Pane > .pane-title { background: $surface; color: $text-muted; }
    Pane > .pane-notice { background: $surface; color: $text-secondary; display: none; }
    Pane:focus-within > .pane-title { background: $panel; color: $foreground; text-style: bold; }
    """

    class Moved(Message):
        """Posted when the user moved the cursor of a pane."""

        def __init__(self, pane: Pane, place: Place) -> None:
            super().__init__()
            self.pane = pane
            self.place = place

    class Followed(Moved):
        """Posted when the user asked where a line leads."""

    class Walked(Moved):
        """Posted when the user went to a box of a picture, which is in the middle now. ``before`` was."""

        def __init__(self, pane: Pane, place: Place, before: Place) -> None:
            super().__init__(pane, place)
            self.before = before

    def __init__(self, marks: KernelMarks, slot: Slot = "") -> None:
        """``marks`` says whether kernels are marked, for all panes alike."""
        super().__init__()
        self._marks = marks
        self.slot: Slot = slot
        self.document: Document | None = None
        self._title = OneLine(classes="pane-title")
        self._notice = OneLine(classes="pane-notice")
        self._beside: Beside[GraphText] = Beside(self, "write graph", "write a graph as a text")
        self._output_code: Beside[OutputCodeKernels] = Beside(self, "kernels of lines", "read which kernel each line is of")
        self._sorting: Beside[list[int]] = Beside(self, "sort nodes", "sort the nodes of a graph")
        self._is_sorted = False
        """Whether the rows of a graph stand by their times in a profile, the dearest first."""
        self._column: Beside[Mapping[int, Piece]] = Beside(self, "machine words", "read the control bits of SASS")
        self._code = CodeView(placeholder=MISSING[slot])
        self._rows = RowList(COLUMNS)
        self._rows.display = False
        self._picture: NeighbourhoodView | None = None
        """What is around a node, where the pane has shown it."""
        self._events: dict[int, list[LineEvent]] = {}
        self._heat: Mapping[int, LineHeat] = {}
        """What the lines of the source cost, as its gutter shows it."""
        self._blocks = FEW_BLOCKS
        self._old = OldFiles()
        self._kernel = 0
        """The kernel that the text is of; 0 for none, and for several."""
        self._region: RegionKey | None = None
        self._shown = EVERY_LINE
        self._reader: SessionReader | None = None
        self._lit: frozenset[int] = frozenset()
        self._said = ""
        """Why there is no document, as it was told."""
        self.shows_machine_words = False
        """Whether SASS has a column with address, control bits and live registers."""
        self.fates: Mapping[int, Fate] | None = None
        """What became of operations in the stage that is shown, by the id of the node; None where no
        stage is.
        """

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._code
        yield self._rows
        yield self._notice

    def on_mount(self) -> None:
        self._show_title()

    # what the screen tells it

    @property
    def body(self) -> LineView:
        """Return the view that shows the lines."""
        return self.picture or (self._rows if self.document and self.document.kind == "graph" else self._code)

    @property
    def picture(self) -> NeighbourhoodView | None:
        """Return the picture that is shown; None where rows or a text are."""
        is_picture = self.slot == "neighbourhood" and self.document is not None and self.document.kind == "graph"
        return self._picture if is_picture else None

    @property
    def place(self) -> Place | None:
        """Return the place of the cursor; None in a graph without shown nodes."""
        if self.document is None or (self._shown.lines is not None and not self._shown.lines):
            return None
        if self.picture:
            return Place(self.document, self.picture.position)
        return Place(self.document, self._line_of(self.body.cursor))

    @property
    def selected(self) -> list[int]:
        """Return the lines of the document that are selected with the mouse."""
        return list(dict.fromkeys(map(self._line_of, self.body.selected)))

    def _line_of(self, row: int) -> int:
        """Return the line of the document that a row of the body shows."""
        return self._shown.line_of(self.body.line_of_row(row))

    def _row_of(self, line: int) -> int:
        """Return the first row of the body that shows a line of the document."""
        return self.body.rows_of_line(self._shown.row_of(line))[0]

    @property
    def lit(self) -> frozenset[int]:
        """Return the lines that are both lit and shown."""
        return self._shown.shown(self._lit)

    def shown(self, lines: frozenset[int]) -> frozenset[int]:
        """Return those of the lines that the pane shows."""
        return self._shown.shown(lines)

    def show(
        self,
        reader: SessionReader,
        document: Document | None,
        line: int = 0,
        why: str = "",
        region: RegionKey | None = None,
    ) -> None:
        """Show a document with the cursor on ``line``. None shows no document, and says ``why`` if
        that is known.

        A graph shows only the nodes in ``region``, if one is given.
        """
        self.stop_writing()
        self._column.stop()
        self._output_code.stop()
        self._sorting.stop()
        had_focus = self.body.has_focus
        stays_sorted = self._is_sorted and document == self.document
        self._is_sorted = False
        self.document = document
        self._region = region if document and document.kind == "graph" else None
        self._shown = lines_in(reader, document, region) if document else EVERY_LINE
        if self._shown.folds(line):
            self._shown = self._shown.opened()
        self._reader, self._said = reader, ""
        self._lit = frozenset()
        if document and document.kind == "graph" and self.slot == "neighbourhood":
            self._load_picture(reader, document, line)
        elif document and document.kind == "graph":
            self._rows.placeholder = f"No node of this graph is in {region[1]}." if region else ""
            self._load_rows(reader, document, self._shown.row_of(line))
            if stays_sorted:
                self._sort(line)
        elif document:
            self._code.placeholder = "The text is empty."
            self._load_text(text_of(reader, document), document.language, line)
            self._events, self._heat = {}, {}
            self.annotate(reader)
        else:
            self._code.placeholder = f"Nothing to show here: {why}." if why else MISSING[self.slot]
            self._code.load("")
        self.body.display = True
        if had_focus:
            self.screen.set_focus(self.body, scroll_visible=False)
        self._rows.display = self.body is self._rows
        self._code.display = self.body is self._code
        if self._picture:
            self._picture.display = self.body is self._picture
        self._show_title()

    def _load_picture(self, reader: SessionReader, document: Document, line: int) -> None:
        if self._picture is None:
            from fx_explorer.tui.pictures.neighbourhood.view import NeighbourhoodView  # not needed for the first paint

            self._picture = NeighbourhoodView()
            self.mount(self._picture, before=self._notice)
        self._shown = EVERY_LINE
        self._picture.load(reader, reader.get(Graph, document.id), line)

    def _load_rows(self, reader: SessionReader, document: Document, row: int) -> None:
        times, marks_kernels = self._graph_times(), self._marks.is_on
        columns = columns_of(
            reader,
            has_fates=self.fates is not None,
            marks_kernels=marks_kernels,
            has_times=times is not None,
            is_sorted=self._is_sorted,
        )
        rows = GraphRows(reader, document, self._shown, self.fates, marks_kernels=marks_kernels, times=times)
        self._rows.load(rows, columns, line=row)

    # times of a profile

    def _graph_times(self) -> GraphTimes | None:
        """Return the times of the graph that is shown; None where none of its nodes has one, or it is not known yet."""
        document, reader = self.document, self._reader
        is_graph = document is not None and document.kind in OF_GRAPHS
        return self._marks.times_of_graph(reader, document.id) if is_graph and document and reader else None

    def sort_by_time(self) -> bool:
        """Show the rows of the graph by their times in a profile, with the cursor on the dearest; or as the graph has
        them again, with the cursor on the same node. Returns whether the pane shows times of nodes as rows.
        """
        if self.body is not self._rows or self._reader is None or self.document is None or self._graph_times() is None:
            return False
        if self._is_sorted:
            line, lit = self._line_of(self.body.cursor), self._lit
            self._is_sorted = False
            self._shown = lines_in(self._reader, self.document, self._region)
            self._shown = self._shown.opened() if self._shown.folds(line) else self._shown
            self._load_rows(self._reader, self.document, self._shown.row_of(line))
            self.show_links(lit)
        elif not self._sorting.is_busy:
            self._sort()
        return True

    def _sort(self, line: int | None = None) -> None:
        """Sort the rows by their times, those of a large graph beside the screen. The cursor goes to a line of the
        document; for None to the first row, which the other panes follow.
        """
        times, reader = self._graph_times(), self._reader
        if times is None or reader is None:
            return
        shown = self._shown.opened().lines
        lines = range(len(times.seconds)) if shown is None else shown
        if len(lines) <= SORTED_AT_ONCE:
            self._show_sorted(dearest_first(lines, times), line)
            return

        def take(made: Made[list[int]]) -> None:
            made.reader.close()
            self._show_sorted(made.value, line)

        self._sorting.begin(reader.path, lambda _: dearest_first(lines, times), take, lambda _: None)

    def _show_sorted(self, lines: list[int], line: int | None) -> None:
        if self._reader is None or self.document is None:
            return
        lit, self._is_sorted, self._shown = self._lit, True, SortedLines(lines)
        self._load_rows(self._reader, self.document, 0 if line is None else self._shown.row_of(line))
        self.show_links(lit)
        if line is None and self.place:
            self.post_message(self.Moved(self, self.place))

    def _show_times(self) -> None:
        """Show the times of a profile before the lines of generated code, and of a graph as a text."""
        times, document, reader = self._marks.times, self.document, self._reader
        if times is None or document is None or reader is None or self._shown.lines is not None:
            return
        if document.kind == "artifact" and document.stage == "output_code":
            calls, definitions = times.calls.get(document.id, {}), times.definitions.get(document.id, {})
            if calls or definitions:
                self._code.annotate_by(partial(time_in_code, calls, definitions), TIME_CELLS)
        elif self._kernel in times.kernels:
            line = definition_line(self._code.text, reader.get(Kernel, self._kernel).name)
            time = time_cell(times.kernels[self._kernel])
            self._code.annotate_by(lambda at: time if at == line else None, TIME_CELLS)
        elif graph := self._graph_times():
            text = graph_texts.written_text(reader, document)
            self._code.annotate_by(partial(time_in_graph, graph, text), TIME_CELLS)

    @property
    def _time_words(self) -> str:
        """Say what all that the pane shows took in the profile: ``profiled 812 µs``; empty where that is not known."""
        times, document = self._marks.times, self.document
        if times is None or document is None or self.picture:
            return ""
        if document.kind in OF_GRAPHS:
            graph = self._graph_times()
            time = graph.whole if graph else None
        elif document.kind == "artifact":
            time = times.kernels.get(self._kernel) or times.output_codes.get(document.id)
        else:
            return ""
        order = f" · {SORTED_WORDS}" if self._is_sorted else ""
        return f"profiled {time.in_words}{order}" if time else ""

    def on_row_list_heading_picked(self, event: RowList.HeadingPicked) -> None:
        event.stop()
        if event.view.title_of(event.column) == TIME_TITLE:
            self.sort_by_time()

    def write(self, reader: SessionReader, document: Document, done: Callable[[], None]) -> None:
        """Write the text of a large graph beside the screen, and call ``done`` when ``show`` has it at
        once. What is shown stays meanwhile, with a sentence below it; to show anything else abandons
        it.
        """
        self._notice.show(Content(printable(WRITING.format(what=graph_texts.words(reader, document)))), Content(STOPS))
        self._notice.display = True

        def take(made: Made[GraphText]) -> None:
            made.reader.close()
            graph_texts.keep_written(reader, document, made.value)
            self._notice.display = False
            done()

        def cannot(_: Exception) -> None:
            self._notice.show(Content(NOT_WRITTEN))

        self._beside.begin(reader.path, partial(graph_texts.written, document=document), take, cannot)

    def stop_writing(self) -> bool:
        """Abandon what is being written. Returns whether there was something."""
        self._notice.display = False
        return self._beside.stop()

    def _load_text(self, text: str, language: str, line: int) -> None:
        """Load a text. A level below a kernel shows only its code, with the line numbers of the
        whole text.
        """
        shown = self._shown.lines
        whole, text = text, text if shown is None else code_of(language, text, self._shown)
        ready = graph_texts.coloured(self._reader, self.document) if self._reader and self.document and shown is None else None
        layout = self._layout_of(language, text)
        self._code.load(ready or text, language, line=self._shown.row_of(line), numbers=shown, layout=layout)
        self._colour_text()
        if shown is not None and self.shows_machine_words and has_words(language, whole):
            self._show_machine_words(whole, shown)

    def _layout_of(self, language: str, text: str) -> LineLayout:
        is_generated = self.document is not None and self.document.kind == "artifact"
        if not is_generated:
            return AS_IT_IS  # what somebody wrote is shown as written
        return (layout_of(language, text) if self._shown.lines is not None else None) or folded(text)

    def toggle_machine_words(self) -> bool:
        """Show the address, the control bits and the live registers of each SASS instruction, or hide them.
        Returns whether the text has them.
        """
        document, reader = self.document, self._reader
        if document is None or reader is None or not has_words(document.language, text_of(reader, document)):
            return False
        self.shows_machine_words = not self.shows_machine_words
        if self.shows_machine_words:
            self._show_machine_words(text_of(reader, document), self._shown.lines or ())
        else:
            self._column.stop()
            self._code.annotate({})
        return True

    def _show_machine_words(self, text: str, lines: Sequence[int]) -> None:
        """Show the column of these lines; a long one is made beside the screen."""
        assert self._reader is not None
        if len(lines) <= FEW_LINES:
            self._code.annotate(machine_column(text, lines))
            return

        def take(made: Made[Mapping[int, Piece]]) -> None:
            made.reader.close()
            self._code.annotate(made.value)

        def cannot(_: Exception) -> None:
            self.shows_machine_words = False

        self._column.begin(self._reader.path, lambda _: machine_column(text, lines), take, cannot)

    def say(self, words: str) -> None:
        """Show why an empty pane is empty, or the progress of the work that will fill it."""
        if self.document is None and words != self._said:
            self._said = words
            self._code.load(wrapped_text(words, max(20, self._code.body_width)))

    def annotate(self, reader: SessionReader) -> None:
        """Mark the lines where something happened (a break, a recompile) and those that kernels compute,
        as far as it is known by now.
        """
        if self.document is None or self.document.kind != "source":
            return
        events, heat = line_events(reader, self.document), self._marks.lines_of(self.document)
        if (events, heat) != (self._events, self._heat):
            self._events, self._heat = events, heat
            self._write_gutter()
            kinds = {line: kernel_kind(one.dearest) for line, one in heat.items()}
            self._code.colour_numbers((lambda line: kinds.get(line, "")) if kinds else None)
            self._show_title()

    def _write_gutter(self) -> None:
        """Write what stands before the lines of the source, in as much room as the pane can give."""
        glyphs = {line: GLYPHS[one[0].what] for line, one in self._events.items()}
        self._blocks = FEW_BLOCKS if self._code.size.width < WIDE_CELLS else MANY_BLOCKS
        self._code.annotate(source_gutter(glyphs, self._heat, self._blocks))

    def _colour_text(self) -> None:
        """Give the line numbers of generated code the colours of its kernels; those of much output code
        when it is read.
        """
        document, reader = self.document, self._reader
        self._output_code.stop()
        self._kernel = 0
        if document is None or reader is None or not self._marks.is_on:
            return
        self._kernel = kernel_of_text(reader, document)
        self._show_times()
        if self._kernel:
            self._code.colour_numbers(one_kernel(self._kernel))
        elif document.stage == "output_code" and document.line_count <= COLOURED_AT_ONCE:
            self._code.colour_numbers(OutputCodeKernels(reader, document.id))
        elif document.stage == "output_code":
            output_code = document.id
            self._output_code.begin(
                reader.path, lambda of: OutputCodeKernels(of, output_code), self._take_kernels, self._without_colours
            )

    def _without_colours(self, _: Exception) -> None:
        self._code.colour_numbers(None)

    def _take_kernels(self, made: Made[OutputCodeKernels]) -> None:
        made.reader.close()
        self._code.colour_numbers(made.value)

    def show_marks_again(self) -> None:
        """Mark the kernels, or do not any more, with everything else as it is."""
        if self._reader is None or self.document is None:
            return
        if self.document.kind == "source":
            self.annotate(self._reader)
        elif self.body is self._code:
            self._code.colour_numbers(None)
            if self._shown.lines is None:
                self._code.annotate({})
            self._colour_text()
        elif self.body is self._rows:
            lit, line = self._lit, self._line_of(self.body.cursor)
            self._load_rows(self._reader, self.document, self._shown.row_of(line))
            self.show_links(lit)
        self._show_title()

    def show_old(self, old: OldFiles) -> None:
        """Say in the title of a source file that it is another one by now."""
        if old != self._old:
            self._old = old
            if self.is_mounted:
                self._show_title()

    def move_to(self, line: int) -> None:
        if self._shown.folds(line):
            self.unfold()
        if self.picture:
            self.picture.centre_on(line)
        else:
            self.body.move_to(self._row_of(line), center=True)
        self._show_title()

    @property
    def wraps(self) -> bool:
        """Return whether long lines of texts go on in the next row."""
        return self._code.wraps

    def toggle_wrap(self) -> None:
        """Wrap long lines of texts, in this and in later documents, or show each in a row again."""
        self._code.wraps = not self._code.wraps
        self._show_beginning()
        self._show_title()

    def unfold(self) -> None:
        """Show the inputs of a graph, or the directives of assembly, that were folded to a row; the cursor
        goes to the same line.
        """
        if self.document is None or self._reader is None or self._shown.opened() is self._shown:
            return
        line, lit = self._line_of(self.body.cursor), self._lit
        self._shown = self._shown.opened()
        if self.document.kind == "graph":
            self._load_rows(self._reader, self.document, line)
        else:
            self._load_text(text_of(self._reader, self.document), self.document.language, line)
        self.show_links(lit)

    def show_links(self, lines: frozenset[int], anchor: int | None = None) -> None:
        """Light these lines and bring ``anchor``, if there is one, into view. Posts nothing."""
        self._lit = lines
        if self.picture:
            if anchor is not None:
                self.picture.show_near(lines, anchor)
            self._show_title()
            return
        self.body.marks = self.body.rows_of_lines(self._shown.rows_of(lines))
        if anchor is not None:
            below_kernel = self.document is not None and is_level(self.document)
            self.body.reveal(self._row_of(anchor), center=below_kernel)  # below a kernel, many lines are lit
            self._show_beginning()
        self._show_title()

    def on_resize(self) -> None:
        self.call_after_refresh(self._lay_out_again)

    def _lay_out_again(self) -> None:
        """Lay out what depends on the width of the pane."""
        if self.document is None and self._said:
            self._code.load(wrapped_text(self._said, max(20, self._code.body_width)))
        if self._heat and (self._blocks == FEW_BLOCKS) != (self._code.size.width < WIDE_CELLS):
            self._write_gutter()
        self._show_beginning()

    def _show_beginning(self) -> None:
        """Scroll sideways so that each lit line on screen shows some of its text: code may be indented so
        deeply that it lies right of what is shown.
        """
        code, room = self._code, self._code.body_width
        if self.body is not code or not code.marks or room <= 0:  # no width yet: this is called again
            return
        lit = [row for row in sorted(code.marks) if row in code.visible_lines] or sorted(code.marks)
        texts = [code.shown_text(row).rstrip() for row in lit[:MAX_LINES_MEASURED]]
        begins = [len(text) - len(text.lstrip()) for text in texts if text]
        if begins and not code.wraps:
            seen = min(CELLS_SEEN, room // 2)
            left = min(begins) - MARGIN_CELLS if min(begins) > room // 2 else 0
            left = max(left, max(begins) + seen - room)
            code.scroll_columns_to(min(left, min(len(text) for text in texts if text) - seen))

    # what it tells the screen

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        self._show_title()
        if self.place:
            self.post_message(self.Moved(self, self.place))

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        event.stop()
        if self.picture and self.document:
            before = Place(self.document, self.picture.centre)
            if self.picture.walk() and self.place:
                self._show_title()
                self.post_message(self.Walked(self, self.place, before))
            return
        if self._shown.is_fold(self.body.line_of_row(self.body.cursor)):
            self.unfold()
        elif self.place:
            self.post_message(self.Followed(self, self.place))

    # title

    def _show_title(self) -> None:
        title = Content(title_text(self.document, self.slot))
        if self.document and self._old.holds(Place(self.document)):
            title += Content.styled(f" · {MARK}", "$text-warning")
        if self._kernel and self.document and self.document.kind == "artifact":
            title = Content(f"#{self._kernel} ") + title
        elif self.document and (legend := self._marks.legend(self.document)):
            title += Content(f" · {legend}")
        if words := self._time_words:
            title += Content(f" · {words}")
        self._title.show(title, self.position)

    @property
    def position(self) -> Content:
        """Return the region that the graph is narrowed to, how many lines are lit (``▌2 of 5`` when
        others are hidden), and the cursor's position.
        """
        body, document = self.body, self.document
        if not document or not document.line_count:
            return Content("")
        if self.picture and self.picture.found:
            return Content(f"{len(self.picture.found.nodes) - 1:,} around {self.picture.found.centre.name}")
        seen = len(self.lit)
        lit = f"▌{seen:,}" if self._lit else ""
        lit += f" of {len(self._lit):,}" if len(self._lit) > seen else ""
        count = body.line_of_row(body.line_count - 1) + 1
        at = f"{body.line_of_row(body.cursor) + 1:,}/{count:,}" if body.line_count else "0"
        if self._region is None:
            return Content("  ".join(part for part in (lit, at) if part))
        only = Content.styled(f"only {shortened(self._region[1])}", "$warning")
        return Content("  ").join([only, *([Content(lit)] if lit else []), Content(f"{at} of {document.line_count:,}")])


def shortened(name: str) -> str:
    """Return a region's name, shortened for where there is little room."""
    text = printable(name)
    return text if len(text) <= MAX_REGION_CHARACTERS else text[: MAX_REGION_CHARACTERS - 1] + "…"


def title_text(document: Document | None, slot: Slot) -> str:
    """Return the title: ``Backward · post-grad [0/0]``, or for an empty pane what belongs there."""
    if document is None:
        level = next((title for level, title in LEVEL_TITLES.items() if level == slot), "")
        return f"{level or slot or 'nothing'} – empty"
    owner = f" [{document.owner}]" if document.owner else ""
    return printable(f"{document.title}{owner}")
