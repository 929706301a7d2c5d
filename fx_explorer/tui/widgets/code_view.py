"""A text is shown in a pane: source, generated code, bytecode, IR, console output, or a diff."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from rich.cells import cell_len
from textual.message import Message

from fx_explorer.highlight import TAB_SIZE, Lines, printable
from fx_explorer.tui.widgets.line_painter import Piece, crop
from fx_explorer.tui.widgets.line_view import LineView
from fx_explorer.tui.widgets.text_layout import AS_IT_IS, LineLayout, WrappedRows, hanging

Annotation = Piece | list[Piece]
"""One text, or several side by side."""

_NO_ANNOTATIONS: Mapping[int, Sequence[Piece]] = {}


class CodeView(LineView):
    """A text by lines, coloured, with line numbers and, between number and text, an optional column
    of annotations.

    Lines count from 0, as everywhere in the application; the numbers that the user sees count from
    1. Indentation can be folded, lines laid out in columns, and long ones wrapped. A wrapped line
    takes several rows, and what LineView calls a line is such a row (``line_of_row``,
    ``rows_of_line``).
    """

    class Resized(Message):
        """Posted when the view has another size, or is shown for the first time."""

    def __init__(
        self,
        text: str = "",
        language: str = "text",
        *,
        placeholder: str = "",
        line_numbers: bool = True,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(placeholder=placeholder, name=name, id=id, classes=classes)
        self._lines = Lines(text, language)
        self._line_numbers = line_numbers
        self._annotation_of: Callable[[int], Sequence[Piece] | None] = _NO_ANNOTATIONS.get
        self._annotation_width = 0
        self._kind_of_number: Callable[[int], str | None] | None = None
        self._numbers: Sequence[int] | None = None
        self._layout: LineLayout = AS_IT_IS
        self._wraps = False
        self._wrapped: WrappedRows | None = None
        """The rows of wrapped lines; None if each line has one row. Cursor and marks count in these
        rows.
        """
        self._number_width = self._cells_of_numbers()

    # what an application uses

    def load(
        self,
        text: str | Lines,
        language: str = "text",
        *,
        line: int = 0,
        numbers: Sequence[int] | None = None,
        layout: LineLayout = AS_IT_IS,
    ) -> None:
        """Show another text, with the cursor on ``line`` of it. Marks and annotations are dropped;
        a find starts again.

        A long text can be made ``Lines`` beside the screen: to find its lines takes 0.1 s for
        300,000 of them. ``numbers`` are the lines' own numbers, from 0, where the text leaves some
        out. ``layout`` says how lines are shown; what is copied is the text as it is.
        """
        self._lines = text if isinstance(text, Lines) else Lines(text, language)
        self._wrapped, self._layout = None, layout
        self._numbers = numbers
        self._annotation_of, self._annotation_width, self._kind_of_number = (
            _NO_ANNOTATIONS.get,
            0,
            None,
        )
        self.forget_place()
        self._lay_out()
        self.move_to(self.rows_of_line(line)[0], center=True)

    @property
    def wraps(self) -> bool:
        """Return whether long lines continue in the next row."""
        return self._wraps

    @wraps.setter
    def wraps(self, wraps: bool) -> None:
        self._wraps = wraps
        self._lay_out()

    def append(self, text: str) -> None:
        """Add text at the end. A cursor on the last line stays on the last line, so that the user
        follows a growing text.
        """
        was_at_end = self.cursor >= self.line_count - 1
        self._lines.append(text)
        self._lay_out()
        if was_at_end:
            self.move_to(self.line_count - 1)

    def annotate(self, annotations: Mapping[int, Annotation]) -> None:
        """Show short texts in a column left of the lines. An empty mapping removes the column.

        ``annotations`` maps a line to (text, kind), or to several of these.
        """
        pieces = {line: _printable_pieces(annotation) for line, annotation in annotations.items()}
        self._annotation_of = pieces.get
        self._annotation_width = max(map(_cells, pieces.values()), default=-1) + 1
        self._lay_out()

    def annotate_by(self, piece_of: Callable[[int], Piece | None], cells: int) -> None:
        """Show a column of ``cells`` like that of ``annotate``, for a text with so many annotations
        that each is computed when its line is on screen.
        """

        def pieces_of(line: int) -> Sequence[Piece] | None:
            piece = piece_of(line)
            return _printable_pieces(piece) if piece else None

        self._annotation_of = pieces_of
        self._annotation_width = cells + 1
        self._lay_out()

    def colour_numbers(self, kind_of: Callable[[int], str | None] | None) -> None:
        """Show the number of each line in the kind that ``kind_of`` returns; an empty kind, and
        None, mean that of the gutter. It is called for lines on screen only.
        """
        if kind_of is not self._kind_of_number:
            self._kind_of_number = kind_of
            self.content_resized()

    @property
    def text(self) -> str:
        """Return the whole original text, including unsafe characters."""
        return self._lines.text

    @property
    def language(self) -> str:
        return self._lines.language

    # rows and lines

    def line_of_row(self, row: int) -> int:
        """Return the line of the text that a row shows."""
        if self._wrapped:
            return self._wrapped.line_of(row)
        return row

    def rows_of_line(self, line: int) -> range:
        """Return the rows that a line of the text takes."""
        if self._wrapped:
            return self._wrapped.rows_of(line)
        return range(line, line + 1)

    def rows_of_lines(self, lines: frozenset[int]) -> frozenset[int]:
        if self._wrapped:
            return frozenset(chain.from_iterable(map(self._wrapped.rows_of, lines)))
        return lines

    @property
    def _row_room(self) -> int:
        return self.body_width - 1

    def _lay_out(self) -> None:
        """Lay out the lines for this width, keeping the cursor and the highlights on the same
        lines.
        """
        self._number_width = self._cells_of_numbers()
        self._layout = self._layout.fitted(self._row_room)
        line, lit = self.line_of_row(self.cursor), frozenset(map(self.line_of_row, self.marks))
        top = self.line_of_row(self.scroll_offset.y)
        is_wrapped = self._wraps and self._row_room > 0 and len(self._lines)
        if not is_wrapped and self._wrapped is None:
            self.content_changed()  # rows are lines, as before
            return
        texts = map(self._shown_text, range(len(self._lines)))
        if is_wrapped:
            self._wrapped = WrappedRows(texts, self._row_room)
        else:
            self._wrapped = None
        self.content_changed()
        self.scroll_lines_to(self.rows_of_line(top)[0])
        self.marks = self.rows_of_lines(lit)
        self.move_to(self.rows_of_line(line)[0])

    def on_resize(self) -> None:
        self.post_message(self.Resized())
        if self._wraps or self._layout.fitted(self._row_room) != self._layout:
            self._lay_out()

    # what LineView asks

    @property
    def line_count(self) -> int:
        rows = self._wrapped
        return len(rows) if rows else len(self._lines)

    @property
    def content_width(self) -> int:
        if self._wrapped:
            return self._row_room
        text = self._lines.text
        cells = self._lines.longest if text.isascii() else self._lines.longest * 2
        if "\t" in text[:100_000]:
            return cells * TAB_SIZE
        return cells

    @property
    def gutter_width(self) -> int:
        numbers = self._number_width + 1 if self._line_numbers else 0
        return numbers + self._annotation_width

    def _cells_of_numbers(self) -> int:
        greatest = self._numbers[-1] + 1 if self._numbers else len(self._lines)
        return len(str(greatest))

    def gutter_tokens(self, row: int) -> Sequence[Piece]:
        line = self.line_of_row(row)
        if row != self.rows_of_line(line)[0]:
            if self.gutter_width:
                return [(" " * self.gutter_width, "gutter")]
            return []
        tokens: list[Piece] = []
        if self._line_numbers:
            number = self._numbers[line] if self._numbers else line
            kind = self._kind_of_number(line) if self._kind_of_number else ""
            tokens.append((f"{number + 1:>{self._number_width}} ", kind or "gutter"))
        if self._annotation_width:
            *before, (text, kind) = self._annotation_of(line) or [("", "annotation")]
            room = self._annotation_width - _cells(before) - cell_len(text)
            tokens += [*before, (text + " " * room, kind)]
        return tokens

    def line_tokens(self, row: int) -> Sequence[Piece]:
        rows = self._wrapped
        if rows is None:
            return self._layout.tokens(self._lines[row])
        line = rows.line_of(row)
        tokens = self._layout.tokens(self._lines[line])
        start, stop = rows.part(row)
        if not start and stop is None:
            return tokens
        room = self._row_room
        cells = room if stop is None else stop - start
        part, _ = crop([(text, kind, False) for text, kind in tokens], start, cells)
        indent = " " * hanging(self._shown_text(line), room) if start else ""
        return [(indent, "text")] * bool(indent) + [(text, kind) for text, kind, _ in part]

    def search_text(self, start: int, stop: int) -> Sequence[str]:
        """Return the texts that a find searches, by row. The first row of a wrapped line has the
        whole line, so that a match may cross the wrap.
        """
        rows = self._wrapped
        if rows is None:
            return [self._shown_text(line) for line in range(start, stop)]
        texts = []
        for row in range(start, stop):
            if rows.is_first(row):
                texts.append(self._shown_text(rows.line_of(row)))
            else:
                texts.append("")
        return texts

    def _shown_text(self, line: int) -> str:
        return self._layout.text(self._lines.plain(line))

    def line_text(self, row: int) -> str:
        return self._lines.raw(self.line_of_row(row))

    def shown_text(self, row: int) -> str:
        """Return the text of a row's whole line, as it is shown."""
        return self._shown_text(self.line_of_row(row))

    def text_to_copy(self) -> str:
        rows = self.selected or range(self.cursor, min(self.cursor + 1, self.line_count))
        return "\n".join(map(self._lines.raw, dict.fromkeys(map(self.line_of_row, rows))))


