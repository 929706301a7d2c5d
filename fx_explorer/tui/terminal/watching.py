"""Notices that files were saved with another content, by looking at them: no dependency, and it works
on every file system.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

Signature = tuple[int, int]
"""Time of change in ns, and size."""


class FileWatch:
    """Some files as they were last seen. A file counts as changed once two looks in a row agree, since
    editors write in steps, and only if it holds something else: one that was touched does not.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = tuple(files)
        self._pending: tuple[Signature, ...] | None = None
        self.look_anew()

    def look_anew(self) -> None:
        """Take the files as they are now: what was saved before counts no more."""
        self._seen = self._look()
        self._contents = self._read()
        self._pending = None

    def has_changed(self) -> bool:
        """Return whether another content was saved since the last time this said so."""
        now = self._look()
        if now == self._seen:
            self._pending = None
            return False
        if now != self._pending:
            self._pending = now
            return False
        self._seen, self._pending = now, None
        before, self._contents = self._contents, self._read()
        return self._contents != before

    def _look(self) -> tuple[Signature, ...]:
        return tuple(map(_signature, self._files))

    def _read(self) -> tuple[bytes, ...]:
        return tuple(map(_content, self._files))


def _signature(file: Path) -> Signature:
    try:
        status = file.stat()
    except OSError:
        # Saving by renaming leaves a moment without the file.
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _content(file: Path) -> bytes:
    try:
        return hashlib.sha256(file.read_bytes()).digest()
    except OSError:
        return b""
