"""This module has the directories for the virtual GPU's builds, separate from those for a real GPU.

A directory or file is trusted when it is no symbolic link, belongs to this user (or root), and
nobody else can write to it. The directories above ours must be so too, except that symbolic links
and sticky directories like /tmp are usual there.
"""

from __future__ import annotations

import errno
import os
import stat
import traceback
from collections.abc import MutableMapping
from pathlib import Path

from fx_explorer.capture.virtual_gpu.not_possible import chain
from fx_explorer.errors import WorkerError
from fx_explorer.folders import home_folder
from fx_explorer.model import Gpu

NOT_WRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
"""Errors of a full disk, a reached limit, or a place that this user may not write to."""

COMPILERS = ("torch", "triton", "fx_explorer")
"""Packages that write into these directories."""

ADVICE = "Free some space, or set XDG_CACHE_HOME to a directory you can write."


def cache_home() -> Path:
    """Return ``$XDG_CACHE_HOME/fx-explorer``, by default under ``~/.cache``. It may not exist yet.

    A relative path is ignored, as the XDG Base Directory Specification says: it would be another
    place in each working directory.
    """
    wanted = os.environ.get("XDG_CACHE_HOME", "")
    if Path(wanted).is_absolute():
        base = Path(wanted)
    else:
        base = home_folder() / ".cache"
    return base / "fx-explorer"


def private_directory(directory: Path) -> Path:
    """Make ``directory`` in our cache so that it is ours alone, and return it. Raises WorkerError
    when that fails.
    """
    try:
        make_private(directory, cache_home())
    except OSError as error:
        raise cannot_write(directory, error) from error
    return directory


def cannot_write(path: Path, error: OSError) -> WorkerError:
    return WorkerError(
        f"the virtual GPU keeps files in {path}, which cannot be written: "
        f"{error.strerror or error}. {ADVICE}"
    )


def not_written(error: BaseException) -> str:
    """Return the message when a compiler could not write into our directories; empty for another
    error, or a file of the user's.
    """
    for cause in chain(error):
        if isinstance(cause, OSError) and cause.errno in NOT_WRITTEN and _is_compilers(cause):
            return str(cannot_write(cache_home(), cause))
    return ""


def _is_compilers(error: OSError) -> bool:
    """Return whether the error is about our directories, judged by the file, if it names one (a
    full disk names none), and by the code that wrote.
    """
    if error.filename is not None and not Path(str(error.filename)).is_relative_to(cache_home()):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and any(package in Path(frames[-1].filename).parts for package in COMPILERS)


def hide_real_gpu(gpu: Gpu, environ: MutableMapping[str, str] = os.environ) -> None:
    """Hide a real GPU from torch, which has not been imported yet, and set our own cache
    directories for both compilers.
    """
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        environ[name] = ""
    home = private_directory(cache_home() / "virtual_gpu" / gpu.name)
    environ["TORCHINDUCTOR_CACHE_DIR"] = str(private_directory(home / "inductor"))
    environ["TRITON_CACHE_DIR"] = str(private_directory(home / "triton"))


# Trust in the cache: what is loaded from it is code, so nobody else may have written it.

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_ALL_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_private(directory: Path, root: Path) -> None:
    """Make ``directory`` and its parents up to ``root`` so that no other user can write to them.

    Raises OSError when one cannot be made, WorkerError when one is not to be trusted.
    """
    for path in reversed([root.parent, *root.parent.parents]):
        if not path.is_dir():
            # One by one, since mkdir(parents=True) makes those above with the mode of the umask.
            path.mkdir(mode=0o700, exist_ok=True)
    _refuse_shared_parents(root.parent.resolve())
    for path in reversed([directory, *directory.parents]):
        if path.is_relative_to(root):
            _make(path)


def _make(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        status = directory.lstat()
        refuse_untrusted(directory, status)
        # One of root's is trusted as it is, and not ours to change.
        if status.st_mode & _ALL_OF_OTHERS and status.st_uid == os.geteuid():
            directory.chmod(0o700)


def refuse_untrusted(path: Path, status: os.stat_result | None = None) -> None:
    """Raise WorkerError for a path that another user could have made. The message names the owner
    and a remedy.
    """
    status = status or path.lstat()
    if stat.S_ISLNK(status.st_mode):
        raise _not_ours(path, f"it is a symbolic link to {path.readlink()}")
    if not (stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode)):
        raise _not_ours(path, "it is neither a file nor a directory")
    if status.st_uid not in (os.geteuid(), 0):
        owner = f"it belongs to user {status.st_uid}, and you are user {os.geteuid()}"
        raise _not_ours(path, owner)
    if status.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(status.st_mode)
        raise _not_ours(path, f"others can write to it (mode {mode:04o})")


def _refuse_shared_parents(directory: Path) -> None:
    for path in (directory, *directory.parents):
        mode = path.stat().st_mode
        is_shared = bool(mode & stat.S_IWOTH) and not mode & stat.S_ISVTX
        if is_shared:
            raise _not_ours(path, f"others can write to it (mode {stat.S_IMODE(mode):04o})")


def _not_ours(path: Path, why: str) -> WorkerError:
    return WorkerError(
        f"the virtual GPU does not load code from {path}: {why}. Remove it if you do not know it, "
        "or set XDG_CACHE_HOME to a directory that only you use."
    )
