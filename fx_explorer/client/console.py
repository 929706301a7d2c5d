"""This module turns the program's output, bytes on a pipe, into rows of the session."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import time
from collections import deque
from collections.abc import Callable

from fx_explorer.errors import SessionWriteError
from fx_explorer.model import ConsoleLine
from fx_explorer.session import SessionWriter

MAX_LINE = 10_000
"""Maximum number of characters in one row; a longer line continues in the next row."""

MAX_LINES = 200_000
MAX_CHARACTERS = 30_000_000
"""Maximum number of characters that are stored from the beginning of one capture. A program that
prints for ever must not fill the disk.
"""

MAX_LAST_LINES = 1_000
"""Maximum number of lines that are stored from the end if a capture prints more: the last lines are
the first that one looks for.
"""

FLUSH_S = 0.1
WAITING_LINES = 20_000
"""Number of lines waiting to be written from which on the pipe is not read, which slows the program
down to our speed of writing.
"""


class LineSplitter:
    """Cuts a byte stream into lines of text. Bytes that are not UTF-8 are shown as ``\\xff``."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._partial = ""

    def feed(self, chunk: bytes) -> list[str]:
        *lines, self._partial = (self._partial + self._decoder.decode(chunk)).split("\n")
        complete = []
        for line in lines:
            complete += _pieces(_last_version(line))
        # A progress bar rewrites its line for minutes without ever ending it.
        self._partial = _last_version(self._partial, keep_end=True)
        if len(self._partial) > MAX_LINE:
            *full, self._partial = _pieces(self._partial)
            complete += full
        return complete

    def end(self) -> list[str]:
        """Return the rest of the output: a last line that has no line end."""
        left = _last_version(self._partial + self._decoder.decode(b"", final=True))
        self._partial = ""
        return _pieces(left) if left else []


def _last_version(line: str, *, keep_end: bool = False) -> str:
    """Return the final text of a line. A carriage return starts the line again, as on a
    terminal.
    """
    # Without it, what comes next would be added to the line that it is to replace.
    end = "\r" if keep_end and line.endswith("\r") else ""
    return line.rstrip("\r").rpartition("\r")[2] + end


def _pieces(line: str) -> list[str]:
    return [line[i : i + MAX_LINE] for i in range(0, len(line), MAX_LINE)] or [""]


class Console:
    """Writes console rows in batches, outside of the event loop: SQLite may wait for the worker's
    own transaction.
    """

    def __init__(
        self, writer: SessionWriter, listener: Callable[[str, bytes], None] | None = None
    ) -> None:
        self._writer = writer
        self._listener = listener
        self._started = time.monotonic()
        self._rows: list[ConsoleLine] = []
        self._lines_left = MAX_LINES
        self._characters_left = MAX_CHARACTERS
        self._late = 0
        """Lines that were printed after the limit of the session's console was reached."""
        self._last: deque[ConsoleLine] = deque(maxlen=MAX_LAST_LINES)
        """The latest of these lines."""
        self._room = asyncio.Event()
        self._room.set()

    async def read(self, stream: str, reader: asyncio.StreamReader) -> None:
        """Read a pipe to its end."""
        splitter = LineSplitter()
        try:
            while chunk := await reader.read(65536):
                if self._listener:
                    self._listener(stream, chunk)
                self.add(stream, splitter.feed(chunk))
                await self._room.wait()
        finally:
            self.add(stream, splitter.end())

    def add(self, stream: str, lines: list[str]) -> None:
        now = time.monotonic() - self._started
        for line in lines:
            row = ConsoleLine(0, stream, line, now)
            if self._lines_left > 0 and self._characters_left > 0:
                self._rows.append(row)
                self._lines_left -= 1
                self._characters_left -= len(line)
            else:
                self._last.append(row)
                self._late += 1
        if len(self._rows) > WAITING_LINES:
            self._room.clear()

    async def keep_writing(self) -> None:
        """Flush for ever; cancel it, then call ``finish``."""
        while True:
            await asyncio.sleep(FLUSH_S)
            with contextlib.suppress(
                SessionWriteError
            ):  # the lines are kept, and the end will tell
                await asyncio.to_thread(self._flush, self._writer)
            # Also when nothing could be written, or a full disk would hold up the program for ever.
            self._room.set()

    def finish(self, writer: SessionWriter) -> None:
        """Write the rest. If it raises SessionWriteError, it can be tried again with another
        writer.
        """
        if dropped := self._late - len(self._last):
            text = (
                f"{dropped:,} printed lines in between are not kept: the session keeps the "
                "beginning and the end"
            )
            self._rows.append(ConsoleLine(0, "", text, time.monotonic() - self._started))
        self._rows += self._last
        self._late = 0
        self._last.clear()
        self._flush(writer)

    def _flush(self, writer: SessionWriter) -> None:
        # Taken at once: the event loop adds lines while this thread writes.
        rows, self._rows = self._rows, []
        try:
            writer.add_all(rows)
        except SessionWriteError:
            self._rows = rows + self._rows
            raise
