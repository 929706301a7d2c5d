"""The worker's two private pipes: notices to the client, commands from it."""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from os import getpid  # at once: the program may replace it
from pathlib import Path

from fx_explorer.model import CaptureRequest, Command, Notice, Outcome
from fx_explorer.program import process_ending
from fx_explorer.session.bounds import shortened
from fx_explorer.session.undisturbed import Descriptor, moved_up, undisturbed

LAST_WORDS_FILE = "outcome.json"
"""File beside the session with the outcome of the capture, if the pipe is closed."""

MAX_NOTICE = 20_000
MAX_MESSAGE = 4_000
"""Maximum number of characters of a text sent to the client; the session has the whole text. JSON
may make it 14 times as long, and the client reads lines up to 1 MiB.
"""

_read, _write = os.read, os.write
"""The functions as they are before the program can replace them."""

MAX_SHOWN = 200
"""Maximum number of characters shown of a line that is not a command."""


class Channel:
    """Talks to the client. Usable from any thread; silent in forked children, who are not the
    worker.
    """

    def __init__(self, notices: int, commands: int, begun: bytes = b"") -> None:
        """``begun`` was read of the commands already."""
        self._notices: Descriptor | None = moved_up(notices)
        self._commands: Descriptor | None = moved_up(commands)
        """The pipe of commands, or None once the program has closed it."""
        self._last_words: Path | None = None
        self._lock = threading.Lock()
        self._unread = begun
        self.give: Callable[[Command], bool] = lambda command: False
        """Passes a command to a gate; returns False if none waits."""
        os.register_at_fork(after_in_child=self._close_in_child)

    def send(self, notice: Notice) -> None:
        """Write one line. Do nothing if the pipe is closed, because the program closed every
        descriptor or the client died: the client notices that itself.
        """
        self._is_sent(notice)

    def _is_sent(self, notice: Notice) -> bool:
        line = replace(notice, text=shortened(notice.text, MAX_NOTICE)).to_json().encode() + b"\n"
        with undisturbed, self._lock:
            try:
                while line and self._notices and self._notices.is_ours:
                    line = line[_write(self._notices.number, line) :]
            except OSError:
                self._notices = None
        return not line

    def send_outcome(self, outcome: Outcome) -> None:
        """Send the outcome through the pipe, or leave it in a file beside the session if the
        program has closed the pipe.
        """
        text = json.dumps(
            replace(outcome, message=shortened(outcome.message, MAX_MESSAGE)).to_json()
        )
        if not self._is_sent(Notice("outcome", text=text)) and self._last_words:
            with contextlib.suppress(
                OSError
            ):  # no room, or the directory is gone: the client tells it from our status
                self._last_words.write_text(text)

    def read_request(self) -> CaptureRequest:
        """Return the request in the first line that the client sends. Raises EOFError when the
        client went away before.
        """
        line = self._read_line()
        if not line:
            raise EOFError("the client closed the command pipe before it sent a request")
        request = CaptureRequest.from_json(line.decode())
        self._last_words = Path(request.session).with_name(LAST_WORDS_FILE)
        return request

    def obey(self) -> None:
        """Follow commands from now on, in a thread that is not listed among the program's own
        (``threading``).
        """
        _thread.start_new_thread(self._obey, ())

    def _obey(self) -> None:
        """Pass commands on as they come. If no gate waits for one, an abort or quit ends the work,
        and any other is refused.
        """
        while line := self._read_line():
            try:
                command = Command.from_json(line.decode())
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                shown = line.decode(errors="replace")[:MAX_SHOWN]
                self.send(Notice("refused", text=f"This is no command: {shown} ({error})"))
                continue
            if self.give(command):
                continue
            if command.kind == "abort":
                process_ending.stop()
            elif command.kind == "quit":
                end_group()
            else:
                self.send(
                    Notice(
                        "refused",
                        text="The worker is at no pause now: it compiles, or runs the program.",
                    )
                )
        if self._commands:
            end_group()  # the client is gone: nobody is left to stop us later

    def _read_line(self) -> bytes:
        """Return the next line; empty at the end of the pipe."""
        while b"\n" not in self._unread:
            try:
                if self._commands and self._commands.is_ours:
                    chunk = _read(self._commands.number, 65536)
                else:
                    chunk = None
            except OSError:
                chunk = None
            if chunk is None:
                # The program closed descriptors that are not its own (a daemon does); continue
                # without commands.
                self._commands = None
                return b""
            if not chunk:
                return b""
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line

    def _close_in_child(self) -> None:
        """Close the pipes in a forked child. Their end is how each side learns that the other is
        gone, so a child must not hold them.
        """
        for descriptor in (self._notices, self._commands):
            if descriptor and descriptor.is_ours:
                os.close(descriptor.number)
        self._notices = self._commands = None
        self._lock = threading.Lock()  # another thread may have held it when the fork happened


def end_group() -> None:
    """End this process and everything it started (compilers, the program's own children)."""
    if os.getpgrp() == getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os.kill(getpid(), signal.SIGKILL)  # the program has moved us into a group that is not ours
