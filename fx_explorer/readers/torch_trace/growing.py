"""A log that a job is writing to: its bytes as they come, and which log of a directory that is."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fx_explorer.errors import SessionError
from fx_explorer.readers.torch_trace.opened import BLOCK
from fx_explorer.session.untrusted.kind_of_file import kind_of_file

LOOKED_AFTER_S = 0.2
"""How often it is looked whether the log has grown."""

TOLD_AFTER_S = 1.0
"""How often it is told that it has not."""

_RANK = re.compile(r"_rank_(\d+)_")


class GrowingLog:
    """One log, from its beginning on. A context manager."""

    def __init__(self, log: Path) -> None:
        """Raises SessionError where it cannot be read, or is packed: a job writes plain text."""
        self._log = log
        try:
            self._file = log.open("rb")
        except OSError as error:
            raise SessionError(f"{log} cannot be read: {error.strerror or error}") from error
        self._read = 0
        self._grew_at = time.monotonic()

    @property
    def idle_s(self) -> float:
        """Return for how long nothing was added."""
        return time.monotonic() - self._grew_at

    def blocks(self) -> Iterator[bytes]:
        """Yield what is there, and then what is added. An empty block stands wherever everything was read."""
        while True:
            block = self._file.read(BLOCK)
            self._read += len(block)
            yield block

    def wait(self, tell: Callable[[], None]) -> None:
        """Return when there is more. ``tell`` is called now and then meanwhile.

        Raises SessionError when the log was cut, removed, or another file has its name: what comes then is no
        continuation of what was read.
        """
        told = time.monotonic()
        while self._size() == self._read:
            time.sleep(LOOKED_AFTER_S)
            if time.monotonic() - told >= TOLD_AFTER_S:
                told = time.monotonic()
                tell()
        self._grew_at = time.monotonic()

    def _size(self) -> int:
        opened = os.fstat(self._file.fileno())
        try:
            named = self._log.stat()
        except OSError:
            named = None
        if named is None or not os.path.samestat(opened, named):
            raise SessionError(f"{self._log} was removed or replaced while it was followed. What it said until then is kept.")
        if opened.st_size < self._read:
            raise SessionError(f"{self._log} was cut while it was followed. What it said until then is kept.")
        return opened.st_size

    def __enter__(self) -> GrowingLog:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def log_to_follow(directory: Path) -> Path | None:
    """Return the log of a directory that is followed: of the lowest rank, the newest; None while there is none.

    Raises SessionError where the directory cannot be read.
    """
    try:
        files = [entry for entry in directory.iterdir() if entry.is_file() and entry.stat().st_size]
        logs = [file for file in files if kind_of_file(file).kind == "log"]
        return min(logs, key=lambda log: (_rank(log), -log.stat().st_mtime, log.name), default=None)
    except OSError as error:
        raise SessionError(f"{directory} cannot be read: {error.strerror or error}") from error


def _rank(log: Path) -> int:
    found = _RANK.search(log.name)
    return int(found[1]) if found else 0
