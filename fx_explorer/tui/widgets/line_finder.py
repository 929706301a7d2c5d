"""A LineView is searched in the background; the finder knows the matches so far."""

from __future__ import annotations

import asyncio
import functools
import re
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.worker import Worker

    from fx_explorer.tui.widgets.line_view import LineView

LINES_AT_A_TIME = 2_000
"""Lines searched at once. More would make a key wait for longer than some milliseconds."""


class LineFinder:
    """The find of one view. It starts at the cursor, wraps around at the end, and keeps what it
    found when it is stopped.
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
        self._expression = re.compile(re.escape(pattern), ignore_case) if pattern else None
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
        """Return the first match below ``line``, or the first of all if there is none."""
        if not self.matches:
            return None
        index = bisect_right(self.matches, line)
        return self.matches[index % len(self.matches)]

    def before(self, line: int) -> int | None:
        """Return the last match above ``line``, or the last of all if there is none."""
        return self.matches[bisect_left(self.matches, line) - 1] if self.matches else None
