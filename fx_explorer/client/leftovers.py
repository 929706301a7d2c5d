"""This module makes temporary directories for the sessions of captures, and finds those whose
process was killed.

A session that a worker writes is always in one of them, on a local disk: SQLite's write-ahead log
does not work on network file systems.

A directory is in use while its maker holds a lock on it (``folders.py``), which the system releases
however the maker ends. A directory that nobody holds and that contains a capture is reported once,
at the next start, and stays until ``fx-explorer recover`` removes it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import SessionError, SessionWriteError
from fx_explorer.folders import IN_USE_PREFIX, Lock, new_temporary_folder
from fx_explorer.model import Compilation, ConsoleLine
from fx_explorer.session import SessionReader

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


def new_directory() -> tuple[Path, Lock]:
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


def news() -> list[str]:
    """Return one line about all leftovers that were not reported yet, and count them as reported;
    empty without new ones.
    """
    new = [leftover for leftover in leftovers() if not leftover.was_reported]
    for leftover in new:
        note_reported(leftover.directory)
    if not new:
        return []
    if len(new) == 1:
        return [
            (
                f"a capture was interrupted, and what it found is kept ({new[0].words}). Get "
                "or remove it: fx-explorer recover"
            )
        ]
    text = (
        f"{len(new)} captures were interrupted, and what they found is kept (the last: "
        f"{new[-1].words})"
    )
    return [f"{text}. List, get or remove them: fx-explorer recover"]


def remove(leftover: Leftover) -> None:
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
