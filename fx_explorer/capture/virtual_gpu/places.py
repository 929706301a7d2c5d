"""Where the virtual GPU keeps what it builds: directories of our own, apart from what is made for a real GPU."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path

from fx_explorer.errors import WorkerError
from fx_explorer.model import Gpu

ADVICE = "Free some space, or set XDG_CACHE_HOME to a directory you can write."


def cache_home() -> Path:
    """``$XDG_CACHE_HOME/fx-explorer``, by default under ``~/.cache``; not made yet."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(base) / "fx-explorer"


def made(directory: Path) -> Path:
    """``directory``, which is there now. Raises WorkerError when it cannot be made."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(directory, error) from error
    return directory


def cannot_write(path: Path, error: OSError) -> WorkerError:
    return WorkerError(f"the virtual GPU keeps files in {path}, which cannot be written: {error.strerror or error}. {ADVICE}")


def keep_apart(gpu: Gpu, environ: MutableMapping[str, str] = os.environ) -> None:
    """Hide a real GPU from torch, which has not been imported yet, and give both compilers caches that are ours."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        environ[name] = ""
    home = made(cache_home() / "virtual_gpu" / gpu.name)
    environ["TORCHINDUCTOR_CACHE_DIR"] = str(made(home / "inductor"))
    environ["TRITON_CACHE_DIR"] = str(made(home / "triton"))
