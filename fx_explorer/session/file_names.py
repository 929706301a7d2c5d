"""This module makes the names of a session's files for every view and report.

Two files of a session may have one name (``model.py`` twice): each is then shown with as many of
its folders as tell the two apart. Every reader that is open tells the paths of its session, so
whoever shows a path needs nothing but the path.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from pathlib import PurePath
from weakref import WeakSet

_OF_MANY = ("__init__", "__main__")
"""File names that mean nothing without their folder."""


class FileNames:
    """The names of the files of one session, while it is open."""

    def __init__(self) -> None:
        self._paths: set[str] = set()
        self._names: dict[str, str] = {}
        self._is_stale = False

    def add(self, paths: Iterable[str]) -> None:
        """Add paths of the session; a known path changes nothing."""
        count = len(self._paths)
        self._paths.update(paths)
        self._is_stale |= len(self._paths) > count

    def name(self, path: str) -> str:
        """Return the name of a path with the folders that it needs; empty for a path of another
        session.
        """
        if path not in self._paths:
            return ""
        if self._is_stale:
            self._is_stale = False
            self._names = distinct_names(self._paths)
        return self._names.get(path, "")


_OPEN: WeakSet[FileNames] = WeakSet()
_LOCK = threading.Lock()
"""Lock for the names, because readers are opened in other threads while the screen is drawn."""


def begin_showing(names: FileNames) -> None:
    """Show the files of a session by these names from now on."""
    with _LOCK:
        _OPEN.add(names)


def end_showing(names: FileNames) -> None:
    with _LOCK:
        _OPEN.discard(names)


def _open_sessions() -> list[FileNames]:
    with _LOCK:
        return list(_OPEN)


def file_name(path: str) -> str:
    """Return ``model.py``, with the folders that distinguish it from the other files of its
    session: ``encoder/model.py``. If many files have the name, its folder is always included:
    ``logging/__init__.py``.
    """
    names = [_name_alone(path), *(session.name(path) for session in _open_sessions())]
    return max(names, key=len)


@lru_cache(maxsize=4_096)
def _name_alone(path: str) -> str:
    """Return the name of a file, whatever others its session has."""
    file = PurePath(path)
    if file.stem in _OF_MANY and file.parent.name:
        return f"{file.parent.name}/{file.name}"
    return file.name


def in_file(path: str, line: int) -> str:
    """Return ``model.py:32``, the file as file_name names it."""
    return f"{file_name(path)}:{line}"


def distinct_names(paths: Iterable[str]) -> dict[str, str]:
    """Return path → its file name, with as many folders as distinguish it from the other paths."""
    names: dict[str, str] = {}
    alike = [[(path, PurePath(path).parts) for path in dict.fromkeys(paths)]]
    length = 1
    while alike:
        longer = []
        for group in alike:
            by_part = defaultdict(list)
            for path, parts in group:
                part = parts[-length] if length <= len(parts) else ""
                by_part[part].append((path, parts))
            for part, members in by_part.items():
                if part and len(members) > 1:
                    longer.append(members)
                    continue
                for path, parts in members:
                    names[path] = PurePath(*parts[-length:]).as_posix() if parts else path
        alike = longer
        length += 1
    return names
