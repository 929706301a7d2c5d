"""Checks that nobody else could have put a file into our cache: what is loaded from it is code.

A directory or file is trusted when it is no symbolic link, belongs to this user (or root), and
nobody else can write to it. The directories above ours must be so too, except that symbolic links
and sticky directories like /tmp are usual there.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fx_explorer.errors import WorkerError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ALL_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def made_private(directory: Path, root: Path) -> None:
    """Make ``directory`` and those above it, down from ``root``, so that nobody else can write to
    them.

    Raises OSError when one cannot be made, WorkerError when one is not to be trusted.
    """
    for one in reversed([root.parent, *root.parent.parents]):
        if not one.is_dir():
            # One by one, since mkdir(parents=True) makes those above with the mode of the umask.
            one.mkdir(mode=0o700, exist_ok=True)
    _refuse_shared_parents(root.parent.resolve())
    for one in reversed([directory, *directory.parents]):
        if one.is_relative_to(root):
            _make(one)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        found = directory.lstat()
        refuse_untrusted(directory, found)
        # One of root's is trusted as it is, and not ours to change.
        if found.st_mode & _ALL_OF_OTHERS and found.st_uid == os.geteuid():
            directory.chmod(0o700)


def refuse_untrusted(path: Path, found: os.stat_result | None = None) -> None:
    """Raise WorkerError for a path that somebody else could have made. It says who, and what to
    do.
    """
    found = found or path.lstat()
    if stat.S_ISLNK(found.st_mode):
        raise _not_ours(path, f"it is a symbolic link to {path.readlink()}")
    if not (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)):
        raise _not_ours(path, "it is neither a file nor a directory")
    if found.st_uid not in (os.geteuid(), 0):
        raise _not_ours(path, f"it belongs to user {found.st_uid}, and you are user {os.geteuid()}")
    if found.st_mode & _OTHERS_WRITE:
        raise _not_ours(path, f"others can write to it (mode {stat.S_IMODE(found.st_mode):04o})")


def _refuse_shared_parents(directory: Path) -> None:
    for one in (directory, *directory.parents):
        found = one.stat()
        is_shared = bool(found.st_mode & stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
        if is_shared:
            raise _not_ours(one, f"others can write to it (mode {stat.S_IMODE(found.st_mode):04o})")


def _not_ours(path: Path, why: str) -> WorkerError:
    return WorkerError(
        f"the virtual GPU does not load code from {path}: {why}. "
        "Remove it when you do not know it, or set XDG_CACHE_HOME to a directory that is yours alone."
    )
