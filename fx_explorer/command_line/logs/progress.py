"""How far the reading of a log is, on one line of a terminal that is gone when it was read."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import TextIO

from fx_explorer.readers.torch_trace.progress import Progress, in_words

EVERY_S = 0.1


class LogProgress:
    """Shows nothing where the output is no terminal, and for what is read at once."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._is_live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._next_s = time.monotonic() + EVERY_S
        self._is_shown = False

    def tell(self, progress: Progress) -> None:
        now = time.monotonic()
        if not self._is_live or now < self._next_s:
            return
        self._next_s, self._is_shown = now + EVERY_S, True
        self._out.write(f"\r\x1b[K{in_words(progress)}")
        self._out.flush()

    def __enter__(self) -> LogProgress:
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
