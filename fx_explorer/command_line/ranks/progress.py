"""How many logs are read: on one line of a terminal that is gone when all are, and elsewhere in a line from time to time."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import TextIO

EVERY_S = 0.1

FIRST_LINE_S = 2.0
"""What is read sooner is not told where the output is no terminal."""

MANY = 1_000
"""So many files take minutes, which is told at once."""

NEXT_LINE_S = 10.0


class ReadingProgress:
    """Shows nothing for what is read at once."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._next_s = time.monotonic() + (EVERY_S if self._is_live else FIRST_LINE_S)
        self._is_shown = False
        self._began_s: float | None = None

    def tell(self, done: int, of: int) -> None:
        """Say how many of how many are read."""
        now = time.monotonic()
        is_first = self._began_s is None
        if self._began_s is None:
            self._began_s = now
        if now < self._next_s and not (is_first and of >= MANY):
            return
        left = _time_left(now - self._began_s, done, of)
        if not self._is_live:
            self._next_s = now + NEXT_LINE_S
            print(f"reading ranks: {done:,} of {of:,}{left}", file=self._out, flush=True)
            return
        self._next_s, self._is_shown = now + EVERY_S, True
        width = 30 * done // max(1, of)
        self._out.write(
            f"\r\x1b[Kreading ranks [{'=' * width}{'.' * (30 - width)}] {done:,} of {of:,}{left}"
        )
        self._out.flush()

    def __enter__(self) -> ReadingProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_shown:
            self._out.write("\r\x1b[K")
            self._out.flush()


def _time_left(took_s: float, done: int, of: int) -> str:
    """Return how long the others take at the speed so far; empty for less than a minute, and while it is not known."""
    if took_s < FIRST_LINE_S or not done:
        return ""
    minutes = took_s / done * (of - done) / 60
    return f" · about {round(minutes):,} min left" if minutes >= 1 else ""
