"""This module makes and names our own folders: for data kept between runs, and temporary ones for
data needed only during a run.

A temporary folder that is locked is in use as long as its maker lives, however that ends; what is
left behind unlocked is found at the next start (``client/session_files.py``).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from fx_explorer.errors import SessionWriteError

NO_HOME = Path("/dev/null/no-home-directory")
"""A path that can be neither read nor made: nothing is remembered then, as on a full disk."""


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return ``$XDG_STATE_HOME/fx-explorer``, by default below ``~/.local/state``. A relative path
    is ignored.
    """
    base = Path(environ.get("XDG_STATE_HOME") or "")
    if not base.is_absolute():
        base = home_folder(environ) / ".local/state"
    return base / "fx-explorer"


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the place of the configuration file."""
    base = environ.get("XDG_CONFIG_HOME") or home_folder(environ) / ".config"
    return Path(base) / "fx-explorer" / "config.toml"


def home_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's home; ``NO_HOME`` if neither the environment nor the system has one."""
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    return home if home.is_absolute() else NO_HOME


def typed_path(text: str) -> Path:
    """Return a path that a user typed, with ``~`` replaced by the home. The tilde stays if there is
    no user of that name.
    """
    return Path(os.path.expanduser(text))


PREFIX = "fx-explorer-"

IN_USE_PREFIX = "fx-explorer-run-"
"""Prefix of folders that are locked while they are in use."""


class Lock:
    """Holds a directory as long as this process lives, or until it is released."""

    def __init__(self, directory: Path, *, is_own: bool = False) -> None:
        """Lock the directory. Raises OSError if another process holds the lock, or it cannot be
        locked.

        One that ``is_own`` was made by the caller just now: whoever else holds it only looks
        whether it was left behind, and is waited for.
        """
        how = fcntl.LOCK_EX if is_own else fcntl.LOCK_EX | fcntl.LOCK_NB
        self._descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._descriptor, how)
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def new_temporary_folder(prefix: str = PREFIX) -> Path:
    """Make a temporary folder, which the caller removes. Raises SessionWriteError if none can be
    made.
    """
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise SessionWriteError(
            f"cannot make a temporary directory: {error.strerror or error}. Set TMPDIR to "
            "a directory with room."
        ) from error


@contextlib.contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a temporary folder that is removed after the block; if the process is killed in it, at
    the next start. Raises SessionWriteError if none can be made.
    """
    folder = new_temporary_folder(IN_USE_PREFIX)
    with contextlib.ExitStack() as until:
        with contextlib.suppress(OSError):  # a file system without locks: nobody finds it later
            until.callback(Lock(folder, is_own=True).release)
        # Before the lock is released: others would take what is half removed for left behind.
        until.callback(shutil.rmtree, folder, ignore_errors=True)
        yield folder
