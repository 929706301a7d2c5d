"""Places of a finished session: where the user wants it, and where something can be added to it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from pathlib import Path

from fx_explorer.errors import SessionError, SessionWriteError, UsageError
from fx_explorer.session import SessionReader
from fx_explorer.session.schema import SCHEMA_VERSION
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
    """Put the session, as one plain file, at ``output``, at once: a reader never sees half a file there.

    It is copied, because the app may still be reading it where it is, and because the place may be on another file system.
    Only when there is no room for a copy is it moved. Raises SessionWriteError when that fails too; the session then stays
    where it is.
    """
    if not session.exists():
        raise SessionWriteError(
            f"the session {session} is gone: something removed it while the capture ran (a clean-up of /tmp?)."
        )
    try:
        copy_session(session, output)
    except (OSError, sqlite3.Error) as error:
        try:
            finish_session(session)
            os.replace(session, output)
        except (OSError, SessionWriteError):
            reason = error.strerror if isinstance(error, OSError) else error
            raise SessionWriteError(
                f"cannot write {output}: {reason}. The session is kept in {session}; move it where there is room."
            ) from error
    else:
        for name in (session.name, f"{session.name}-wal", f"{session.name}-shm"):
            session.with_name(name).unlink(missing_ok=True)


def copy_session(session: Path, output: Path) -> None:
    """Copy through SQLite, which includes what is still in the write-ahead log."""
    beside = output.with_name(f".{output.name}.partial")
    try:
        with contextlib.closing(sqlite3.connect(session)) as source, contextlib.closing(sqlite3.connect(beside)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode=DELETE")
        os.replace(beside, output)
    finally:
        beside.unlink(missing_ok=True)


def writable_session(session: Path) -> Path:
    """The session itself, or a copy in a temporary directory when it cannot be written to: compare the two to know.

    Raises SessionError for one that an older fx-explorer wrote: it has no place for what is found.
    """
    with SessionReader(session) as reader:
        if reader.meta("schema_version") != SCHEMA_VERSION:
            raise SessionError(
                f"{session} was written by an older fx-explorer, and has no place for compiled kernels: capture it again"
            )
    if os.access(session, os.W_OK) and os.access(session.absolute().parent, os.W_OK):
        return session
    copy = Path(tempfile.mkdtemp(prefix="fx-explorer-")) / session.name
    copy_session(session, copy)
    return copy
