"""This module finds the logs that a command line names: a log that a job is writing (``--follow``),
and a directory with logs of ranks. It shows the progress of reading those.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TextIO

from fx_explorer.command_line.narration import LiveLine
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import print_fitted
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

LOOKED_AFTER_S = 0.2


def followed_log(given: Path) -> Path:
    """Return the log itself, or that of a directory, which is waited for.

    Raises UsageError for what no job writes a log to, and without a terminal.
    """
    # Both are not needed for Python files.
    from fx_explorer.readers.torch_trace.growing import log_to_follow
    from fx_explorer.readers.torch_trace.opened import is_packed

    if not is_on_terminal():
        raise UsageError(
            "--follow shows a log in the app, which needs a terminal. Leave it out to read the "
            "log up to now"
        )
    if not given.is_dir():
        kind = kind_of_file(given)
        if kind.kind != "log":
            raise UsageError(
                "--follow takes a TORCH_TRACE log that a job is writing, or the directory that "
                f"TORCH_TRACE names: {given} is {kind.words}"
            )
        if is_packed(given):
            raise UsageError(
                f"{given} is compressed: no job is writing to it. Open it without --follow"
            )
        return given
    log = log_to_follow(given)
    if log is None:
        print_fitted(
            f"fx-explorer: waiting for a TORCH_TRACE log in {printable(str(given))} (Ctrl-C ends)",
            sys.stderr,
        )
    while log is None:
        time.sleep(LOOKED_AFTER_S)
        log = log_to_follow(given)
    return log


def is_on_terminal() -> bool:
    """Return whether the app can be shown, and ask."""
    streams = (sys.stdin, sys.stdout, sys.__stderr__)
    return all(stream is not None and stream.isatty() for stream in streams)


FIRST_LINE_S = 2.0
"""Seconds before the first progress line if the output is not a terminal."""

MANY = 1_000
"""Number of files from which on reading takes minutes, which is announced at once."""

NEXT_LINE_S = 10.0


class ReadingProgress(LiveLine):
    """Shows a bar on one line of a terminal, which disappears at the end; otherwise prints a line
    from time to time.
    """

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._next_written_s = time.monotonic() + FIRST_LINE_S
        self._began_s: float | None = None

    def show_progress(self, done: int, total: int) -> None:
        """Say how many of how many are read."""
        now = time.monotonic()
        is_first_of_many = self._began_s is None and total >= MANY
        if self._began_s is None:
            self._began_s = now
        left = _time_left(now - self._began_s, done, total)
        if self.is_live:
            if is_first_of_many or self.is_due:
                width = 30 * done // max(1, total)
                bar = "=" * width + "." * (30 - width)
                self.show(f"reading ranks [{bar}] {done:,} of {total:,}{left}")
        elif is_first_of_many or now >= self._next_written_s:
            self._next_written_s = now + NEXT_LINE_S
            print(f"reading ranks: {done:,} of {total:,}{left}", file=self._out, flush=True)


def _time_left(took_s: float, done: int, total: int) -> str:
    """Return the time for the remaining files at the present speed; empty for less than a minute,
    and while it is not known.
    """
    if took_s < FIRST_LINE_S or not done:
        return ""
    minutes = took_s / done * (total - done) / 60
    if minutes < 1:
        return ""
    return f" · about {round(minutes):,} min left"


# A directory as TARGET: whether it holds the logs of a job's ranks.


def is_of_ranks(target: str) -> bool:
    """Return whether a target is a directory with logs, or with sessions of ranks; not a package of
    Python.
    """
    directory = Path(target)
    if (
        not directory.is_dir()
        or (directory / "__init__.py").exists()
        or (directory / "__main__.py").exists()
    ):
        return False
    from fx_explorer.instruments.ranks.rank_files import has_logs  # not needed for Python files

    return has_logs(directory)


def logs_in(target: str) -> list[Path]:
    """Return the logs and sessions directly in a directory; none in a package of Python."""
    if not is_of_ranks(target):
        return []
    from fx_explorer.instruments.ranks.rank_files import find_files

    return [file.path for file in find_files([Path(target)]).found]


def only_log_in(directory: Path) -> Path | None:
    """Return the log or session of a directory that has no other of one rank; None otherwise. The
    log that several ranks wrote to is that of no single one.
    """
    logs = logs_in(str(directory))
    if len(logs) != 1:
        return None
    from fx_explorer.instruments.ranks.rank_files import is_of_several_ranks

    return None if is_of_several_ranks(logs[0]) else logs[0]
