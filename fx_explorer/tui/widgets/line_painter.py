"""The tokens of a line become a Strip in the colours of the theme, and the strips of the lines
around are remembered.

Measured at 200×50: a page of code paints in 5 ms because each line is one finished strip, coloured
once with its background.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, pairwise
from typing import TYPE_CHECKING, NamedTuple

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from fx_explorer.cut_text import cell_count, cut_cells
from fx_explorer.tui.theme import CURSOR, MARKED, Palette
from fx_explorer.tui.widgets import scroll_track

if TYPE_CHECKING:
    from fx_explorer.tui.widgets.line_canvas import LineCanvas

Piece = tuple[str, str]
"""A text and its kind: a Kind of highlight.py or a tone of theme.py."""

MatchedPiece = tuple[str, str, bool]
"""A piece, and whether it is a match of the find."""

STRIPS_KEPT = 600
"""Number of strips that are cached: a few pages of a pane, and all highlights of a short text. With
300, a pane that went from kernel to kernel of a model of equal layers drew a quarter of its rows
again at each page-down.
"""

_TRACK_PARTS = {
    scroll_track.TRACK: "text",
    scroll_track.THUMB: "thumb",
    scroll_track.MARK: "tick-mark",
    scroll_track.MATCH: "tick-match",
}


class Line(Strip):
    """A strip that is freed as soon as it is not referenced any more.

    Textual's strip, once it was cut without a change, keeps a list that contains itself, and so
    waits for the garbage collector. With 20 objects per strip, that took 6 ms at every seventh
    page-down.
    """

    __slots__ = ()

    def divide(self, cuts: Iterable[int]) -> Sequence[Strip]:
        places = list(cuts)
        if places == [self.cell_length]:
            return [self]
        return super().divide(places)


class LineContent(NamedTuple):
    """The part of a line that is on screen, without what its highlight changes."""

    gutter: Sequence[Piece]
    pieces: Sequence[MatchedPiece]
    blank: int
    """Cells after the last piece."""


class LinePainter:
    """Paints for one LineCanvas. The key of a cached strip has everything that changes its look."""

    def __init__(self, view: LineCanvas) -> None:
        self._view = view
        self._strips: dict[tuple[int, int, str], Strip] = {}
        self._contents: dict[int, LineContent] = {}
        """What the cached strips show, whatever is highlighted: a cursor that moves in another pane
        highlights most of the lines that were drawn in advance.
        """
        self._rest: dict[tuple[object, ...], list[Strip]] = {}
        """Strips that show no line: rows below the last line, and the placeholder."""
        self._palette: Palette | None = None
        self._styles: dict[tuple[str, int, bool], Style] = {}
        self._frame: tuple[int, int] = (0, 0)

    def forget(self) -> None:
        """Drop what was drawn, because of other lines, another width or another find."""
        self._strips.clear()
        self._contents.clear()
        self._rest.clear()

    def forget_styles(self) -> None:
        """Forget styles and strips, because the theme or the focus changed."""
        self._palette = None
        self._styles.clear()
        self.forget()

    def _style(self, kind: str, state: int = 0, is_match: bool = False) -> Style:
        key = (kind, state, is_match)
        style = self._styles.get(key)
        if style is None:
            style = self._styles[key] = self._make_style(kind, state, is_match)
        return style

    def _make_style(self, kind: str, state: int, is_match: bool) -> Style:
        """Return the style after Textual's filters. Filters change only styles, so they are applied
        once per style, not once per line.
        """
        if self._palette is None:
            self._palette = self._make_palette()
        segments = [Segment(" ", self._palette.style(kind, state, is_match))]
        for line_filter in self._view.get_line_filters():
            segments = line_filter.apply(segments, self._view.background_colors[1])
        return segments[0].style or Style.null()

    def _make_palette(self) -> Palette:
        view, app = self._view, self._view.app
        return Palette(
            app.theme_variables,
            view.background_colors[1],
            has_focus=view.has_focus,
            is_ansi=app.native_ansi_color,
            is_colourless=app.no_color,
        )

    def set_frame(self, skip: int, width: int) -> None:
        """Paint lines from cell ``skip`` of their content on, ``width`` cells wide in all."""
        if self._frame != (skip, width):
            self._frame = (skip, width)
            self._strips.clear()
            self._contents.clear()

    def lines(self, lines: range, states: Sequence[int], track: Sequence[str]) -> list[Strip]:
        """Return the strips of lines, each with its cell of the scroll track."""
        shown = zip(lines, states, track, strict=True)
        return [self._line(line, state, cell) for line, state, cell in shown]

    def _line(self, line: int, state: int, track: str) -> Strip:
        key = (line, state, track)
        strip = self._strips.get(key)
        if strip is None:
            if len(self._strips) >= STRIPS_KEPT:
                del self._strips[next(iter(self._strips))]  # drop the oldest
            strip = self._strips[key] = self._paint(line, state, track)
        return strip

    def _paint(self, line: int, state: int, track: str) -> Strip:
        """Paint one line: the pointer, the gutter, the text with its matches, and the track."""
        content = self._contents.get(line)
        if content is None:
            if len(self._contents) >= STRIPS_KEPT:
                del self._contents[next(iter(self._contents))]
            content = self._contents[line] = self._content(line)
        segments = [self._pointer(state)]
        for text, kind in content.gutter:
            segments.append(Segment(text, self._style(kind, state)))
        for text, kind, is_match in content.pieces:
            segments.append(Segment(text, self._style(kind, state, is_match)))
        if content.blank > 0:
            segments.append(Segment(" " * content.blank, self._style("text", state)))
        segments.append(self._track(track))
        return Line(segments, self._frame[1])

    def _content(self, line: int) -> LineContent:
        skip, width = self._frame
        view = self._view
        gutter = view.gutter_tokens(line)
        room = width - 2 - view.gutter_width
        tokens = view.line_tokens(line)
        spans = view.match_spans("".join([text for text, _ in tokens]))
        if spans:
            pieces = _cut_matches(tokens, spans)
        else:
            pieces = [(text, kind, False) for text, kind in tokens]
        cut = crop_visibly if view.shows_cuts else crop
        return LineContent(gutter, *cut(pieces, skip, room))

    def _pointer(self, state: int) -> Segment:
        if state & CURSOR:
            if self._view.is_hollow_without_focus and not self._view.has_focus:
                glyph = "▷" if state & MARKED else "▹"
            else:
                glyph = "▶" if state & MARKED else "▸"
            return Segment(glyph, self._style("pointer", state))
        if state & MARKED:
            return Segment("▌", self._style("mark-glyph", state))
        return Segment(" ", self._style("text", state))

    def _track(self, glyph: str) -> Segment:
        return Segment(glyph, self._style(_TRACK_PARTS[glyph]))

    def header(self, tokens: Sequence[Piece], skip: int, width: int) -> Strip:
        style = self._style("header")
        margin = 1 + self._view.gutter_width
        pieces, _ = crop([(text, kind, False) for text, kind in tokens], skip, width - margin)
        text = " " * margin + "".join([piece[0] for piece in pieces])
        return Line([Segment(text + " " * (width - cell_len(text)), style)], width)

    def blank(self, track: str, width: int) -> Strip:
        """Return a row below the last line."""
        key = (track, width)
        if key not in self._rest:
            segments = [Segment(" " * (width - 1), self._style("text")), self._track(track)]
            self._rest[key] = [Strip(segments, width)]
        return self._rest[key][0]

    def placeholder(self, text: str, width: int, height: int) -> list[Strip]:
        """Return the strips of an empty view, with ``text`` wrapped in its middle."""
        key = (text, width, height)
        if key not in self._rest:
            rows = _wrap(text, max(8, width - 4))[: max(height, 0)]
            above = max(0, (height - len(rows)) // 3)
            empty = self._text_row("", width)
            strips = [self._text_row(row, width) for row in rows]
            self._rest[key] = [empty] * above + strips + [empty] * (height - above - len(rows))
        return self._rest[key]

    def _text_row(self, text: str, width: int) -> Strip:
        style = self._style("placeholder")
        left = max(0, (width - cell_len(text)) // 2)
        return Strip([Segment(" " * left + text, style)]).adjust_cell_length(width, style)


def crop(pieces: Sequence[MatchedPiece], skip: int, room: int) -> tuple[list[MatchedPiece], int]:
    """Return the part of a line from cell ``skip`` on that fits in ``room`` cells, and the cells
    that it leaves. Half of a wide character becomes a space.
    """
    shown: list[MatchedPiece] = []
    for text, kind, is_match in pieces:
        if room <= 0:
            break
        cells = cell_count(text)
        if skip >= cells:
            skip -= cells
            continue
        if skip or cells > room:
            text = cut_cells(text, skip, skip + room)
            cells = min(cells - skip, room)
            skip = 0
        shown.append((text, kind, is_match))
        room -= cells
    return shown, room


def crop_visibly(
    pieces: Sequence[MatchedPiece], skip: int, room: int
) -> tuple[list[MatchedPiece], int]:
    """Crop as ``crop`` does. If more follows, the last cell is ``…``."""
    cells = sum(cell_count(text) for text, _, _ in pieces)
    if cells <= skip + room or room <= 0:
        return crop(pieces, skip, room)
    shown, blank = crop(pieces, skip, room - 1)
    return [*shown, ("…", "muted", False)], blank


def _cut_matches(tokens: Sequence[Piece], spans: Sequence[tuple[int, int]]) -> list[MatchedPiece]:
    """Return the tokens, cut where a match starts or ends."""
    edges = sorted(set(chain.from_iterable(spans)))
    pieces: list[MatchedPiece] = []
    at = 0
    for text, kind in tokens:
        cuts = [at, *(edge for edge in edges if at < edge < at + len(text)), at + len(text)]
        for start, stop in pairwise(cuts):
            is_match = any(first <= start < last for first, last in spans)
            pieces.append((text[start - at : stop - at], kind, is_match))
        at += len(text)
    return pieces


def _wrap(text: str, width: int) -> list[str]:
    """Return the words of ``text`` on rows of at most ``width`` cells."""
    rows: list[str] = [""]
    for word in text.split(" "):
        if rows[-1] and cell_len(rows[-1]) + 1 + cell_len(word) > width:
            rows.append("")
        rows[-1] = f"{rows[-1]} {word}" if rows[-1] else word
        while cell_len(rows[-1]) > width:
            head = cut_cells(rows[-1], 0, width)
            rows[-1:] = [head, rows[-1][len(head) :]]
    return rows
