"""The history: every capture of a project, kept by itself under a size limit, and found again by
its number.

A capture is a folder of ``$XDG_STATE_HOME/fx-explorer/history``, named by its number, with the
session and ``about.json``: which project and target, and when. Numbers are never used again, so
``history:17`` stays the same capture. Whoever uses a session holds a lock on its folder; one that
is held is not removed when there are too many.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.client.history_settings import HistorySettings, read_history_settings
from fx_explorer.client.session_files import SESSION, files_of, place_session, session_file
from fx_explorer.errors import SessionWriteError, UsageError
from fx_explorer.folders import state_folder
from fx_explorer.outside_file import read_outside

ABOUT = "about.json"
MOST_BYTES = 64 << 10
MOST_TRIES = 1000
"""Maximum number of numbers that are tried for a new capture, when others take them meanwhile."""

HALF_MADE_S = 600
"""Seconds after which a folder without a session is of a process that was killed."""

NAME = re.compile(r"history:(-?\d{1,9})\Z")


@dataclass(frozen=True, slots=True)
class KeptCapture:
    """One capture of the history."""

    number: int
    folder: Path
    project: str
    """The git repository of the target, or its folder; empty if that is not known."""
    target: str
    ended_at: float
    """Seconds since the epoch."""
    size_bytes: int

    @property
    def name(self) -> str:
        """Return how the user names it on the command line."""
        return f"history:{self.number}"

    @property
    def session(self) -> Path:
        return self.folder / SESSION


class Hold:
    """Keeps a capture from being removed as long as this process lives, or until it is released."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError if the folder is gone, or about to be removed."""
        self._descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise
        except OSError:  # a file system without locks
            self.release()

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def history_folder() -> Path:
    return state_folder() / "history"


def is_in_history(session: Path) -> bool:
    """Return whether a session is one of the history."""
    return session.parent.parent == history_folder()


def history_to_keep() -> History | None:
    """Return the history that captures are kept in; None where the user has switched it off."""
    settings = read_history_settings()
    return History(settings) if settings.keep else None


class History:
    """Keeps sessions, finds them again and removes the oldest."""

    def __init__(self, settings: HistorySettings | None = None) -> None:
        self.settings = settings or HistorySettings()
        self.folder = history_folder()

    def keep(
        self, session: Path, target: str, project: str, *, is_moved: bool
    ) -> tuple[KeptCapture, Hold]:
        """Move or copy a finished session into the history, remove what is too much, and return the
        new capture, which is held. Raises SessionWriteError where that is not possible; the session
        then stays where it is.
        """
        try:
            number, folder = self._make_folder()
            hold = Hold(folder)
        except OSError as error:
            raise SessionWriteError(
                f"{self.folder} cannot be written ({error.strerror or error})"
            ) from error
        try:
            about = {"project": project, "target": target, "ended_at": time.time()}
            (folder / ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")
            os.chmod(folder / ABOUT, 0o600)
            if is_moved:
                place_session(session, session_file(folder / SESSION))
            else:
                _copy_file(session, folder / SESSION)
        except (OSError, UnicodeError, SessionWriteError) as error:
            hold.release()
            shutil.rmtree(folder, ignore_errors=True)
            raise SessionWriteError(
                f"{self.folder} cannot be written ({_reason(error)})"
            ) from error
        kept = _read(number, folder)
        assert kept is not None, f"{folder} has no session"
        self.remove_oldest(kept)
        return kept, hold

    def _make_folder(self) -> tuple[int, Path]:
        """Make the folder of the next capture. Two processes cannot make the same one."""
        self.folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder.mkdir(exist_ok=True, mode=0o700)
        if self.folder.stat().st_mode & 0o077:
            os.chmod(self.folder, 0o700)
        last = max([self._last_number(), *self._numbers()])
        for number in range(last + 1, last + 1 + MOST_TRIES):
            with contextlib.suppress(FileExistsError):
                folder = self.folder / str(number)
                folder.mkdir(mode=0o700)
                self._note_last(number)
                return number, folder
        raise OSError(f"{MOST_TRIES} captures were started at the same time")

    def _last_number(self) -> int:
        """Return the highest number that was given, which may have been forgotten since."""
        try:
            return int(read_outside(self.folder / "last", 20))
        except (OSError, ValueError):
            return 0

    def _note_last(self, number: int) -> None:
        written = self.folder / f".last.{os.getpid()}"
        with contextlib.suppress(OSError):  # the highest of those that are there is known
            written.write_text(f"{number}\n")
            os.replace(written, self.folder / "last")

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdigit())

    def captures(self) -> list[KeptCapture]:
        """Return all captures, the newest first. Raises UsageError if the folder cannot be read."""
        try:
            numbers = self._numbers()
        except OSError as error:
            raise UsageError(f"{self.folder} cannot be read: {error.strerror or error}") from error
        captures = []
        for number in reversed(numbers):
            capture = _read(number, self.folder / str(number))
            if capture:
                captures.append(capture)
        return captures

    def find(self, number: int) -> KeptCapture:
        """Return the capture of a number; -1 is the newest, -2 the one before. Raises UsageError
        without one.
        """
        captures = self.captures()
        if not captures:
            raise UsageError(
                f"there is no history:{number}: no capture is kept. fx-explorer TARGET keeps its "
                "capture there"
            )
        if -len(captures) <= number < 0:
            return captures[-number - 1]
        for capture in captures:
            if capture.number == number:
                return capture
        raise UsageError(
            f"there is no history:{number}: it was removed, or never existed. List the captures "
            "that are kept with: fx-explorer history"
        )

    def forget(self, capture: KeptCapture) -> None:
        """Remove a capture. Raises UsageError if somebody has it open, or it cannot be removed."""
        if not _remove_unless_held(capture.folder):
            raise UsageError(
                f"{capture.name} is open in another fx-explorer: close it first, or forget it later"
            )

    def remove_oldest(self, newest: KeptCapture) -> None:
        """Remove the oldest captures until the limits hold again. The newest stays however large it
        is, and what somebody has open stays.
        """
        captures = self.captures()
        of_project = [capture for capture in captures if capture.project == newest.project]
        too_many = of_project[self.settings.sessions :]
        size = sum(capture.size_bytes for capture in captures)
        for capture in reversed(captures):
            is_too_large = size > self.settings.megabytes * 1_000_000
            if capture.number == newest.number or not (capture in too_many or is_too_large):
                continue
            with contextlib.suppress(UsageError):  # it is tried again with the next capture
                if _remove_unless_held(capture.folder):
                    size -= capture.size_bytes
        self._remove_half_made()

    def _remove_half_made(self) -> None:
        """Remove folders of captures whose process was killed while it moved the session here."""
        for number in self._numbers():
            folder = self.folder / str(number)
            with contextlib.suppress(OSError, UsageError):
                is_old = time.time() - folder.stat().st_mtime > HALF_MADE_S
                if is_old and not (folder / SESSION).exists():
                    _remove_unless_held(folder)


