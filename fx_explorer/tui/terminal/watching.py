"""Notices that files were saved, by looking at them: no dependency, and it works on every file
system.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

Signature = tuple[int, int]
"""Time of change in ns, and size."""


class FileWatch:
    """Some files as they were last seen. A file counts as changed once two looks in a row agree:
    editors write in steps.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = tuple(files)
        self._seen = self._look()
        self._pending: tuple[Signature, ...] | None = None

    def has_changed(self) -> bool:
        """Return whether a file was saved since the last time this said so."""
        now = self._look()
        if now == self._seen:
            self._pending = None
            return False
        if now != self._pending:
            self._pending = now
            return False
        self._seen, self._pending = now, None
        return True

    def _look(self) -> tuple[Signature, ...]:
        return tuple(map(_signature, self._files))


def _signature(file: Path) -> Signature:
    try:
        status = file.stat()
    except OSError:
        # Saving by renaming leaves a moment without the file.
        return 0, 0
    return status.st_mtime_ns, status.st_size
