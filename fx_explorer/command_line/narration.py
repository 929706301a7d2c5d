"""This module narrates on stderr: one live line on a terminal, plain lines elsewhere, and the
program's output between them.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

from fx_explorer.highlight import printable
from fx_explorer.model import Notice
from fx_explorer.output.terminal import print_fitted, terminal_width

if TYPE_CHECKING:
    from typing_extensions import Self

    from fx_explorer.client.console import LineSplitter


class CaptureNarration:
    """Reports a capture to the user without a screen.

    Lines of the program are shown with escape sequences made visible, unless they pass through
    (``run``): then its bytes go to our stdout and stderr untouched, as they would without us.
    """

    def __init__(self, out: TextIO, *, pass_through: bool) -> None:
        self._out = out
        self._pass_through = pass_through
        self._is_live = out.isatty() and os.environ.get("TERM") != "dumb"
        self._began = time.monotonic()
        self._shown = ""
        self._doing: Callable[[], str] = str
        """Returns the present activity, for the live line."""
        self._notes: set[str] = set()
        """Notes that were printed: each is printed once, the session counts."""
        self._is_output_lost = False
        self._splitters: dict[str, LineSplitter] = {}
        """The splitter of each stream: a long line is shown in pieces, before it ends."""

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def show(self, notice: Notice) -> None:
        """Print the lasting part of a notice: notes, each once, and without a live line the
        worker's activity.
        """
        if (
            notice.kind == "worker" and not self._is_live and not self._pass_through
        ):  # a script's own stderr is left as it is
            self.print_message(notice.text)
        elif (
            notice.kind == "note" and notice.text not in self._notes
        ):  # a break is met by every call and recompile
            self._notes.add(notice.text)
            self.print_message(f"note: {notice.text}")
        self._redraw()

    def show_live(self, doing: Callable[[], str]) -> bool:
        """Show the present activity in the live line, which calls ``doing`` again as time passes.
        Returns False if there is no live line.
        """
        self._doing = doing
        self._redraw()
        return self._is_live

    def program_output(self, stream: str, chunk: bytes) -> None:
        self._clear()
        if self._pass_through:
            out = sys.stdout if stream == "stdout" else sys.stderr
            self._pass(out, chunk)
            return
        from fx_explorer.client.console import LineSplitter  # no log and no session prints anything

        for line in self._splitters.setdefault(stream, LineSplitter()).feed(chunk):
            self._out.write(f"  | {printable(line)}\n")
        self._redraw()

    def _pass(self, target: TextIO, chunk: bytes) -> None:
        """Write the program's output. If it is lost, the program continues, and the session has
        it.
        """
        if self._is_output_lost:
            return
        try:
            target.buffer.write(chunk)
            target.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            self._is_output_lost = True
            self.print_message(
                f"the program's output cannot be written: {error.strerror}; it continues"
            )

    def print_message(self, text: str) -> None:
        """Print a line that stays."""
        self._clear()
        for line in text.splitlines():
            print_fitted(f"fx-explorer: {printable(line)}", self._out)
        self._redraw()

    def end(self) -> None:
        """Show no live line from here on."""
        self._clear()
        self._is_live = False
        for splitter in self._splitters.values():
            for line in splitter.end():
                self._out.write(f"  | {printable(line)}\n")

    def tick(self) -> None:
        """Show in the live line that time has passed."""
        self._redraw()

    def _redraw(self) -> None:
        if not self._is_live or not (doing := self._doing()):
            return
        # One less: a line that reaches the edge may wrap, and only one row is cleared.
        width = terminal_width() - 1
        line = printable(f"{self.elapsed_s:5.1f} s  {doing}")[:width]
        if line != self._shown:
            self._out.write(f"\r\x1b[K{line}")
            self._out.flush()
            self._shown = line

    def _clear(self) -> None:
        if self._shown:
            self._out.write("\r\x1b[K")
            self._out.flush()
            self._shown = ""


EVERY_S = 0.1


class LiveLine:
    """One line of progress. Shows nothing if the output is not a terminal, and for data that are
    read at once.
    """

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
