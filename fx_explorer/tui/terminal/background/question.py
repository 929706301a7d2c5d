"""Asks the terminal for its background before the app is there, and waits only for a moment.

The question is sent before Textual is imported, which takes longer than an answer: nobody waits for
the terminal, unless it is far away.
"""

from __future__ import annotations

import contextlib
import os
import select
import termios
import time
from collections.abc import Iterator, Mapping
from typing import TextIO

from fx_explorer.tui.terminal.background.answers import QUESTION, Answers
from fx_explorer.tui.terminal.input_bytes import InputBytes

LIMIT_S = 0.15
REMOTE_LIMIT_S = 0.5
"""Over ssh, where an answer goes to the user and back."""

MUTE = ("", "dumb", "linux")
"""Values of TERM for terminals that do not know the question. The console of Linux shows a part of
it.
"""


class TerminalQuestion:
    """One question that was asked, and what has come back by now."""

    def __init__(self, input_fd: int, limit_s: float) -> None:
        self._input_fd = input_fd
        self._until = time.monotonic() + limit_s
        self._decode = InputBytes().decode
        self.answers = Answers()
        self.typed = ""
        """What the user typed meanwhile, which is for the app."""

    def wait(self) -> Answers:
        """Read until the terminal has answered, or the time is over. Returns its answers."""
        while not self.answers.are_complete:
            left_s = self._until - time.monotonic()
            if not select.select([self._input_fd], [], [], max(0.0, left_s))[0]:
                break
            read = os.read(self._input_fd, 4096)
            if not read:
                break
            self.typed += self.answers.take(self._decode(read))
        return self.answers


@contextlib.contextmanager
def asked(
    terminal: TextIO | None, out: TextIO, environ: Mapping[str, str] = os.environ
) -> Iterator[TerminalQuestion | None]:
    """Ask at once. Until the block is left, the terminal shows nothing that comes in. Yields None
    where there is nobody to ask.
    """
    if (
        terminal is None
        or terminal.closed
        or not terminal.isatty()
        or environ.get("TERM", "") in MUTE
    ):
        yield None
        return
    input_fd = terminal.fileno()
    attributes = termios.tcgetattr(input_fd)
    quiet = termios.tcgetattr(input_fd)
    quiet[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(input_fd, termios.TCSANOW, quiet)
    try:
        out.write(QUESTION)
        out.flush()
        is_remote = bool(environ.get("SSH_TTY") or environ.get("SSH_CONNECTION"))
        yield TerminalQuestion(input_fd, REMOTE_LIMIT_S if is_remote else LIMIT_S)
    finally:
        termios.tcsetattr(input_fd, termios.TCSANOW, attributes)
