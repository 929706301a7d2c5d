"""A scrolling pane of lines that only ever touches the lines on screen: the base of CodeView and RowList.

Textual's own DataTable, TextArea and Tree build something per line; at 100,000 lines that is seconds and hundreds of megabytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from fx_explorer.highlight import printable
from fx_explorer.tui.widgets import scroll_track
from fx_explorer.tui.widgets.line_finder import LineFinder
from fx_explorer.tui.widgets.line_painter import (
    COMPONENT_CLASSES,
    COMPONENT_CSS,
    CURSOR,
    HOVERED,
    MARKED,
    SELECTED,
    LinePainter,
    Piece,
)

WHEEL_LINES = 3


class LineView(ScrollView, can_focus=True):
    """Lines with a cursor, marks, find and a slim scroll track on the right.

    Text is selected by whole lines, with the mouse. The user sees: the cursor line lit (with ``▸`` before it), marked lines lit (with ``▌``), matches of a find underlined, and in the
    last column a track whose thumb is the visible part, with ticks where marks and matches are. An empty view shows ``placeholder``.

    A subclass says what there is by overriding ``line_count``, ``line_tokens`` and, if it likes, ``gutter_tokens``,
    ``content_width`` and ``header_tokens``; it calls ``content_changed`` when any of them answers differently.

    Use: ``view.move_to(line)``, ``view.reveal(line)``, ``view.marks = frozenset({3, 4})``, ``view.find("addmm")``,
    ``view.find_next()``. Lines count from 0.
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = COMPONENT_CLASSES
    DEFAULT_CSS = (
        "LineView { height: 1fr; background: $background; color: $foreground; scrollbar-size: 0 0; }\n" + COMPONENT_CSS
    )

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "cursor_by(1)", "Down", show=False, id="line.down"),
        Binding("up,k", "cursor_by(-1)", "Up", show=False, id="line.up"),
        Binding("pagedown,ctrl+f,space", "page_by(1)", "Page down", show=False, id="line.page_down"),
        Binding("pageup,ctrl+b", "page_by(-1)", "Page up", show=False, id="line.page_up"),
        Binding("ctrl+d", "half_page_by(1)", "Half a page down", show=False, id="line.half_down"),
        Binding("ctrl+u", "half_page_by(-1)", "Half a page up", show=False, id="line.half_up"),
        Binding("home,ctrl+home,g", "first_line", "First line", show=False, id="line.first"),
        Binding("end,ctrl+end,G", "last_line", "Last line", show=False, id="line.last"),
        Binding("left,h", "columns_by(-8)", "Left", show=False, id="line.left"),
        Binding("right,l", "columns_by(8)", "Right", show=False, id="line.right"),
        Binding("enter", "follow", "Follow", show=False, id="line.follow"),
        Binding("n", "find_next", "Next match", show=False, id="line.find_next"),
        Binding("N", "find_previous", "Previous match", show=False, id="line.find_previous"),
        Binding("]", "next_mark", "Next linked line", show=False, id="line.next_mark"),
        Binding("[", "previous_mark", "Previous linked line", show=False, id="line.previous_mark"),
    ]

    class Moved(Message):
        """The user moved the cursor (never posted for ``move_to``)."""

        def __init__(self, view: LineView, line: int, by_user: bool = True) -> None:
            super().__init__()
            self.view = view
            self.line = line
            self.by_user = by_user

        @property
        def control(self) -> LineView:
            return self.view

    class Followed(Message):
        """Enter or a double click on a line."""

        def __init__(self, view: LineView, line: int) -> None:
            super().__init__()
            self.view = view
            self.line = line

        @property
        def control(self) -> LineView:
            return self.view

    class Found(Message):
        """A find has something to say: how many lines match so far, and whether all were looked at."""

        def __init__(self, view: LineView, pattern: str, count: int, done: bool) -> None:
            super().__init__()
            self.view = view
            self.pattern = pattern
            self.count = count
            self.done = done

        @property
        def control(self) -> LineView:
            return self.view

    def __init__(
        self, *, placeholder: str = "", name: str | None = None, id: str | None = None, classes: str | None = None
    ) -> None:
        """``placeholder`` says why there is nothing, when there is nothing."""
        super().__init__(name=name, id=id, classes=classes)
        self._placeholder = placeholder
        self._cursor = 0
        self._hovered = -1
        self._marks: frozenset[int] = frozenset()
        self._painter = LinePainter(self)
        self._finder = LineFinder(self)
        self._track_ticks: dict[int, str] | None = None
        self._dragging_track = False
        self._selected = range(0)
        self._selection_start: int | None = None
        self._pending_reveal: tuple[int, bool] | None = None

    # what a subclass says

    @property
    def line_count(self) -> int:
        """How many lines there are now."""
        return 0

    def line_tokens(self, line: int) -> Sequence[Piece]:
        """What line ``line`` shows. Called for lines on screen only; must already be ``printable``."""
        raise NotImplementedError

    def gutter_tokens(self, line: int) -> Sequence[Piece]:
        """What stands before line ``line`` and does not scroll sideways; always ``gutter_width`` cells wide."""
        return ()

    gutter_width = 0
    """Cells of ``gutter_tokens``, without the column of the cursor and the marks."""

    @property
    def content_width(self) -> int:
        """Cells of the widest line, for scrolling sideways; an estimate is fine."""
        return 0

    def header_tokens(self) -> Sequence[Piece]:
        """One line above that does not scroll; none when empty."""
        return ()

    def search_text(self, start: int, stop: int) -> Sequence[str]:
        """The texts of some lines, for find."""
        return ["".join(text for text, _ in self.line_tokens(line)) for line in range(start, stop)]

    def content_changed(self) -> None:
        """Everything may differ: forget what was drawn; cursor and scroll position stay where they are if they still exist."""
        self._painter.forget()
        self._finder.content_changed()
        self._track_ticks = None
        self._cursor = max(0, min(self._cursor, self.line_count - 1))
        self._resize_canvas()
        self.refresh()

    def content_resized(self) -> None:
        """Widths differ, lines do not."""
        self._painter.forget()
        self._resize_canvas()
        self.refresh()

    def forget_place(self) -> None:
        """Another document: cursor and scroll position to the top, no marks, nothing selected."""
        self._cursor = 0
        self._marks = frozenset()
        self._selected = range(0)
        self.scroll_to(x=0, y=0, animate=False, force=True)

    # what an application uses

    @property
    def cursor(self) -> int:
        """The line the cursor is on."""
        return self._cursor

    def line_text(self, line: int) -> str:
        """Line ``line`` as it is shown, for copying."""
        return "".join(text for text, _ in self.line_tokens(line))

    @property
    def placeholder(self) -> str:
        return self._placeholder

    @placeholder.setter
    def placeholder(self, text: str) -> None:
        self._placeholder = text
        if not self.line_count:
            self.refresh()

    @property
    def marks(self) -> frozenset[int]:
        """Lines lit because they are linked to something."""
        return self._marks

    @marks.setter
    def marks(self, marks: frozenset[int]) -> None:
        if marks == self._marks:
            return
        changed = marks ^ self._marks
        self._marks = marks
        self._track_ticks = None
        self._refresh_visible(changed)
        self._refresh_track()

    def move_to(self, line: int, center: bool = False) -> None:
        """Put the cursor on ``line`` and make it visible; ``center``: in the middle when it was not visible. Posts nothing."""
        line = max(0, min(line, self.line_count - 1))
        before, self._cursor = self._cursor, line
        self.reveal(line, center=center)
        if before != line:
            self._refresh_visible((before, line))

    def reveal(self, line: int, center: bool = True) -> None:
        """Scroll ``line`` into view, if it is not in view already, without moving the cursor."""
        top, height = self.scroll_offset.y, self.body_height
        if height <= 0:
            self._pending_reveal = (line, center)  # not laid out yet
            return
        if top <= line < top + height:
            return
        if center:
            top = line - height // 2
        else:
            top = line if line < top else line - height + 1
        self.scroll_to(y=max(0, top), animate=False, force=True)

    def show_marks(self, marks: frozenset[int], near: int | None = None) -> None:
        """Set ``marks`` and, when none of them is visible, scroll to the first (or the one closest to ``near``)."""
        self.marks = marks
        top, height = self.scroll_offset.y, self.body_height
        if not marks or any(top <= line < top + height for line in marks):
            return
        self.reveal(min(marks) if near is None else min(marks, key=lambda line: abs(line - near)))

    @property
    def body_height(self) -> int:
        """Lines visible at a time."""
        return max(0, self.size.height - self._header_height)

    @property
    def body_width(self) -> int:
        """Cells for the content: without the gutter, the mark column and the track."""
        return max(0, self.size.width - self._margin - 1)

    @property
    def selected(self) -> range:
        """Lines the user selected by dragging the mouse; empty when none."""
        return self._selected

    def select(self, lines: range) -> None:
        """Select whole lines, for copying."""
        changed = set(lines) ^ set(self._selected)
        self._selected = lines
        self._refresh_visible(sorted(changed))

    def text_to_copy(self) -> str:
        """The selected lines, or else the cursor's."""
        lines = self._selected or range(self._cursor, min(self._cursor + 1, self.line_count))
        return "\n".join(self.line_text(line) for line in lines)

    # find

    def find(self, pattern: str) -> None:
        """Highlight ``pattern`` and go to the first line, from the cursor on, that has it.

        Ignores case unless ``pattern`` has a capital. Looks through the lines in the background, some thousand at a time; posts Found.
        An empty pattern ends the find.
        """
        self._finder.start(pattern)

    def find_next(self) -> None:
        """Go to the next match, round the end. Posts Moved, as the user asked for it."""
        self._go_to_match(self._finder.after(self._cursor))

    def find_previous(self) -> None:
        self._go_to_match(self._finder.before(self._cursor))

    def stop_find(self) -> None:
        """Stop looking; what was found stays."""
        self._finder.stop()

    @property
    def find_pattern(self) -> str:
        """What is highlighted; empty when nothing is."""
        return self._finder.pattern

    @property
    def matches(self) -> Sequence[int]:
        """Lines found so far, ascending."""
        return self._finder.matches

    def _go_to_match(self, line: int | None) -> None:
        if line is None:
            self.app.bell()
        else:
            self.user_moves_to(line, center=True)

    def found(self, done: bool) -> None:
        """The finder reports progress."""
        self._track_ticks = None
        self._refresh_track()
        self.post_message(self.Found(self, self._finder.pattern, len(self._finder.matches), done))

    # keys and mouse

    def user_moves_to(self, line: int, center: bool = False) -> None:
        """Move the cursor as if the user had: posts Moved when it moved."""
        before = self._cursor
        self.move_to(line, center)
        if self._cursor != before:
            self.post_message(self.Moved(self, self._cursor))

    def action_cursor_by(self, lines: int) -> None:
        self.user_moves_to(self._cursor + lines)

    def action_page_by(self, pages: int) -> None:
        self._move_with_page(pages * max(1, self.body_height - 1))

    def action_half_page_by(self, pages: int) -> None:
        self._move_with_page(pages * max(1, self.body_height // 2))

    def _move_with_page(self, lines: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + lines, animate=False, force=True)
        self.user_moves_to(self._cursor + lines)

    def action_first_line(self) -> None:
        self.scroll_to(x=0, animate=False, force=True)
        self.user_moves_to(0)

    def action_last_line(self) -> None:
        self.user_moves_to(self.line_count - 1)

    def action_columns_by(self, columns: int) -> None:
        self.scroll_to(x=self.scroll_offset.x + columns, animate=False, force=True)

    def action_follow(self) -> None:
        if self.line_count:
            self.post_message(self.Followed(self, self._cursor))

    def action_find_next(self) -> None:
        self.find_next()

    def action_find_previous(self) -> None:
        self.find_previous()

    def action_next_mark(self) -> None:
        self._go_to_match(min((line for line in self._marks if line > self._cursor), default=None))

    def action_previous_mark(self) -> None:
        self._go_to_match(max((line for line in self._marks if line < self._cursor), default=None))

    def line_at(self, y: int) -> int | None:
        """The line shown at row ``y`` of this widget."""
        line = y - self._header_height + self.scroll_offset.y
        return line if y >= self._header_height and 0 <= line < self.line_count else None

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button != 1:
            return
        self.capture_mouse()
        if event.x == self.size.width - 1:
            self._dragging_track = True
            self._scroll_to_track(event.y)
        else:
            self.select(range(0))
            self._selection_start = self.line_at(event.y)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._dragging_track = False
        self._selection_start = None
        self.release_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        line = self.line_at(event.y)
        if self._dragging_track:
            self._scroll_to_track(event.y)
        elif self._selection_start is not None and line is not None:
            if line != self._selection_start or self._selected:
                self.select(range(min(line, self._selection_start), max(line, self._selection_start) + 1))
        else:
            self._hover(line)

    def on_leave(self, event: events.Leave) -> None:
        self._hover(None)

    def on_click(self, event: events.Click) -> None:
        line = self.line_at(event.y)
        if line is None or event.x == self.size.width - 1:
            return
        self.user_moves_to(line)
        if event.chain == 2:
            self.action_follow()

    def _on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._wheel(event, 1)

    def _on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._wheel(event, -1)

    def _wheel(self, event: events.MouseEvent, direction: int) -> None:
        event.stop()
        event.prevent_default()
        if event.shift or event.ctrl:
            self.action_columns_by(8 * direction)
        else:
            self.scroll_to(y=self.scroll_offset.y + WHEEL_LINES * direction, animate=False, force=True)

    def _hover(self, line: int | None) -> None:
        before, self._hovered = self._hovered, -1 if line is None else line
        if before != self._hovered:
            self._refresh_visible((before, self._hovered))

    def _scroll_to_track(self, y: int) -> None:
        top = scroll_track.top_at(y - self._header_height, self.body_height, self.line_count)
        self.scroll_to(y=top, animate=False, force=True)

    # drawing

    @property
    def _header_height(self) -> int:
        return 1 if self.header_tokens() else 0

    @property
    def _margin(self) -> int:
        """Cells before the content: the cursor and mark column, then the gutter."""
        return 1 + self.gutter_width

    def on_mount(self) -> None:
        self._resize_canvas()

    def on_resize(self) -> None:
        self._painter.forget()
        self._track_ticks = None
        self._resize_canvas()
        if self._pending_reveal and self.body_height > 0:
            line, center = self._pending_reveal
            self._pending_reveal = None
            self.reveal(line, center)

    def _resize_canvas(self) -> None:
        self.virtual_size = Size(self._margin + self.content_width + 1, self.line_count + self._header_height)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painter.forget_styles()

    def _refresh_visible(self, lines: Sequence[int] | frozenset[int]) -> None:
        top, height, header = self.scroll_offset.y, self.body_height, self._header_height
        for line in lines:
            if top <= line < top + height:
                self.refresh(Region(0, line - top + header, self.size.width, 1))

    def _refresh_track(self) -> None:
        self.refresh(Region(self.size.width - 1, 0, 1, self.size.height))

    def render_line(self, y: int) -> Strip:
        return self.render_lines(Region(0, y, self.size.width, 1))[0]

    def render_lines(self, crop: Region) -> list[Strip]:
        width = self.size.width
        if not self.line_count:
            strips = self._painter.placeholder(printable(self._placeholder), width, self.size.height)[crop.y : crop.bottom]
        else:
            strips = [self._strip(y) for y in range(crop.y, crop.bottom)]
        if crop.x or crop.width != width:
            return [strip.crop(crop.x, crop.right) for strip in strips]
        return strips

    def _strip(self, y: int) -> Strip:
        header = self._header_height
        if y < header:
            return self._painter.header(self.header_tokens(), self.scroll_offset.x, self.size.width)
        line = y - header + self.scroll_offset.y
        glyph = self._track_glyph(y - header)
        if line >= self.line_count:
            return self._painter.blank(glyph, self.size.width)
        return self._painter.line(line, self._state_of(line), glyph, self.scroll_offset.x, self.size.width)

    def _state_of(self, line: int) -> int:
        return (
            (CURSOR if line == self._cursor else 0)
            | (MARKED if line in self._marks else 0)
            | (HOVERED if line == self._hovered else 0)
            | (SELECTED if line in self._selected else 0)
        )

    def _track_glyph(self, row: int) -> str:
        if self._track_ticks is None:
            self._track_ticks = scroll_track.ticks(self.body_height, self.line_count, self._marks, self._finder.matches)
        return scroll_track.glyph(row, self.body_height, self.line_count, self.scroll_offset.y, self._track_ticks)

    def find_spans(self, text: str) -> list[tuple[int, int]]:
        """Where the pattern of the find stands in a line's text, in characters."""
        return self._finder.spans(text)


def token_cells(tokens: Sequence[Piece]) -> int:
    """Width of some tokens on screen; a wide (CJK) character counts as two."""
    return sum(cell_len(text) for text, _ in tokens)
