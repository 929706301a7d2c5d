"""Getting a finished session to the place where the user wants it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

from fx_explorer.errors import SessionWriteError, UsageError
from fx_explorer.session.writer import finish_session


def check_output(output: Path) -> None:
    """Raises UsageError when no file can be made at ``output``: better now than after a minute of compiling."""
    if output.is_dir():
        raise UsageError(f"{output} is a directory; give the name of the file to write with -o")
    try:
        with tempfile.TemporaryFile(dir=output.absolute().parent):
            pass
    except OSError as error:
        raise UsageError(
            f"cannot write {output}: {error.strerror} ({output.absolute().parent}). Choose another place with -o FILE."
        ) from error


def place_session(session: Path, output: Path) -> None:
    """Complete the session and put it at ``output``, at once: a reader never sees half a file there.

    Raises SessionWriteError when that fails; the session then stays where it is.
    """
    try:
        finish_session(session)
        os.replace(session, output)
    except (SessionWriteError, OSError):
        # Another file system, or no room where the session is: a copy needs none there. A real problem shows again.
        _copy(session, output)


def _copy(session: Path, output: Path) -> None:
    """Copy through SQLite, which includes what is still in the write-ahead log."""
    beside = output.with_name(f".{output.name}.partial")
    try:
        with contextlib.closing(sqlite3.connect(session)) as source, contextlib.closing(sqlite3.connect(beside)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
        os.replace(beside, output)
    except (OSError, sqlite3.Error) as error:
        with contextlib.suppress(OSError):
            beside.unlink()
        reason = error.strerror if isinstance(error, OSError) else error
        raise SessionWriteError(
            f"cannot write {output}: {reason}. The session is kept in {session}; move it where there is room."
        ) from error
    for name in (session.name, f"{session.name}-wal", f"{session.name}-shm"):
        session.with_name(name).unlink(missing_ok=True)
