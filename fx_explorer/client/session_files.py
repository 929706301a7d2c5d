"""Places of a finished session: where the user wants it, and where something can be added to it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fx_explorer.client.trust import is_being_captured
from fx_explorer.errors import SessionWriteError, UsageError
from fx_explorer.folders import new_temporary_folder
from fx_explorer.output_file import OutputFile
from fx_explorer.outside_file import open_outside
from fx_explorer.session import SessionWriter
from fx_explorer.session.elsewhere import bring_texts, what_reads_texts
from fx_explorer.session.ownership import mark_as_captured_here
from fx_explorer.session.queries.compilations import source_files
from fx_explorer.session.schema import APPLICATION_ID
from fx_explorer.session.untrusted.kind_of_file import SQLITE_HEADER
from fx_explorer.session.writer import finish_session

_APPLICATION_ID_AT = 68
"""Offset of the application id in the header (sqlite.org/fileformat2.html#database_header)."""


def session_file(path: Path, *, force: bool = False, never: Sequence[Path] = ()) -> OutputFile:
    """Return a place for a session: a free name, or an older session (with ``force`` anything but
    the files in ``never``).
    """
    return OutputFile(path, "session", is_a_session, force, tuple(never))


def is_a_session(file: Path) -> bool:
    """Return whether the file's first bytes mark it as one of our sessions (SQLite's header has our
    application id).
    """
    with contextlib.suppress(OSError), open_outside(file) as opened:
        header = opened.read(_APPLICATION_ID_AT + 4)
        return header.startswith(SQLITE_HEADER) and header[
            _APPLICATION_ID_AT:
        ] == APPLICATION_ID.to_bytes(4, "big")
    return False


def files_of(target: str) -> tuple[Path, ...]:
    """Return the file that a target names, ``file.py`` or ``file.py:object``, however it is
    called.
    """
    return tuple(Path(name) for name in (target, target.rpartition(":")[0]) if name)


def place_session(session: Path, output: OutputFile) -> None:
    """Move the session, as one plain file, to ``output`` atomically: a reader never sees half a
    file.

    It is copied, because the app may still be reading it where it is, and because the place may be
    on another file system. Only when there is no room for a copy is it moved. Raises
    SessionWriteError when that fails too, or when something of the user's is there by now; the
    session then stays where it is.
    """
    if not session.exists():
        raise SessionWriteError(
            f"the session {session} is gone: something removed it while the capture ran "
            "(a clean-up of /tmp?)."
        )
    kept = f"The session is kept in {session}; move it where there is room."
    try:
        output = replace(output, never=(*output.never, *source_files(session)))
        copy_session(session, output)
    except UsageError as error:
        raise SessionWriteError(f"{error}. The session is kept in {session}.") from error
    except (OSError, sqlite3.Error) as error:
        try:
            finish_session(session)
            output.put(session)
        except (OSError, SessionWriteError, UsageError):
            reason = error.strerror if isinstance(error, OSError) else error
            raise SessionWriteError(f"cannot write {output.path}: {reason}. {kept}") from error
    else:
        for name in (session.name, f"{session.name}-wal", f"{session.name}-shm"):
            session.with_name(name).unlink(missing_ok=True)


def copy_session(session: Path, output: OutputFile) -> None:
    """Copy the session completely, including the write-ahead log. Raises UsageError, OSError and
    sqlite3.Error.
    """
    with output.partial() as beside:
        with (
            contextlib.closing(sqlite3.connect(session)) as source,
            contextlib.closing(sqlite3.connect(beside)) as copy,
        ):
            source.backup(copy)
            if read := what_reads_texts(session):
                bring_texts(copy, read)
            # The backup took over the write-ahead log of its source, and a finished session is one
            # file.
            copy.execute("PRAGMA journal_mode=DELETE")
        if is_being_captured(session):  # it has no mark yet, which its copy needs elsewhere
            with SessionWriter(beside) as writer:
                mark_as_captured_here(beside, writer)


def writable_session(session: Path, folder: Path | None = None) -> Path:
    """Return the session itself, or, if it cannot be written to, a copy in ``folder`` (a temporary
    one by default). The paths differ for a copy.
    """
    # The directory counts too, since SQLite makes its log beside the session.
    if os.access(session, os.W_OK) and os.access(session.absolute().parent, os.W_OK):
        return session
    copy = (folder or new_temporary_folder()) / session.name
    copy_session(session, session_file(copy))
    return copy