def _reason(error: Exception) -> str:
    """Return why a session cannot be moved: what the system says."""
    cause = error if isinstance(error, OSError) else error.__cause__
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return str(cause or error)


def _copy_file(source: Path, place: Path) -> None:
    beside = place.with_name(f".{place.name}")
    shutil.copyfile(source, beside)
    os.chmod(beside, 0o600)
    os.replace(beside, place)


def _read(number: int, folder: Path) -> KeptCapture | None:
    """Return the capture in a folder; None if it has no session, or none yet."""
    try:
        if folder.is_symlink() or not (folder / SESSION).is_file():
            return None
        size = sum(file.stat().st_size for file in folder.iterdir())
        ended_at = (folder / SESSION).stat().st_mtime
    except OSError:  # it is being removed
        return None
    about = _read_about(folder / ABOUT)
    stored = about.get("ended_at")
    if isinstance(stored, (int, float)) and 0 <= stored < 1e11:
        ended_at = stored
    project, target = (str(about.get(name, "")) for name in ("project", "target"))
    return KeptCapture(number, folder, project, target, ended_at, size)


def _read_about(path: Path) -> dict[str, object]:
    """Return what is known of a capture; nothing of one whose file is damaged."""
    try:
        about = json.loads(read_outside(path, MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return about if isinstance(about, dict) else {}


def _remove_unless_held(folder: Path) -> bool:
    """Remove a folder unless somebody holds it. Returns whether it is gone. Raises UsageError if it
    cannot be removed.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return True
    except OSError as error:
        raise UsageError(f"{folder} cannot be removed: {error.strerror or error}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            pass
        shutil.rmtree(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be removed: {error.strerror or error}") from error
    finally:
        os.close(descriptor)
    return True


def project_of(target: str) -> str:
    """Return the project that a target belongs to: the git repository of its file, else the folder
    of the file; for a target that names no file of the user's, that of the working directory.
    """
    folder = Path.cwd()
    for file in files_of(target):
        if file.is_file() and not file.resolve().is_relative_to(state_folder()):
            folder = file.resolve().parent
            break
    return project_of_folder(folder)


def project_of_folder(folder: Path) -> str:
    """Return the git repository that a folder is in, or the folder itself."""
    for parent in (folder, *folder.parents):
        if (parent / ".git").exists():
            return str(parent)
    return str(folder)


def number_in(target: str) -> int | None:
    """Return the number that ``history:17`` names; None for any other target."""
    match = NAME.fullmatch(target)
    return int(match[1]) if match else None
