"""Where the backend keeps what it has made, and how a file comes there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sample_backends.small_backend.errors import SmallBackendError


def cache_folder() -> Path:
    """Return $SMALL_BACKEND_CACHE, else a folder in the user's cache; it exists afterwards. Raises SmallBackendError."""
    named = os.environ.get("SMALL_BACKEND_CACHE")
    common = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(named) if named else common / "small_backend"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{folder} cannot be used: {error.strerror}"
        raise SmallBackendError(
            f"what small_backend makes has no place, {reason}; name another in $SMALL_BACKEND_CACHE"
        ) from error
    return folder


@contextlib.contextmanager
def written_whole(target: Path, mode: int = 0o644) -> Iterator[Path]:
    """Yield another file to write. It takes the target's place at the end, unless something was raised."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=target.name)
    os.close(handle)
    try:
        yield Path(name)
        os.chmod(name, mode)
        os.replace(name, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
