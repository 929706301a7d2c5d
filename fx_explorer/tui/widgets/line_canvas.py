"""Lines are scrolled and drawn by the lower half of LineView. It only touches the lines on screen.

Textual's own DataTable, TextArea and Tree build something per line; at 100,000 lines that takes
seconds and hundreds of megabytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.geometry import Offset, Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from fx_explorer.highlight import printable
from fx_explorer.tui.failures import TellsUnreadable, notifies_user
from fx_explorer.tui.widgets import scroll_track
from fx_explorer.tui.widgets.line_painter import LinePainter, Piece

AHEAD_S = 0.015
"""Seconds after a paint at which the next screenful is drawn in advance. The frame is written by
then.
"""

UNREADABLE = "This part of the session cannot be read."


class LineCanvas(TellsUnreadable, ScrollView):
    """Lines that scroll in both directions under a fixed header, beside a fixed gutter, with a slim
    track as the last column.

    A subclass says what there is by overriding the first group of methods, and calls
    ``content_changed`` when one of them would answer differently.
    """

    ALLOW_SELECT = False
    is_hollow_without_focus = False
    """Whether the pointer is ``▹`` while another view has the focus, so that two lists of one
    screen can be told apart without colour.
    """
    shows_cuts: ClassVar[bool] = False
    """Whether ``…`` marks a line that continues beyond the right edge. It is off for code, where it
    could be read as code.
    """
    DEFAULT_CSS = """
    LineCanvas { height: 1fr; background: $background; color: $foreground; overflow: hidden; }
    """
    # Textual's scrollbars, though 0 cells wide, would be widgets that change at each scroll: it
    # then lays everything out again.

    def __init__(
        self, placeholder: str, name: str | None, id: str | None, classes: str | None
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._placeholder = placeholder
        self._painter = LinePainter(self)
        self._ticks: dict[int, str] | None = None
        self._pending_reveal: tuple[int, bool] | None = None
        self._drawn_ahead_at: int | None = None
        """The top line when the next screenful was last drawn in advance."""
        self._last_step = 0
        """Lines that the view was scrolled by before that."""

    # what a subclass overrides

    @property
    def line_count(self) -> int:
        """Return the present number of lines."""
        return 0

    def line_tokens(self, line: int) -> Sequence[Piece]:
        """Return the texts of a line (``printable``) with their kinds. It is called for lines on
        screen only.
        """
        raise NotImplementedError

    @property
    def gutter_width(self) -> int:
        """Return the width of ``gutter_tokens`` in cells, without the column of the cursor and the
        marks.
        """
        return 0

    def gutter_tokens(self, line: int) -> Sequence[Piece]:
        """Return the part before a line that does not scroll sideways; always ``gutter_width``
        cells wide.
        """
        return ()

    @property
    def content_width(self) -> int:
        """Return the width of the widest line in cells, for scrolling sideways. An estimate will
        do.
        """
        return 0

    @property
    def has_header(self) -> bool:
        """Return whether there is a header line, which does not scroll."""
        return False

    def header_tokens(self) -> Sequence[Piece]:
        """Return what the header line shows, which does not scroll."""
        return ()

    def line_states(self, lines: range) -> Sequence[int]:
        """Return how each line is lit, as the bits of line_painter.py."""
        return [0] * len(lines)

    def track_ticks(self) -> dict[int, str]:
        """Return row of the scroll track → the glyph of its tick."""
        return {}

    def match_spans(self, text: str) -> Sequence[tuple[int, int]]:
        """Return (start, end) of the matches in a line's text."""
        return ()

    # what changed

    def content_changed(self) -> None:
        """Drop what was drawn, because everything may differ. The scroll position stays if it still
        exists.
        """
        self._ticks, self._drawn_ahead_at = None, None
        self.content_resized()

    def content_resized(self) -> None:
        """Lay out and draw again, because widths or looks differ. Lines do not."""
        self._painter.forget()
        self._resize_canvas()
        self.refresh()

    def ticks_changed(self) -> None:
        """Draw rows with another tick again, and no others: Textual writes a pane's whole row for
        each refreshed one.
        """
        if self._ticks is None:
            self.refresh(Region(self.outer_size.width - 1, 0, 1, self.outer_size.height))
            return
        before, self._ticks = self._ticks, self.track_ticks()
        for row in before.keys() | self._ticks.keys():
            if before.get(row) != self._ticks.get(row):
                self.refresh(Region(self.outer_size.width - 1, row + self._header_height, 1, 1))

    def redraw(self, lines: Iterable[int]) -> None:
        """Draw these lines again, because their highlight changed. Lines off screen cost
        nothing.
        """
        top, height, header, width = (
            self.scroll_offset.y,
            self.body_height,
            self._header_height,
            self.outer_size.width,
        )
        rows = [
            Region(0, line - top + header, width, 1) for line in lines if top <= line < top + height
        ]
        if rows:
            self.refresh(*rows)

    # what an application uses

    @property
    def placeholder(self) -> str:
        """Return the text that is shown instead of lines, which says why there are none."""
        return self._placeholder

    @placeholder.setter
    def placeholder(self, text: str) -> None:
        self._placeholder = text
        if not self.line_count:
            self.refresh()

    @property
    def body_height(self) -> int:
        """Return how many lines fit on screen."""
        return max(0, self.outer_size.height - self._header_height)

    @property
    def body_width(self) -> int:
        """Return the cells for the content: without the mark column, the gutter and the track."""
        return max(0, self.outer_size.width - self._margin - 1)

    @property
    def visible_lines(self) -> range:
        """Return the lines on screen."""
        top = self.scroll_offset.y
        return range(top, min(top + self.body_height, self.line_count))

    def reveal(self, line: int, center: bool = True) -> None:
        """Scroll ``line`` into view if it is not visible: to the middle, or as little as needed."""
        top, height = self.scroll_offset.y, self.body_height
        if height <= 0:
            self._pending_reveal = (line, center)  # not laid out yet
            return
        if top <= line < top + height:
            return
        if center:
            self.scroll_lines_to(line - height // 2)
        elif line < top:
            self.scroll_lines_to(line)
        else:
            self.scroll_lines_to(line - height + 1)

    def scroll_lines_to(self, top: int) -> None:
        """Make ``top`` the first visible line, as far as there are lines below it."""
        self.scroll_to_cell(self.scroll_offset.x, top)

    def scroll_columns_to(self, left: int) -> None:
        self.scroll_to_cell(left, self.scroll_offset.y)

    def scroll_to_cell(self, left: int, top: int) -> None:
        """Make this the first visible cell, as far as there are lines and columns."""
        # Not by Textual's scroll_to: that looks after animations and scrollbars as well, of which
        # there are none.
        offset = Offset(max(0, min(left, self.max_scroll_x)), max(0, min(top, self.max_scroll_y)))
        if offset != self.scroll_offset:
            self.set_scroll(*offset)
            self.refresh()

    def line_at(self, y: int) -> int | None:
        """Return the line shown at row ``y`` of this widget; None for a row without one."""
        line = y - self._header_height + self.scroll_offset.y
        if y >= self._header_height and 0 <= line < self.line_count:
            return line
        return None

    def scroll_to_track(self, y: int) -> None:
        """Scroll to where row ``y`` of the track points."""
        self.scroll_lines_to(
            scroll_track.top_at(y - self._header_height, self.body_height, self.line_count)
        )

    # drawing

    @property
    def _header_height(self) -> int:
        return 1 if self.has_header else 0

    @property
    def _margin(self) -> int:
        """Return the cells before the content: the cursor and mark column, then the gutter."""
        return 1 + self.gutter_width

    def on_mount(self) -> None:
        self._resize_canvas()

    def on_resize(self) -> None:
        self._painter.forget()
        self._ticks = None
        self._resize_canvas()
        if self._pending_reveal and self.body_height > 0:
            line, center = self._pending_reveal
            self._pending_reveal = None
            self.reveal(line, center)

    def _resize_canvas(self) -> None:
        # Not assigned: Textual would lay out and paint the whole screen again, which does not
        # depend on how much there is here.
        size = Size(self._margin + self.content_width + 1, self.line_count + self._header_height)
        self.set_reactive(Widget.virtual_size, size)
        self.scroll_to_cell(*self.scroll_offset)  # as far as there are lines

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painter.forget_styles()

    def on_focus(self) -> None:
        self._look_changed()

    def on_blur(self) -> None:
        self._look_changed()

    def _look_changed(self) -> None:
        self._painter.forget_styles()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        return self.render_lines(Region(0, y, self.outer_size.width, 1))[0]

    def render_lines(self, crop: Region) -> list[Strip]:
        # This bypasses Textual's StylesCache: there is no border or padding, and each strip is
        # finished already. So the whole crop is the widget's outer size, which Textual has at hand;
        # to find the size inside it, it searches the layout some 30 times per key.
        width, height = self.outer_size
        height = max(
            height, crop.bottom
        )  # Textual paints before it tells a widget that it has grown
        try:
            if self.line_count:
                strips = self._strips(crop.y, crop.bottom, width, height)
            else:
                strips = []
        except Exception as error:
            if not notifies_user(self, error):
                raise
            strips = self._placeholder_strips(UNREADABLE, width, height, crop)
        else:
            strips = strips or self._placeholder_strips(self._placeholder, width, height, crop)
        if crop.x or crop.width != width:
            return [strip.crop(crop.x, crop.right) for strip in strips]
        return strips

    def _placeholder_strips(self, text: str, width: int, height: int, crop: Region) -> list[Strip]:
        return self._painter.placeholder(printable(text), width, height)[crop.y : crop.bottom]

    def _strips(self, start: int, stop: int, width: int, height: int) -> list[Strip]:
        """Return the strips of rows ``start`` to ``stop`` of this widget."""
        left, top = self.scroll_offset
        count, header = self.line_count, self._header_height
        if self._ticks is None:
            self._ticks = self.track_ticks()
        track = scroll_track.glyphs(height - header, count, top, self._ticks)
        self._painter.set_frame(left, width)
        strips: list[Strip] = []
        if start < header:
            strips.append(self._painter.header(self.header_tokens(), left, width))
        first = max(0, start - header)
        rows = range(first, max(first, stop - header))  # a header may be taller than the widget
        lines = range(top, count)[rows.start : rows.stop]
        strips += self._painter.lines(
            lines, self.line_states(lines), track[rows.start :][: len(lines)]
        )
        for row in rows[len(lines) :]:
            strips.append(self._painter.blank(track[row], width))
        self._soon_draw_ahead(top, height - header)
        return strips

    def _soon_draw_ahead(self, top: int, height: int) -> None:
        before = self._drawn_ahead_at
        if before is not None and abs(top - before) <= height // 2:
            return  # most of the next screenful is drawn already
        step = height if before is None else top - before
        is_stride = abs(step) > height and abs(step - self._last_step) <= height // 2
        self._drawn_ahead_at, self._last_step = top, step
        # A pane that follows may go further than a page at each key, and about as far at the next;
        # a longer way that is not repeated was a jump.
        if is_stride:
            lines = range(top + step, top + step + height)
        elif step < 0:
            lines = range(top - height, top)
        else:
            lines = range(top + height, top + 2 * height)
        self.set_timer(AHEAD_S, lambda: self._draw_ahead(top, lines))

    def _draw_ahead(self, top: int, lines: range) -> None:
        """Draw the next lines in advance, while the app is idle: drawing is half the cost of a page
        key.
        """
        if self.scroll_offset.y != top:
            return  # the user has scrolled on meanwhile
        existing = range(max(0, lines.start), min(lines.stop, self.line_count))
        track = [scroll_track.TRACK] * len(existing)
        for strip in self._painter.lines(existing, self.line_states(existing), track):
            strip.render(self.app.console)  # the strip keeps what the terminal is sent for it
