"""A table in a pane lists nodes of a graph, guards, an outline. It asks its source only for the
page on screen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, zip_longest
from math import ceil
from typing import Literal, NamedTuple, Protocol

from rich.cells import cell_len
from textual import events
from textual.message import Message

from fx_explorer.cut_text import cell_count, cut_cells
from fx_explorer.drawing.view_table import Keeps
from fx_explorer.highlight import printable
from fx_explorer.tui.widgets.line_painter import Piece, crop
from fx_explorer.tui.widgets.line_view import LineView

Cell = str | Piece | list[Piece]
"""A text in its column's kind, ``(text, kind)``, or a list of such pieces side by side."""

Row = Sequence[Cell]
"""One cell per column; missing cells at the end are empty."""

DIFFERS = "differs"
"""Kind of the piece in which a cell differs from the one beside it. Where the cell does not fit, it
is shown from shortly before this piece on.
"""

PAGE_ROWS = 32
"""Rows read at once. It is less than a screen, so that each page-down reads about as many rows as
it shows, instead of none and then four times as many.
"""

PAGES_KEPT = 32
GAP = 2
"""Cells between two columns."""

NARROW_GAP = 1
"""Cells between two columns in a pane that is narrow for them."""


class RowSource(Protocol):
    """Gives rows to a RowList. Both calls must be quick: they happen while a frame is painted."""

    def __len__(self) -> int:
        """Return the present number of rows, which may grow."""

    def page(self, start: int, stop: int) -> Sequence[Row]:
        """Return rows ``start`` to ``stop`` (exclusive); fewer at the end."""


class Rows:
    """A RowSource of rows that are all in memory."""

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def page(self, start: int, stop: int) -> Sequence[Row]:
        return self._rows[start:stop]


@dataclass(frozen=True, slots=True)
class ListColumn:
    """The look of one column. Its width follows the rows seen so far, between ``min_width`` and
    ``max_width`` cells.
    """

    title: str = ""
    kind: str = "text"
    """Kind of cells that do not name one: a Kind of highlight.py or a tone of theme.py."""
    align: Literal["left", "right"] = "left"
    min_width: int = 4
    max_width: int = 40
    """Maximum number of cells, but for a last column whose start is shown, which is not cut: the
    user scrolls sideways to read on.
    """
    priority: int = 0
    """If the pane is too narrow, columns with the highest number are left out first; columns with 0
    never are.
    """
    keeps: Keeps = "start"
    """The part of a long cell that is shown: the end says more in ``model.layers.0.mlp``, and in
    ``triton_poi_fused_layer_norm_2`` the number at the end distinguishes it from its neighbours.
    """
    arrow: str = ""
    """Shown after the title of the column by which the rows are sorted: ``▲`` or ``▼``."""
    narrow_width: int = 0
    """Minimum number of cells in a pane that is too narrow for ``min_width``: before this column is
    left out, it and the others shrink to that. 0 for a column that does not.
    """
    omits: tuple[str, ...] = ()
    """Prefixes of which a cell loses one when it does not fit: they are the same in most rows."""
    short: Mapping[str, str] = field(default_factory=dict)
    """Text of a cell, or of the title → shorter text, for a pane that is too narrow for all columns
    as they are: ``fwd`` for ``forward``.
    """

    @property
    def heading(self) -> str:
        return self._with_arrow(self.title)

    @property
    def short_heading(self) -> str:
        """Return the heading with the shorter title, if there is one."""
        return self._with_arrow(self.short.get(self.title, self.title))

    def _with_arrow(self, title: str) -> str:
        return f"{title} {self.arrow}".strip() if self.arrow else title

    @property
    def short_cells(self) -> int:
        """Return the cells of the longest shorter text; 0 where there is none."""
        texts = (text for text in self.short.values() if text != self.short.get(self.title))
        return max((cell_len(text) for text in texts), default=0)


