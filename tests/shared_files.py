"""These helpers manage files that all processes of a run of the tests share: how they are named,
and who may write each.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]

CASES = ROOT / "tests" / "data" / "cases"
"""Public reports, rebuilt as programs of a few lines."""


def digest(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the lock of a file: only one process at a time does."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
