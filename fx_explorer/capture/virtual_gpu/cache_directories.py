"""Where the virtual GPU keeps what it builds: directories of our own, separate from those for a
real GPU.
"""

from __future__ import annotations

import errno
import os
import traceback
from collections.abc import MutableMapping
from pathlib import Path

from fx_explorer.capture.virtual_gpu.cache_trust import made_private
from fx_explorer.capture.virtual_gpu.causes import chain
from fx_explorer.errors import WorkerError
from fx_explorer.model import Gpu
from fx_explorer.state_folder import home_folder

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
    base = Path(wanted) if Path(wanted).is_absolute() else home_folder() / ".cache"
    return base / "fx-explorer"


def made(directory: Path) -> Path:
    """Make ``directory`` in our cache so that it is ours alone, and return it. Raises WorkerError
    when that fails.
    """
    try:
        made_private(directory, cache_home())
    except OSError as error:
        raise cannot_write(directory, error) from error
    return directory


def cannot_write(path: Path, error: OSError) -> WorkerError:
    return WorkerError(
        f"the virtual GPU keeps files in {path}, which cannot be written: {error.strerror or error}. {ADVICE}"
    )


def not_written(error: BaseException) -> str:
    """Return what to say when a compiler could not write into our directories; empty for another
    error, or a file of the user's.
    """
    for one in chain(error):
        if isinstance(one, OSError) and one.errno in NOT_WRITTEN and _is_compilers(one):
            return str(cannot_write(cache_home(), one))
    return ""


def _is_compilers(error: OSError) -> bool:
    """Return whether the error is about our directories, judged by the file if one is named (a full
    disk names none), and by who wrote.
    """
    if error.filename is not None and not Path(str(error.filename)).is_relative_to(cache_home()):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return bool(frames) and any(package in Path(frames[-1].filename).parts for package in COMPILERS)


def keep_apart(gpu: Gpu, environ: MutableMapping[str, str] = os.environ) -> None:
    """Hide a real GPU from torch, which has not been imported yet, and give both compilers caches
    that are ours.
    """
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        environ[name] = ""
    home = made(cache_home() / "virtual_gpu" / gpu.name)
    environ["TORCHINDUCTOR_CACHE_DIR"] = str(made(home / "inductor"))
    environ["TRITON_CACHE_DIR"] = str(made(home / "triton"))
