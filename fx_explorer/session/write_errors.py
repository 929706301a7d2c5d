"""This module turns SQLite's errors during writing a session into errors with a remedy."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

from fx_explorer.errors import SessionWriteError

LITTLE_ROOM = 1 << 20
"""Free bytes below which a disk counts as full."""


class ExplainedWrite:
    """Turns SQLite's errors in a block into a SessionWriteError with a remedy."""

    __slots__ = ("_path", "_verb")

    def __init__(self, path: Path, verb: str) -> None:
        self._path = path
        self._verb = verb

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # One row that cannot be stored is a fault of ours, and the next one can.
        is_of_one_row = isinstance(
            error, (sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError)
        )
        if isinstance(error, sqlite3.Error) and not is_of_one_row:
            raise SessionWriteError(
                f"cannot {self._verb} the session file {self._path}: {_why(self._path, error)}. "
                "Check that the disk has room and that you may write there. A session that is "
                "being recorded is in a temporary directory, which TMPDIR sets."
            ) from error


def _why(path: Path, error: sqlite3.Error) -> str:
    """Return SQLite's message, or that the disk is full: SQLite may report that as an I/O error."""
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError:
        return str(error)
    if free < LITTLE_ROOM:
        return "no room is left on the disk"
    return str(error)
