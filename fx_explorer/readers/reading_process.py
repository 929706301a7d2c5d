"""This process reads a log into a session while the app shows the data read so far
(``command_line/logs.py``).

On its output is a notice a line (``model/protocol.py``); on its input comes the id of the
compilation that is looked at, which is decoded next. It ends when nobody reads its output any more.
With ``--follow`` it continues with what a job adds to the log; with ``--origin NAME FILE`` the log
is shown as that.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import Path

from fx_explorer.errors import FxExplorerError
from fx_explorer.model import Notice
from fx_explorer.readers.torch_trace.growing import GrowingLog, Progress, describe_progress
from fx_explorer.readers.torch_trace.opened import STANDARD_INPUT
from fx_explorer.readers.torch_trace.read_log import LogOrigin, LogReading
from fx_explorer.readers.tritonparse_log import EventReading
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

TOLD_EVERY_S = 0.1


def main() -> int:
    """Read the log named by the first argument into the session named by the second."""
    log, session = map(Path, sys.argv[1:3])
    wanted = Wanted()
    if log != STANDARD_INPUT:
        threading.Thread(target=wanted.listen, daemon=True).start()
    teller = Teller()
    try:
        if log != STANDARD_INPUT and kind_of_file(log).kind == "tritonparse":
            with EventReading(log, session, tell=teller.print_progress) as events:
                events.find()
                events.finish()
            return 0
        with LogReading(log, session, leave_texts=True, tell=teller.print_progress) as reading:
            reading.origin = _origin(sys.argv[3:])
            if "--follow" in sys.argv[3:]:
                with GrowingLog(log) as growing:
                    reading.follow(growing)
                return 0
            reading.find()
            os.nice(5)  # the app comes first: what it shows is in the session already
            reading.decode(wanted.take)
    except FxExplorerError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # the app has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _origin(options: list[str]) -> LogOrigin | None:
    """Return the name and the path after ``--origin``; None without it."""
    if options[:1] != ["--origin"]:
        return None
    return LogOrigin(*options[1:3])


class Wanted:
    """The compilation that the user looks at, which is decoded first. Its number comes in
    on stdin.
    """

    def __init__(self) -> None:
        self._latest = 0

    def listen(self) -> None:
        for line in sys.stdin:
            with contextlib.suppress(ValueError):
                self._latest = int(line)

    def take(self) -> int:
        return self._latest


class Teller:
    """Reports how far the reading is, as often as a person can read it."""

    def __init__(self) -> None:
        self._told = 0.0

    def print_progress(self, progress: Progress) -> None:
        if time.monotonic() - self._told >= TOLD_EVERY_S:
            self._told = time.monotonic()
            print(Notice("worker", text=describe_progress(progress)).to_json(), flush=True)
