"""One line of a terminal that is written again while something is read, and gone when it was."""

from __future__ import annotations

import os
import time
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from typing_extensions import Self

EVERY_S = 0.1


class LiveLine:
    """Shows nothing where the output is no terminal, and for what is read at once."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self.is_live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._next_s = time.monotonic() + EVERY_S
        self._is_shown = False

    @property
    def is_due(self) -> bool:
        """Return whether the line is to be written again now."""
        return self.is_live and time.monotonic() >= self._next_s

    def show(self, text: str) -> None:
        """Write the line again."""
        self._next_s = time.monotonic() + EVERY_S
        self._is_shown = True
        self._out.write(f"\r\x1b[K{text}")
        self._out.flush()

    def __enter__(self) -> Self:
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
