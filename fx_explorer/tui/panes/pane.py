"""A linked pane shows a title, and below it a document of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message

from fx_explorer.analysis.annotated_regions import RegionKey
from fx_explorer.analysis.documents import Document, Place, node_at
from fx_explorer.analysis.graph_stages import describe_change
from fx_explorer.analysis.stage_data import StageWork
from fx_explorer.highlight import printable
from fx_explorer.model import Graph
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.folded_modules import FoldedModules
from fx_explorer.tui.content.graph_rows import COLUMNS, TIME_TITLE, GraphRows, columns_of
from fx_explorer.tui.content.presets import MISSING, Slot
from fx_explorer.tui.content.shown_lines import EVERY_LINE, ShownLines, SortedLines, lines_in
from fx_explorer.tui.failures import TellsUnreadable
from fx_explorer.tui.panes.module_folding import (
    ModuleFolding,
    describe_row,
    describe_rows,
    linked_lines_below,
)
from fx_explorer.tui.panes.pane_text import PaneTextView
from fx_explorer.tui.panes.titles import (
    OLD_MARK,
    GraphWriting,
    OldFiles,
    PaneRemark,
    PaneTitle,
    position_text,
    title_text,
)
from fx_explorer.tui.widgets.code_view import show_beginning
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.row_list import ListColumn, RowList, RowSource

if TYPE_CHECKING:
    from fx_explorer.instruments.profile.figures import GraphTimes
    from fx_explorer.tui.panes.kernel_marks import KernelMarks
    from fx_explorer.tui.panes.neighbourhood import NeighbourhoodView


NOT_SHOWN_YET = "Reading …"
"""Text of a pane before it is known what it shows."""


class Pane(TellsUnreadable, Vertical):
    """Shows a title line, then source, a graph, bytecode, IR, generated code or a kernel. Lines
    linked to the selection are lit.

    It tells where its cursor goes (``Moved``, ``Followed``) and shows what it is told. It knows
    nothing of other panes.
    """

    DEFAULT_CSS = """
    Pane { width: 1fr; height: 1fr; }
    Pane > .pane-title { background: $surface; color: $text-muted; }
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
        """Posted when the user went to a box of a picture, which moved into the middle. ``before``
        is the place that was in the middle until then.
        """

        def __init__(self, pane: Pane, place: Place, before: Place) -> None:
            super().__init__(pane, place)
            self.before = before

    def __init__(self, marks: KernelMarks, slot: Slot = "") -> None:
        """``marks`` tells for all panes whether kernels are marked."""
        super().__init__()
        self._marks = marks
        self.slot: Slot = slot
        self.document: Document | None = None
        self._title = PaneTitle()
        self._heading: tuple[str, Content, Sequence[str]] = ("", Content(""), ())
        """The name, the mark and the additions of the title."""
        self._text = PaneTextView(NOT_SHOWN_YET, marks)
        self._times = self._text.times
        self._remark = PaneRemark()
        self._writing = GraphWriting()
        self._folding = ModuleFolding(self._writing)
        self._rows = RowList(COLUMNS)
        self._rows.display = False
        self._picture: NeighbourhoodView | None = None
        """The neighbourhood of a node, once the pane has shown it."""
        self._old = OldFiles()
        self._region: RegionKey | None = None
        self._shown: ShownLines = EVERY_LINE
        self._reader: SessionReader | None = None
        self._lit: frozenset[int] = frozenset()
        self.work: StageWork | None = None
        """The stage whose effect on the operations is shown; None without one."""

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._remark
        yield self._text.code
        yield self._rows
        yield self._writing

    def on_mount(self) -> None:
        self._show_title()

    # what the screen tells it

    @property
    def plain_title(self) -> str:
        """Return the title without marks: the document's, or the purpose of a pane without one."""
        if self.document is None and self._reader is None:
            return self.slot
        return title_text(self.document, self.slot)

    @property
    def body(self) -> LineView:
        """Return the view that shows the lines."""
        if self.picture:
            return self.picture
        if self.document and self.document.kind == "graph":
            return self._rows
        return self._text.code

    @property
    def picture(self) -> NeighbourhoodView | None:
        """Return the neighbourhood on screen; None if the pane shows rows or a text."""
        is_picture = (
            self.slot == "neighbourhood"
            and self.document is not None
            and self.document.kind == "graph"
        )
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
        """Return the given lines without those that the pane hides."""
        return self._shown.shown(lines)

    def show(
        self,
        reader: SessionReader,
        document: Document | None,
        line: int = 0,
        why: str = "",
        region: RegionKey | None = None,
    ) -> None:
        """Show a document with the cursor on ``line``. None shows no document, and ``why`` if
        given.

        A graph shows only the nodes in ``region``, if one is given.
        """
        self.stop_writing()
        self.show_remark("")
        self._text.stop()
        had_focus = self.body.has_focus
        stays_sorted = self._times.is_sorted and document == self.document
        self._times.stop()
        self.document = document
        self._region = region if document and document.kind == "graph" else None
        if document:
            self._shown = self._lines_shown(reader, document)
        else:
            self._shown = EVERY_LINE
        if self.modules is None:
            self._shown = self._shown.opened_at(line)
        self._reader = reader
        self._lit = frozenset()
        if document and document.kind == "graph" and self.slot == "neighbourhood":
            self._load_picture(reader, document, line)
        elif document and document.kind == "graph":
            if region:
                self._rows.placeholder = f"No node of this graph is in {region[1]}."
            else:
                self._rows.placeholder = ""
            self._load_rows(reader, document, self._shown.row_of(line))
            if stays_sorted:
                self._sort(line)
        elif document:
            self._text.load(reader, document, self._shown, line)
            self.annotate(reader)
        else:
            sentence = f"Nothing to show here: {why}." if why else MISSING[self.slot]
            self._text.load_empty(sentence)
        self.body.display = True
        if had_focus:
            self.screen.set_focus(self.body, scroll_visible=False)
        self._rows.display = self.body is self._rows
        self._text.code.display = self.body is self._text.code
        if self._picture:
            self._picture.display = self.body is self._picture
        self._show_title()

    def _lines_shown(self, reader: SessionReader, document: Document) -> ShownLines:
        if self._region is None and self.slot != "neighbourhood":
            modules = self._folding.rows(reader, document, self._show_folded)
            if modules:
                return modules
        fates = self.work.fates if self.work else None
        return lines_in(reader, document, self._region, fates)

    @property
    def change(self) -> str:
        """Return what the shown stage changed in the operation under the cursor; empty for other
        lines.
        """
        if self.work is None or self._reader is None or self.place is None:
            return ""
        node = node_at(self._reader, self.place)
        return describe_change(self._reader, self.work, node.id) if node else ""

    def _load_picture(self, reader: SessionReader, document: Document, line: int) -> None:
        if self._picture is None:
            from fx_explorer.tui.panes.neighbourhood import (
                NeighbourhoodView,  # not needed for the first paint
            )

            self._picture = NeighbourhoodView()
            self.mount(self._picture, before=self._writing)
        self._shown = EVERY_LINE
        self._picture.load(reader, reader.get(Graph, document.id), line)

    def _load_rows(self, reader: SessionReader, document: Document, row: int) -> None:
        times, marks_kernels = self._times.of_graph(reader, document), self._marks.is_on
        columns: Sequence[ListColumn] = columns_of(
            reader,
            has_fates=self.work is not None,
            marks_kernels=marks_kernels,
            has_times=times is not None,
            is_sorted=self._times.is_sorted,
        )
        modules = self.modules
        self._rows.is_tree = modules is not None
        if modules:
            from fx_explorer.tui.content.folded_rows import (
                folded_columns,  # not for the first paint
            )

            columns = folded_columns(columns)
        rows = self._row_source(reader, document, times)
        self._rows.load(rows, columns, line=row)

    def _row_source(
        self, reader: SessionReader, document: Document, times: GraphTimes | None
    ) -> RowSource:
        marks_kernels, modules = self._marks.is_on, self.modules
        if modules:
            from fx_explorer.tui.content.folded_rows import FoldedRows  # not for the first paint

            return FoldedRows(
                reader, document, modules, self.work, marks_kernels=marks_kernels, times=times
            )
        return GraphRows(
            reader, document, self._shown, self.work, marks_kernels=marks_kernels, times=times
        )

    # folded by module

    @property
    def modules(self) -> FoldedModules | None:
        """Return the rows of a graph that is folded by module; None for any other document."""
        return self._shown if isinstance(self._shown, FoldedModules) else None

    @property
    def is_folding(self) -> bool:
        """Return whether graphs are folded by module in this pane, now or after a search."""
        return self._folding.is_on and not self._folding.is_interrupted

    def fold_modules(self) -> None:
        """Fold the graph by module, with the cursor at the row of the same node; or show every node
        again. Says what the graph is made of.
        """
        if self._reader is None or self.document is None:
            return
        was_on, was_searching = self.is_folding, self._folding.is_interrupted
        if was_on:
            self.stop_writing()
        self._folding.is_on = self._folding.is_asked = not was_on
        self._folding.is_interrupted = False
        node = self._line_of(self.body.cursor)
        self._show_folded()
        if was_searching:
            self.move_to(node)

    def _show_folded(self) -> None:
        """Show the rows of the graph again, folded or not, with the cursor at the same node."""
        reader, document = self._reader, self.document
        if reader is None or document is None or self.body is not self._rows:
            return
        self._show_rows_again(reader, document)
        if self.place:
            self.post_message(self.Moved(self, self.place))
        if self._folding.is_asked and (answer := self._folding.answer(reader, document)):
            self._folding.is_asked, self._folding.is_on = False, self.modules is not None
            self.notify(printable(answer))

    def _show_rows_again(self, reader: SessionReader, document: Document) -> None:
        """Show the rows of the graph in its own order, with the cursor at the same node."""
        line, lit = self._line_of(self.body.cursor), self._lit
        self._times.stop()
        self._shown = self._lines_shown(reader, document)
        if self.modules is None:
            self._shown = self._shown.opened_at(line)
        self._load_rows(reader, document, self._shown.row_of(line))
        self.show_links(lit)
        self._show_title()

    def _open_or_close(self, row: int) -> None:
        """Open a row of a folded graph, or close it, with the cursor on it."""
        if self.modules and self._reader and self.document:
            self._show_modules(self.modules.toggled(row), row)

    def _show_modules(self, modules: FoldedModules, row: int) -> None:
        assert self._reader is not None
        assert self.document is not None
        self._shown = modules
        self._folding.remember(self.document, modules)
        times = self._times.of_graph(self._reader, self.document)
        self._rows.exchange(self._row_source(self._reader, self.document, times), row)
        self.show_links(self._lit)

    def on_row_list_fold_wanted(self, event: RowList.FoldWanted) -> None:
        event.stop()
        modules, row = self.modules, self.body.cursor
        if modules is None:
            return
        if event.is_folding and not modules.is_open(row):
            self.body.user_moves_to(modules.row_around(row))
        elif modules.is_fold(row) and modules.is_open(row) == event.is_folding:
            self._open_or_close(row)

    @property
    def lines_here(self) -> list[int]:
        """Return the lines that the row under the cursor stands for, of many the first."""
        if self.modules and self.modules.is_fold(self.body.cursor):
            return linked_lines_below(self.modules, self.body.cursor)
        return [self.place.line] if self.place else []

    @property
    def facts_here(self) -> list[str]:
        """Return the facts of a row that stands for several nodes; empty for any other."""
        if self.modules is None:
            return []
        times = self._times.of_graph(self._reader, self.document)
        return describe_row(self.modules, self.body.cursor, times)

    def sort_by_time(self) -> bool:
        """Show the rows of the graph by their times in a profile, with the cursor on the most
        expensive; or as the graph has them again, with the cursor on the same node. Returns whether
        the pane shows times of nodes as rows.
        """
        reader, document = self._reader, self.document
        if (
            self.body is not self._rows
            or not reader
            or not document
            or self._times.of_graph(reader, document) is None
        ):
            return False
        if not self._times.is_sorted:
            self._sort()
            return True
        self._show_rows_again(reader, document)
        return True

    def _sort(self, line: int | None = None) -> None:
        """Sort the rows by their times. The cursor moves to a line of the document; for None to the
        first row, which the other panes follow.
        """
        reader, times = self._reader, self._times.of_graph(self._reader, self.document)
        if reader and times:
            self._times.sort(
                reader, times, self._shown, lambda lines: self._show_sorted(lines, line)
            )

    def _show_sorted(self, lines: list[int], line: int | None) -> None:
        if self._reader is None or self.document is None:
            return
        lit, self._times.is_sorted, self._shown = self._lit, True, SortedLines(lines)
        row = 0 if line is None else self._shown.row_of(line)
        self._load_rows(self._reader, self.document, row)
        self.show_links(lit)
        self._show_title()
        if line is None and self.place:
            self.post_message(self.Moved(self, self.place))

    def write(self, reader: SessionReader, document: Document, done: Callable[[], None]) -> None:
        """Write the text of a large graph in the background, and call ``done`` when ``show`` can
        use it. Until then the present document stays, with a note below it; showing another
        document cancels the writing.
        """
        self._writing.write(reader, document, done)

    def stop_writing(self) -> bool:
        """Stop writing the text of a graph. Returns whether one was being written."""
        return self._writing.stop()

    def toggle_machine_words(self) -> bool:
        """Show the address, the control bits and the live registers of each SASS instruction, or
        hide them. Returns whether the text has them.
        """
        if self.document is None or self._reader is None:
            return False
        return self._text.toggle_machine_words(self._reader, self.document, self._shown)

    def show_remark(self, sentence: str) -> None:
        """Show a sentence above the document; an empty one removes it."""
        self._remark.show(sentence)

    def show_message(self, words: str) -> None:
        """Show why an empty pane is empty, or the progress of the work that will fill it."""
        if self.document is None:
            self._text.show_message(words)

    def annotate(self, reader: SessionReader) -> None:
        """Mark the lines with events (a break, a recompile) and those that kernels compute, as far
        as they are known now.
        """
        document = self.document
        if document and document.kind == "source" and self._text.mark_lines(reader, document):
            self._show_title()

    def show_marks_again(self) -> None:
        """Show or hide the marks of kernels, with everything else unchanged."""
        if self._reader is None or self.document is None:
            return
        if self.document.kind == "source":
            self.annotate(self._reader)
        elif self.body is self._text.code:
            self._text.mark_kernels_again(self._reader, self.document, self._shown)
        elif self.body is self._rows:
            lit, line = self._lit, self._line_of(self.body.cursor)
            self._load_rows(self._reader, self.document, self._shown.row_of(line))
            self.show_links(lit)
        self._show_title()

    def show_old(self, old: OldFiles) -> None:
        """Say in the title whether the source file on disk has changed since the capture."""
        if old != self._old:
            self._old = old
            if self.is_mounted:
                self._show_title()

    def move_to(self, line: int) -> None:
        """Put the cursor on a line, whatever it is folded in."""
        if self.modules and self.modules.folds(line):
            opened = self.modules.opened_at(line)
            self._show_modules(opened, opened.row_of(line))
        self.put_cursor(line)

    def put_cursor(self, line: int) -> None:
        """Put the cursor on the row of a line: in a graph folded by module, on the row that it is
        folded in.
        """
        if self.modules is None and self._shown.folds(line):
            self.unfold()
        if self.picture:
            self.picture.centre_on(line)
        else:
            self.body.move_to(self._row_of(line), center=True)
        self._show_position()

    @property
    def wraps(self) -> bool:
        """Return whether long lines of texts continue in the next row."""
        return self._text.code.wraps

    def toggle_wrap(self) -> None:
        """Wrap long lines of texts, in this and in later documents, or show each in a row again."""
        self._text.code.wraps = not self._text.code.wraps
        self._show_beginning()
        self._show_title()

    def unfold(self) -> None:
        """Show the inputs of a graph, or the directives of assembly, that were folded to a row; the
        cursor goes to the same line.
        """
        if self.document is None or self._reader is None or self._shown.unfolded() is self._shown:
            return
        if self.modules:
            self._folding.is_interrupted = True
            self._show_folded()
            return
        line, lit = self._line_of(self.body.cursor), self._lit
        self._shown = self._shown.unfolded()
        if self.document.kind == "graph":
            self._load_rows(self._reader, self.document, line)
        else:
            self._text.load(self._reader, self.document, self._shown, line)
        self.show_links(lit)

    def show_links(self, lines: frozenset[int], anchor: int | None = None) -> None:
        """Highlight these lines and scroll to ``anchor``, if given. Posts nothing."""
        self._lit = lines
        if self.picture:
            if anchor is not None:
                self.picture.show_near(lines, anchor)
            self._show_position()
            return
        self.body.marks = self.body.rows_of_lines(self._shown.rows_of(lines))
        if anchor is not None:
            below_kernel = self.document is not None and self.document.is_level
            self.body.reveal(
                self._row_of(anchor), center=below_kernel
            )  # below a kernel, many lines are lit
            self._show_beginning()
        self._show_position()

    def on_code_view_resized(self) -> None:
        # The code alone is resized where it takes the place of a table.
        self.call_after_refresh(self._lay_out_again)

    def _lay_out_again(self) -> None:
        """Lay out what depends on the width of the code."""
        self._text.lay_out_again()
        self._show_beginning()

    def _show_beginning(self) -> None:
        if self.body is self._text.code:
            show_beginning(self._text.code)

    # what it tells the screen

    def on_line_view_moved(self, event: LineView.Moved) -> None:
        event.stop()
        self._show_position()
        if self.place:
            self.post_message(self.Moved(self, self.place))

    def on_line_view_followed(self, event: LineView.Followed) -> None:
        event.stop()
        if self.picture and self.document:
            before = Place(self.document, self.picture.centre)
            if self.picture.walk() and self.place:
                self._show_position()
                self.post_message(self.Walked(self, self.place, before))
            return
        row = self.body.line_of_row(self.body.cursor)
        if self.modules and self.modules.is_fold(row):
            self._open_or_close(row)
        elif self._shown.is_fold(row):
            self.unfold()
        elif self.place:
            self.post_message(self.Followed(self, self.place))

    def on_line_view_found(self, event: LineView.Found) -> None:
        # It bubbles on to the line in which the user types.
        if self._folding.is_interrupted and event.done and not event.pattern:
            self._folding.is_interrupted = False
            node = self._line_of(self.body.cursor)
            self._show_folded()
            self.move_to(node)

    def on_row_list_heading_picked(self, event: RowList.HeadingPicked) -> None:
        event.stop()
        if event.view.title_of(event.column) == TIME_TITLE:
            self.sort_by_time()

    # title

    def _show_title(self) -> None:
        self._heading = self._written_heading()
        self._show_position()

    def _show_position(self) -> None:
        """Show the title again, because the cursor is elsewhere or other lines are lit."""
        self._title.show_title(*self._heading, self.position)

    def _written_heading(self) -> tuple[str, Content, Sequence[str]]:
        """Return the name of the document, the mark of an old one, and what the title adds."""
        title, mark = self.plain_title, Content("")
        if self.document and self._old.holds(Place(self.document)):
            mark = Content.styled(f" · {OLD_MARK}", "$text-warning")
        kernel = self._text.kernel
        legend: Sequence[str] = ()
        if kernel and self.document and self.document.kind == "artifact":
            title = f"#{kernel} {title}"
        elif self.document and not self.picture:
            legend = self._marks.legend(self.document)
        time = "" if self.picture else self._times.describe(self._reader, self.document, kernel)
        folded = describe_rows(self.modules) if self.modules else ""
        return title, mark, [*filter(None, (time, folded)), *legend]

    @property
    def position(self) -> Content:
        """Return the region that the graph is narrowed to, how many lines are lit (``▌2 of 5`` when
        others are hidden), and the cursor's position.
        """
        document = self.document
        if not document or not document.line_count:
            return Content("")
        if self.picture and self.picture.neighbourhood:
            return Content(
                f"{len(self.picture.neighbourhood.nodes) - 1:,} around "
                f"{self.picture.neighbourhood.centre.name}"
            )
        return position_text(self.body, document, self._region, len(self._lit), len(self.lit))
