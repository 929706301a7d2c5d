"""This module is shared by commands about the ranks of a job: the progress of reading their logs,
and whether a directory contains such logs.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TextIO

from fx_explorer.command_line.narration import LiveLine

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

    def tell(self, done: int, total: int) -> None:
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