class RowList(LineView):
    """Rows in columns whose widths follow the pane, with a header line when a column has a
    title.
    """

    shows_cuts = True

    class HeadingPicked(Message):
        """Posted by a click on the heading of a column."""

        def __init__(self, view: RowList, column: int) -> None:
            super().__init__()
            self.view = view
            self.column = column

    class FoldWanted(Message):
        """Posted by ← and → if the rows are a tree."""

        def __init__(self, view: RowList, is_folding: bool) -> None:
            super().__init__()
            self.view = view
            self.is_folding = is_folding

    is_tree = False
    """Whether the rows are a tree: ← and → then fold, and do not scroll."""

    def __init__(
        self,
        columns: Sequence[ListColumn],
        source: RowSource | None = None,
        *,
        placeholder: str = "",
        header: bool = True,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(placeholder=placeholder, name=name, id=id, classes=classes)
        self._columns = tuple(columns)
        self._source: RowSource = source or Rows()
        self._wants_header = header
        self._count = len(self._source)
        self._pages: dict[int, Sequence[Row]] = {}
        self._natural = [cell_len(column.heading) for column in self._columns]
        self._layout: ColumnLayout | None = None
        self._laid_out_for = 0
        """The cells that the columns share in this layout."""

    # what an application uses

    def load(
        self, source: RowSource, columns: Sequence[ListColumn] | None = None, *, line: int = 0
    ) -> None:
        """Show other rows, with the cursor on ``line``. Marks and selection are cleared."""
        if columns is not None:
            self._columns = tuple(columns)
        self._source = source
        self._natural = [cell_len(column.heading) for column in self._columns]
        self.forget_place()
        self.reload()
        self.move_to(line, center=True)

    def exchange(self, source: RowSource, line: int) -> None:
        """Show other rows of the same columns in place, with the cursor on ``line``: the scroll
        position stays as far as the cursor allows. Marks are cleared.
        """
        top = self.scroll_offset.y
        self._source = source
        self.marks = frozenset()
        self.reload()
        self.scroll_lines_to(top)
        self.move_to(line)

    def reload(self) -> None:
        """Read the source again, because it has more or other rows. Cursor and scroll position
        stay.
        """
        self._count = len(self._source)
        self._pages.clear()
        self._layout = None
        self.content_changed()

    @property
    def source(self) -> RowSource:
        return self._source

    def row(self, line: int) -> Row:
        """Return the row at ``line``, from the page it is on. Raises IndexError when the source
        does not have it (any more).
        """
        page = line // PAGE_ROWS
        rows = self._pages.get(page)
        if rows is None:
            rows = self._fetch(page)
        return rows[line % PAGE_ROWS]

    # what LineView asks

    @property
    def line_count(self) -> int:
        return self._count

    @property
    def content_width(self) -> int:
        widths, gap = self._widths()
        if not widths:
            return 0
        last, width = widths[-1]
        if self._columns[last].keeps == "start":
            width = max(self._natural[last], width)
        return sum(width + gap for _, width in widths[:-1]) + width

    @property
    def has_header(self) -> bool:
        return self._wants_header and any(column.title for column in self._columns)

    def header_tokens(self) -> Sequence[Piece]:
        widths, gap = self._widths()
        cells: list[Piece] = []
        for index, width in widths:
            column = self._columns[index]
            is_whole = cell_len(column.heading) <= width
            text = column.heading if is_whole else column.short_heading
            is_last = index == widths[-1][0]
            cells += _fit([(text, "header")], width, column, gap, is_last)
        return cells

    def title_of(self, column: int) -> str:
        """Return the title of a column, by its index."""
        return self._columns[column].title

    def column_at(self, x: int) -> int | None:
        """Return the column at cell ``x`` of this widget; None outside of all columns."""
        left = self._margin - self.scroll_offset.x
        widths, gap = self._widths()
        for index, width in widths:
            if left <= x < left + width + gap:
                return index
            left += width + gap
        return None

    def action_columns_by(self, columns: int) -> None:
        if self.is_tree:
            self.post_message(self.FoldWanted(self, columns < 0))
        else:
            super().action_columns_by(columns)

    def on_click(self, event: events.Click) -> None:
        if self._is_track(event):
            return
        if event.y >= self._header_height:  # LineView moves the cursor there
            if event.chain == 1 and self._is_link(self.line_at(event.y), event.x):
                self.call_later(self.action_follow)
            return
        column = self.column_at(event.x)
        if column is not None:
            event.stop()
            self.post_message(self.HeadingPicked(self, column))

    def _is_link(self, line: int | None, x: int) -> bool:
        """Return whether the cell of a line at cell ``x`` of this widget shows a link."""
        column = self.column_at(x)
        if line is None or column is None:
            return False
        row = self.row(line)
        if column >= len(row):
            return False
        pieces = _pieces(row[column], self._columns[column].kind)
        return any(kind == "link" and text.strip() for text, kind in pieces)

    def line_tokens(self, line: int) -> Sequence[Piece]:
        try:
            row = self.row(line)
        except IndexError:
            return [("this row is gone: the list changed", "muted")]
        widths, gap = self._widths()
        tokens: list[Piece] = []
        for index, width in widths:
            if index < len(row):
                column = self._columns[index]
                pieces = _pieces(row[index], column.kind)
                is_last = index == widths[-1][0]
                tokens += _fit(pieces, width, column, gap, is_last, column.keeps)
        return tokens

    def line_text(self, line: int) -> str:
        return "  ".join("".join(_texts(cell)) for cell in self.row(line)).rstrip()

    def search_text(self, start: int, stop: int) -> Sequence[str]:
        # These rows are not kept: a find through 100,000 rows must not fill the memory, nor push
        # out the page on screen.
        lines = []
        for row in self._source.page(start, stop):
            texts = chain.from_iterable(map(_texts, row))
            lines.append(" ".join(texts))
        return lines

    # pages and widths

    def _fetch(self, page: int) -> Sequence[Row]:
        rows = self._source.page(page * PAGE_ROWS, min((page + 1) * PAGE_ROWS, self._count))
        if len(self._pages) >= PAGES_KEPT:
            del self._pages[next(iter(self._pages))]
        self._pages[page] = rows
        self._measure(rows)
        return rows

    def _measure(self, rows: Sequence[Row]) -> None:
        """Widen columns to fit these rows."""
        widest = [max(map(_cells, column)) for column in zip_longest(*rows, fillvalue="")]
        natural = [
            max(pair)
            for pair in zip_longest(self._natural, widest[: len(self._natural)], fillvalue=0)
        ]
        if natural != self._natural:
            before, self._layout = self._layout, None
            self._natural = natural
            if self._widths() == before:
                self.call_later(self._resize_canvas)
            else:
                self.call_later(self.content_resized)

    def _widths(self) -> ColumnLayout:
        room = self.body_width
        if (
            self._layout is None or room != self._laid_out_for
        ):  # Textual paints before it tells of another size
            if self._count and not self._pages:
                self._fetch(0)
            self._layout = column_layout(self._columns, self._natural, room)
            self._laid_out_for = room
        return self._layout


class ColumnLayout(NamedTuple):
    """The columns that are shown, from left to right."""

    widths: tuple[tuple[int, int], ...]
    """(index, cells) of each."""
    gap: int
    """Cells between two of them."""


def column_layout(columns: Sequence[ListColumn], natural: Sequence[int], room: int) -> ColumnLayout:
    """Lay out columns in ``room`` cells. Where one with a ``narrow_width`` would be left out, they
    are set closer, if that shows more of them.
    """
    widths = column_widths(columns, natural, room)
    shown = {index for index, _ in widths}
    missing = [column for at, column in enumerate(columns) if at not in shown]
    if any(column.narrow_width for column in missing):
        narrow = [
            replace(column, min_width=column.narrow_width or column.min_width) for column in columns
        ]
        closer = column_widths(narrow, natural, room, NARROW_GAP)
        if len(closer) > len(widths):
            return ColumnLayout(closer, NARROW_GAP)
    return ColumnLayout(widths, GAP)


def column_widths(
    columns: Sequence[ListColumn], natural: Sequence[int], room: int, gap: int = GAP
) -> tuple[tuple[int, int], ...]:
    """Return (index, width) of the columns that fit in ``room`` cells with ``gap`` between them.
    Where one would be left out or cut, those with shorter words take fewer cells; then the least
    important are left out, and the widest shrink.
    """
    widths = _widths_in(columns, natural, room, gap)
    if any(column.short for column in columns) and _is_tight(columns, natural, widths):
        fewer = []
        for column, cells in zip(columns, natural, strict=True):
            least = max(column.short_cells, cell_len(column.short_heading))
            fewer.append(min(cells, least) if column.short else cells)
        return _widths_in(columns, fewer, room, gap)
    return widths


def _is_tight(
    columns: Sequence[ListColumn], natural: Sequence[int], widths: Sequence[tuple[int, int]]
) -> bool:
    """Return whether a column is left out, or another than the last one is cut for want of room."""
    if len(widths) < len(columns):
        return True
    return any(
        width < min(natural[index], columns[index].max_width) for index, width in widths[:-1]
    )


def _widths_in(
    columns: Sequence[ListColumn], natural: Sequence[int], room: int, gap: int
) -> tuple[tuple[int, int], ...]:
    shown = list(range(len(columns)))
    widths = [max(c.min_width, min(n, c.max_width)) for c, n in zip(columns, natural, strict=True)]
    if room <= 0:
        return tuple((index, widths[index]) for index in shown)

    def excess() -> int:
        return sum(widths[index] for index in shown) + gap * (len(shown) - 1) - room

    least = {index: columns[index].min_width for index in shown}
    while sum(least[index] for index in shown) + gap * (len(shown) - 1) > room:
        droppable = [index for index in shown if columns[index].priority > 0]
        if not droppable:
            break
        shown.remove(max(droppable, key=lambda index: (columns[index].priority, index)))
    while (over := excess()) > 0:
        shrinkable = [index for index in shown if widths[index] > least[index]]
        if not shrinkable:
            break
        most = max(widths[index] for index in shrinkable)
        widest = [index for index in shrinkable if widths[index] == most]
        second = max((widths[index] for index in shrinkable if widths[index] < most), default=0)
        target = min(max(most - ceil(over / len(widest)), second), most - 1)
        for index in widest:
            widths[index] = max(target, least[index])
    return tuple((index, widths[index]) for index in shown)


def _pieces(cell: Cell, kind: str) -> list[Piece]:
    if isinstance(cell, str):
        return [(printable(cell), kind)]
    if isinstance(cell, tuple):
        return [(printable(cell[0]), cell[1])]
    return [(printable(text), piece_kind) for text, piece_kind in cell]


def _texts(cell: Cell) -> list[str]:
    return [text for text, _ in _pieces(cell, "")]


def _cells(cell: Cell) -> int:
    if isinstance(cell, list):
        return sum(_cells(piece) for piece in cell)
    text = cell if isinstance(cell, str) else cell[0]
    if text.isascii() and text.isprintable():
        return len(text)
    return cell_len(printable(text))


def _fit(
    pieces: list[Piece],
    width: int,
    column: ListColumn,
    gap: int,
    is_last: bool,
    keeps: Keeps = "start",
) -> list[Piece]:
    """Return ``pieces`` in ``width`` cells, with the gap after them. A ``…`` replaces the cut-off
    part.
    """
    cells = sum(cell_count(text) for text, _ in pieces)
    if cells > width and column.short:
        pieces = [(column.short.get(text, text), kind) for text, kind in pieces]
        cells = sum(cell_count(text) for text, _ in pieces)
    if cells > width and column.omits:
        pieces = _without_prefix(pieces, column.omits)
        cells = sum(cell_count(text) for text, _ in pieces)
    if cells > width and any(kind == DIFFERS for _, kind in pieces):
        pieces, cells = _around_difference(pieces, width), width
    elif cells > width and not (is_last and keeps == "start"):
        pieces, cells = _cut(pieces, width, keeps), width
    after = "" if is_last else " " * gap
    padding = " " * max(0, width - cells)
    if column.align == "right":
        return _filled(padding, pieces, after)
    if is_last:
        return pieces
    return _filled("", pieces, padding + after)


def _without_prefix(pieces: list[Piece], prefixes: tuple[str, ...]) -> list[Piece]:
    text, kind = pieces[0]
    for prefix in prefixes:
        if text.startswith(prefix):
            return [(text.removeprefix(prefix), kind), *pieces[1:]]
    return pieces


def _filled(before: str, pieces: list[Piece], after: str) -> list[Piece]:
    """Return the pieces with spaces around them. A single piece stays single if its spaces are
    invisible, because each piece costs time at every level of Textual.
    """
    if len(pieces) == 1 and pieces[0][1] != "link":
        return [(before + pieces[0][0] + after, pieces[0][1])]
    return [(before, "text"), *pieces, (after, "text")]


def _cut(pieces: list[Piece], width: int, keeps: Keeps) -> list[Piece]:
    if keeps == "start":
        return _shorten(pieces, width)
    is_path = keeps == "end" or any("." in text for text, _ in pieces)
    end_width = width if is_path else width // 2 + 1
    if keeps == "both":
        end_width = 2 * width // 3
    end = _end_of(pieces, end_width)
    start, _ = crop([(text, kind, False) for text, kind in pieces], 0, width - cell_len(end[0]))
    return [*((text, kind) for text, kind, _ in start), end]


def _around_difference(pieces: list[Piece], width: int) -> list[Piece]:
    """Return the part of a cell around the piece that differs. The text before it is the same in
    the cell beside, so that both show the same part.
    """
    before = 0
    for text, kind in pieces:
        if kind == DIFFERS:
            break
        before += cell_count(text)
    whole = sum(cell_count(text) for text, _ in pieces)
    skipped = min(before - width // 3, whole - width + 1)
    if skipped <= 1:
        return _shorten(pieces, width)
    shown: list[Piece] = [("…", "muted")]
    for text, kind in pieces:
        cells = cell_count(text)
        if skipped < cells:
            shown.append((cut_cells(text, max(0, skipped), cells), kind))
        skipped -= cells
    if sum(cell_count(text) for text, _ in shown) > width:
        return _shorten(shown, width)
    rest = width - sum(cell_count(text) for text, _ in shown)
    return [*shown, (" " * rest, "text")]


def _end_of(pieces: list[Piece], width: int) -> Piece:
    """Return the end of a cell as one piece, in one kind."""
    text = "".join(text for text, _ in pieces)
    cells = cell_len(text)
    end = cut_cells(text, cells - width + 1, cells)
    return ("…" + " " * (width - 1 - cell_len(end)) + end, pieces[-1][1])


def _shorten(pieces: list[Piece], width: int) -> list[Piece]:
    shown: list[Piece] = []
    room = width - 1
    for text, kind in pieces:
        cells = cell_len(text)
        if cells > room:
            cut = cut_cells(text, 0, room)
            shown.append((cut + "…" + " " * (room - cell_len(cut)), kind))
            return shown
        shown.append((text, kind))
        room -= cells
    return shown
