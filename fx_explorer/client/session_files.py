"""This module knows the places of session files: the temporary directory of a capture, where the
user wants a finished session, where something can be added to it, and directories whose process was
killed.

A session that a worker writes is always in a temporary directory, on a local disk: SQLite's
write-ahead log does not work on network file systems.

A directory is in use while its maker holds a lock on it (``folders.py``), which the system releases
however the maker ends. One that nobody holds and that contains a capture is dealt with at the next
start (``interrupted.py``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fx_explorer.errors import SessionError, SessionWriteError, UsageError
from fx_explorer.folders import IN_USE_PREFIX, Lock, new_temporary_folder, temporary_folder
from fx_explorer.model import Compilation, ConsoleLine
from fx_explorer.output_file import OutputFile
from fx_explorer.outside_file import open_outside
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.elsewhere import bring_texts, what_reads_texts
from fx_explorer.session.ownership import is_being_captured, mark_as_captured_here
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


def session_content(session: Path) -> bytes:
    """Return the bytes of a session file. One that is not complete in itself, as it is being
    written or has texts in a log, is copied first.
    """
    log = session.with_name(f"{session.name}-wal")  # a reader makes one too, which stays empty
    is_written = log.exists() and log.stat().st_size > 0
    if not is_written and what_reads_texts(session) is None:
        return session.read_bytes()
    with temporary_folder() as folder:
        copy = folder / SESSION
        copy_session(session, session_file(copy))
        return copy.read_bytes()


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


SESSION = "session.fxs"

TOLD = "told"
"""Name of the file that marks a directory that the user knows of."""

SETTLED_S = 60
"""A directory without a lock that is younger than this may be about to be locked."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A temporary directory that a capture left and that is no longer locked."""

    directory: Path
    target: str
    started: str
    compilations: int
    size_bytes: int
    problem: str = ""
    """Why the session cannot be read; empty when it can."""

    @property
    def session(self) -> Path:
        return self.directory / SESSION

    @property
    def was_reported(self) -> bool:
        return (self.directory / TOLD).exists()

    @property
    def words(self) -> str:
        """Describe it: ``train.py, 2026-11-22 10:37, 4 compilations``."""
        if self.compilations == 1:
            content = "1 compilation"
        else:
            content = f"{self.compilations} compilations"
        return f"{self.target}, {self.started}, {self.problem or content}"

    def __str__(self) -> str:
        return f"{self.words}, {self.size_bytes / 1e6:.1f} MB: {self.session}"


def new_capture_directory() -> tuple[Path, Lock]:
    """Make a directory and lock it. Raises SessionWriteError if there is no room for it."""
    directory = new_temporary_folder(IN_USE_PREFIX)
    try:
        return directory, Lock(directory, is_own=True)
    except OSError as error:
        raise SessionWriteError(
            f"cannot write to {directory}: {error.strerror}. Set TMPDIR to a directory with room."
        ) from error


def note_reported(directory: Path) -> None:
    with contextlib.suppress(OSError):  # no room: it is told once more
        (directory / TOLD).touch()


def leftovers() -> list[Leftover]:
    """Return all leftovers of this user, the oldest first. Empty ones are removed."""
    found = []
    for directory in sorted(_directories(), key=_changed_at):
        with contextlib.suppress(OSError):  # held, or gone meanwhile
            lock = Lock(directory)
            try:
                is_settled = (
                    time.time() - directory.stat().st_mtime > SETTLED_S
                )  # to read it makes files in it
                leftover = _read(directory)
                if leftover:
                    found.append(leftover)
                elif is_settled:
                    shutil.rmtree(directory, ignore_errors=True)
            finally:
                lock.release()
    return found


def remove_leftover(leftover: Leftover) -> None:
    shutil.rmtree(leftover.directory, ignore_errors=True)


def _directories() -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(IN_USE_PREFIX) and entry.is_dir(follow_symlinks=False):
                with contextlib.suppress(OSError):
                    # The directory for temporary files is everybody's, and so is our prefix.
                    if entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                        yield Path(entry.path)


def _changed_at(directory: Path) -> float:
    """Return the time of the directory's last change; 0 when another process has removed it."""
    with contextlib.suppress(OSError):
        return directory.stat().st_mtime
    return 0.0


def _read(directory: Path) -> Leftover | None:
    """Read a leftover; None if nothing was captured."""
    session = directory / SESSION
    if not session.is_file() or session.is_symlink():
        return None
    size = sum(file.stat().st_size for file in directory.glob(f"{SESSION}*"))
    started = time.strftime("%Y-%m-%d %H:%M", time.localtime(session.stat().st_mtime))
    try:
        with SessionReader(session) as reader:
            compilations = reader.count(Compilation)
            request = reader.request()
            if not compilations and not reader.count(ConsoleLine):
                return None
            target = request.target if request else "unknown"
            return Leftover(directory, target, started, compilations, size)
    except (SessionError, ValueError, TypeError, KeyError) as error:
        return Leftover(directory, "unknown", started, 0, size, f"cannot be read ({error})")
