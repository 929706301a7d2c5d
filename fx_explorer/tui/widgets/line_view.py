"""A pane of lines has a cursor, marks and find: it is the base of CodeView and RowList. It is
searched in the background, and the finder knows the matches so far.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.message import Message

from fx_explorer.tui.keys import bindings_of
from fx_explorer.tui.theme import CURSOR, HOVERED, MARKED, SELECTED
from fx_explorer.tui.widgets import scroll_track
from fx_explorer.tui.widgets.line_canvas import LineCanvas

if TYPE_CHECKING:
    from textual.worker import Worker


LINES_AT_A_TIME = 2_000
"""Lines searched at once. More would make a key wait longer than some milliseconds."""


class LineFinder:
    """The find of one view. It starts at the cursor, wraps around at the end, and keeps its matches
    when it is stopped.
    """

    def __init__(self, view: LineView) -> None:
        self._view = view
        self.pattern = ""
        self.matches: list[int] = []
        """The lines with a match so far, ascending."""
        self._expression: re.Pattern[str] | None = None
        self._worker: Worker[None] | None = None

    def start(self, pattern: str) -> None:
        self.stop()
        self.pattern = pattern
        self.matches = []
        ignore_case = re.IGNORECASE if pattern == pattern.lower() else 0
        if pattern:
            self._expression = re.compile(re.escape(pattern), ignore_case)
        else:
            self._expression = None
        if self._expression is None:
            self._view.on_matches_changed(done=True)
            return
        self._look_in_background(is_first=True)

    def stop(self) -> None:
        if self._worker is not None:
            self._worker.cancel()
            self._worker = None

    def content_changed(self) -> None:
        """Search again without moving the cursor, because lines came or went."""
        if self._expression is not None:
            self.stop()
            self.matches = []
            self._look_in_background(is_first=False)

    def _look_in_background(self, is_first: bool) -> None:
        looking = functools.partial(
            self._look, is_first
        )  # a coroutine that is cancelled before it begins would warn
        self._worker = self._view.run_worker(
            looking, name="find", group="find", exclusive=True, description="find in pane"
        )

    async def _look(self, is_first: bool) -> None:
        count, start = self._view.line_count, self._view.cursor
        spans = [
            (at, min(at + LINES_AT_A_TIME, count)) for at in range(start, count, LINES_AT_A_TIME)
        ]
        spans += [(at, min(at + LINES_AT_A_TIME, start)) for at in range(0, start, LINES_AT_A_TIME)]
        for first, last in spans:
            matches = self._matches_between(first, last)
            if matches and is_first:
                is_first = False
                self._view.user_moves_to(matches[0], center=True)
            at = bisect_left(self.matches, first)
            self.matches[at:at] = matches
            self._view.on_matches_changed(done=False)
            await asyncio.sleep(0)
        self._worker = None
        self._view.on_matches_changed(done=True)

    def _matches_between(self, first: int, last: int) -> list[int]:
        assert self._expression is not None
        search = self._expression.search
        return [
            first + i for i, text in enumerate(self._view.search_text(first, last)) if search(text)
        ]

    def spans(self, text: str) -> list[tuple[int, int]]:
        if self._expression:
            return [match.span() for match in self._expression.finditer(text)]
        return []

    def after(self, line: int) -> int | None:
        """Return the first match below ``line``, or the first of all without one."""
        if not self.matches:
            return None
        index = bisect_right(self.matches, line)
        return self.matches[index % len(self.matches)]

    def before(self, line: int) -> int | None:
        """Return the last match above ``line``, or the last of all without one."""
        if self.matches:
            return self.matches[bisect_left(self.matches, line) - 1]
        return None


WHEEL_LINES = 3
WHEEL_COLUMNS = 8

HOPS = 16
"""Rounds of the event loop in which a message from a line reaches the screen and the answer
returns, with some reserve.
"""


def _at_once(binding: BindingType) -> BindingType:
    """Return the binding with priority. A key is then not offered to every container around the
    view first, which takes a millisecond per cursor move.
    """
    if isinstance(binding, Binding):
        return dataclasses.replace(binding, priority=True)
    return binding


class LineView(LineCanvas, can_focus=True):
    """Lines the user can move through, search, and follow.

    The user sees: the cursor line lit (with ``▸`` before it), marked lines lit (with ``▌``),
    matches of a find underlined, and in the last column a track whose thumb is the visible part,
    with ticks where marks and matches are. The mouse selects whole lines. An empty view shows
    ``placeholder``.

    Use: ``view.move_to(line)``, ``view.reveal(line)``, ``view.show_marks(frozenset({3, 4}))``,
    ``view.find("addmm")``, ``view.find_next()``. Lines count from 0. What a subclass overrides
    stands in LineCanvas.
    """

    BINDINGS: ClassVar[list[BindingType]] = [_at_once(binding) for binding in bindings_of("lines")]

    class LineMessage(Message):
        """A message about line ``line`` of ``view``."""

        def __init__(self, view: LineView, line: int) -> None:
            super().__init__()
            self.view = view
            self.line = line

        @property
        def control(self) -> LineView:
            return self.view

    class Moved(LineMessage):
        """Posted when the user moved the cursor by key, mouse or find. It is never posted for
        ``move_to``, so that two views do not answer each other endlessly.
        """

        by_user = True

    class Followed(LineMessage):
        """Posted by enter or a double click on a line."""

    class Found(Message):
        """Reports a find: ``count`` lines match so far; ``done`` says that all lines were
        searched.
        """

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
        self,
        *,
        placeholder: str = "",
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        """``placeholder`` says why there are no lines, if there are none."""
        super().__init__(placeholder, name, id, classes)
        self._cursor = 0
        self._hovered = -1
        self._marks: frozenset[int] = frozenset()
        self._selected = range(0)
        self._selection_start: int | None = None
        self._is_dragging_track = False
        self._height_before = 0
        self._finder = LineFinder(self)

    # cursor and marks

    @property
    def cursor(self) -> int:
        """Return the line that the cursor is on; 0 when there are no lines."""
        return self._cursor

    def move_to(self, line: int, center: bool = False) -> None:
        """Put the cursor on ``line`` and make it visible, in the middle with ``center`` if it was
        not visible. Posts nothing.
        """
        line = max(0, min(line, self.line_count - 1))
        before, self._cursor = self._cursor, line
        self.reveal(line, center=center)
        if before != line:
            self.redraw((before, line))

    def user_moves_to(self, line: int, center: bool = False) -> None:
        """Move the cursor as if the user had. Posts Moved if it moved."""
        before = self._cursor
        self.move_to(line, center)
        if self._cursor != before:
            paint_after_messages(self.app)
            self.post_message(self.Moved(self, self._cursor))

    @property
    def marks(self) -> frozenset[int]:
        """Return the lines that are lit because they are linked to something."""
        return self._marks

    @marks.setter
    def marks(self, marks: frozenset[int]) -> None:
        if marks != self._marks:
            changed = marks ^ self._marks
            self._marks = marks
            self.redraw(changed)
            self.ticks_changed()

    def show_marks(self, marks: frozenset[int], near: int | None = None) -> None:
        """Set ``marks``. If none of them is visible, scroll to the first, or to the one closest to
        ``near``.
        """
        self.marks = marks
        if marks and not any(line in marks for line in self.visible_lines):
            if near is None:
                self.reveal(min(marks))
            else:
                self.reveal(min(marks, key=lambda line: abs(line - near)))

    def content_changed(self) -> None:
        """Drop what was drawn, because everything may differ. Cursor and scroll position stay if
        they still exist.
        """
        self._cursor = max(0, min(self._cursor, self.line_count - 1))
        super().content_changed()
        self._finder.content_changed()

    def forget_place(self) -> None:
        """Begin another document: cursor and scroll position at the top, no marks, no selection."""
        self._cursor = 0
        self._marks = frozenset()
        self._selected = range(0)
        self.scroll_to_cell(0, 0)

    # rows

    def line_of_row(self, row: int) -> int:
        """Return the line that a row shows. Here each line has one row, so it is the same
        number.
        """
        return row

    def rows_of_line(self, line: int) -> range:
        """Return the rows of a line."""
        return range(line, line + 1)

    def rows_of_lines(self, lines: frozenset[int]) -> frozenset[int]:
        return lines

    # text

    def line_text(self, line: int) -> str:
        """Return the text of a line, for copying."""
        return "".join(text for text, _ in self.line_tokens(line))

    def search_text(self, start: int, stop: int) -> Sequence[str]:
        """Return the texts of lines ``start`` to ``stop`` as they are shown, for find."""
        texts = []
        for line in range(start, stop):
            tokens = self.line_tokens(line)
            texts.append("".join(text for text, _ in tokens))
        return texts

    @property
    def selected(self) -> range:
        """Return the lines that the user selected by dragging the mouse; empty when none."""
        return self._selected

    def select(self, lines: range) -> None:
        """Select whole lines, for copying."""
        changed = set(lines) ^ set(self._selected)
        self._selected = lines
        self.redraw(changed)

    def text_to_copy(self) -> str:
        """Return the text of the selected lines, or of the cursor's line if none are selected."""
        lines = self._selected or range(self._cursor, min(self._cursor + 1, self.line_count))
        return "\n".join(self.line_text(line) for line in lines)

    # find

    def find(self, pattern: str) -> None:
        """Highlight ``pattern`` and go to the first line, from the cursor on, that has it.

        Ignores case unless ``pattern`` has a capital. Looks through the lines in the background,
        some thousand at a time, and posts Found. An empty pattern ends the find.
        """
        self._finder.start(pattern)
        self.content_resized()

    def find_next(self) -> None:
        """Go to the next match; after the last, to the first. Posts Moved, because the user asked
        for it.
        """
        self._jump(self._finder.after(self._cursor))

    def find_previous(self) -> None:
        self._jump(self._finder.before(self._cursor))

    def stop_find(self) -> None:
        """Stop searching. The matches so far stay."""
        self._finder.stop()

    @property
    def find_pattern(self) -> str:
        """Return the pattern that is highlighted; empty for none."""
        return self._finder.pattern

    @property
    def matches(self) -> Sequence[int]:
        """Return the matching lines so far, ascending."""
        return self._finder.matches

    def on_matches_changed(self, done: bool) -> None:
        """Show the finder's progress."""
        self.ticks_changed()
        self.post_message(self.Found(self, self._finder.pattern, len(self._finder.matches), done))

    def _jump(self, line: int | None) -> None:
        if line is None:
            self.app.bell()
        else:
            self.user_moves_to(line, center=True)

    def on_resize(self) -> None:
        # Textual calls the handlers of the base classes too, after this one. A cursor that was
        # visible stays visible.
        top = self.scroll_offset.y
        if top <= self._cursor < top + self._height_before:
            self.reveal(self._cursor, center=False)
        self._height_before = self.body_height

    # what LineCanvas asks

    def line_states(self, lines: range) -> Sequence[int]:
        return [self.line_state(line) for line in lines]

    def line_state(self, line: int) -> int:
        """Return how a line is lit."""
        state = 0
        if line == self._cursor:
            state |= CURSOR
        if line in self._marks:
            state |= MARKED
        if line == self._hovered:
            state |= HOVERED
        if line in self._selected:
            state |= SELECTED
        return state

    def track_ticks(self) -> dict[int, str]:
        return scroll_track.ticks(
            self.body_height, self.line_count, self._marks, self._finder.matches
        )

    def match_spans(self, text: str) -> Sequence[tuple[int, int]]:
        return self._finder.spans(text)

    # keys; the commands are declared in tui/commands/

    def action_cursor_by(self, lines: int) -> None:
        self.user_moves_to(self._cursor + lines)

    def action_page_by(self, pages: int) -> None:
        self._move_with_page(pages * max(1, self.body_height - 1))

    def action_half_page_by(self, pages: int) -> None:
        self._move_with_page(pages * max(1, self.body_height // 2))

    def _move_with_page(self, lines: int) -> None:
        self.scroll_lines_to(self.scroll_offset.y + lines)
        self.user_moves_to(self._cursor + lines)

    def action_first_line(self) -> None:
        self.scroll_columns_to(0)
        self.user_moves_to(0)

    def action_last_line(self) -> None:
        self.user_moves_to(self.line_count - 1)

    def action_columns_by(self, columns: int) -> None:
        self.scroll_columns_to(self.scroll_offset.x + columns)

    def action_follow(self) -> None:
        if self.line_count:
            self.post_message(self.Followed(self, self._cursor))

    def action_find_next(self) -> None:
        self.find_next()

    def action_find_previous(self) -> None:
        self.find_previous()

    def action_next_mark(self) -> None:
        self._jump(min((line for line in self._marks if line > self._cursor), default=None))

    def action_previous_mark(self) -> None:
        self._jump(max((line for line in self._marks if line < self._cursor), default=None))

    # mouse

    def _is_track(self, event: events.MouseEvent) -> bool:
        return event.x >= self.outer_size.width - 1

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button != 1:
            return
        self.capture_mouse()
        if self._is_track(event):
            self._is_dragging_track = True
            self.scroll_to_track(event.y)
        else:
            self.select(range(0))
            self._selection_start = self.line_at(event.y)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._is_dragging_track = False
        self._selection_start = None
        self.release_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        line, start = self.line_at(event.y), self._selection_start
        if self._is_dragging_track:
            self.scroll_to_track(event.y)
        elif start is None:
            hovered = -1 if line is None else line
            self._hover(hovered)
        elif line is not None and (line != start or self._selected):
            self.select(range(min(line, start), max(line, start) + 1))

    def on_leave(self, event: events.Leave) -> None:
        self._hover(-1)

    def on_click(self, event: events.Click) -> None:
        line = self.line_at(event.y)
        if line is None or self._is_track(event) or self._selected:
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
            self.action_columns_by(WHEEL_COLUMNS * direction)
        else:
            self.scroll_lines_to(self.scroll_offset.y + WHEEL_LINES * direction)

    def _hover(self, line: int) -> None:
        before, self._hovered = self._hovered, line
        if before != line:
            self.redraw((before, line))


def paint_after_messages(app: App[object]) -> None:
    """Delay the next frame until the messages on their way have been answered.

    A cursor that moves makes other panes scroll. In a frame of its own each, a key would take three
    frames, of which Textual paints one every 16 ms; together it takes one.
    """
    hold = contextlib.ExitStack()
    hold.enter_context(app.batch_update())
    loop = asyncio.get_running_loop()

    def release(hops: int) -> None:
        if hops:
            loop.call_soon(release, hops - 1)
        else:
            hold.close()
            if app.is_running:
                # the app went idle while the frame was held, and would not look again by itself
                app.screen.check_idle()

    release(HOPS)