def _printable_pieces(annotation: Annotation) -> Sequence[Piece]:
    pieces = annotation if isinstance(annotation, list) else [annotation]
    return [(printable(text), kind) for text, kind in pieces]


def _cells(pieces: Sequence[Piece]) -> int:
    return sum(cell_len(text) for text, _ in pieces)


SIGNS = {"+": "good", "-": "bad"}

HEADINGS = ("--- ", "+++ ", "@@", "\\")


class DiffView(CodeView):
    """The user sees ``+`` and ``-`` lines lit, headings apart, and every line coloured as
    Python.
    """

    def __init__(self, diff: str) -> None:
        super().__init__(diff, line_numbers=False)
        self._code = _code_of(diff)

    def show(self, diff: str) -> None:
        """Show another diff, from its first line."""
        self._code = _code_of(diff)
        self.load(diff)
        self._light()

    def on_mount(self) -> None:
        super().on_mount()
        self._light()

    def _light(self) -> None:
        self.marks = frozenset(line for line in range(self.line_count) if self._sign(line))

    def line_tokens(self, line: int) -> Sequence[Piece]:
        text = self._lines.raw(line)
        if text.startswith(HEADINGS):
            return [(printable(text), "muted")]
        return [(printable(text[:1]), SIGNS.get(text[:1], "text")), *self._code[line]]

    def _sign(self, line: int) -> str:
        text = self._lines.raw(line)
        if text[:1] in SIGNS and not text.startswith(HEADINGS):
            return text[:1]
        return ""


def _code_of(diff: str) -> Lines:
    return Lines("\n".join(line[1:] for line in diff.split("\n")), "python")


MAX_LINES_MEASURED = 50

MARGIN_CELLS = 4

CELLS_SEEN = 12
"""Minimum number of cells of a highlighted line that are scrolled into view."""


def show_beginning(code: CodeView) -> None:
    """Scroll sideways so that each highlighted line on screen shows some of its text: deeply
    indented code may begin to the right of the visible part.
    """
    room = code.body_width
    if not code.marks or room <= 0:  # no width yet: this is called again
        return
    lit = [row for row in sorted(code.marks) if row in code.visible_lines] or sorted(code.marks)
    texts = [code.shown_text(row).rstrip() for row in lit[:MAX_LINES_MEASURED]]
    begins = [len(text) - len(text.lstrip()) for text in texts if text]
    if begins and not code.wraps:
        seen = min(CELLS_SEEN, room // 2)
        left = min(begins) - MARGIN_CELLS if min(begins) > room // 2 else 0
        left = max(left, max(begins) + seen - room)
        code.scroll_columns_to(min(left, min(len(text) for text in texts if text) - seen))
