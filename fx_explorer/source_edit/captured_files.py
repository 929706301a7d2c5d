"""The user's files as a session has them, and which of them are other files by now: what was found
in those is old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.model import SourceFile
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.on_disk import first_changed_line

MOST_FILES = 300
"""Most files that are looked after. A look at one takes some microseconds, once a second."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file with another text than the one that was captured."""

    path: str
    line: int
    """The first line that differs, from 1."""
    captured: str


def user_texts(reader: SessionReader) -> dict[str, str]:
    """Return path → text of the user's files in a session."""
    rows = reader.rows(SourceFile, is_user=True, limit=MOST_FILES)
    return {row.path: reader.text(row.text) for row in rows if row.text}


class CapturedFiles:
    """Looks at files again and again, and reads those whose size or time of change is another one
    than at the last look. What counts is the text: a file that was only touched is as it was.
    """

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self._seen: dict[str, tuple[int, int]] = {}
        self._lines: dict[str, int] = {}

    def changed(self) -> tuple[ChangedFile, ...]:
        """Return the files with another text now. One that is not there, or cannot be read, is not
        among them: a session may come from another machine, and some editors take a file away for a
        moment.
        """
        return tuple(
            ChangedFile(path, line, captured) for path, captured in self.texts.items() if (line := self._line(path, captured))
        )

    def _line(self, path: str, captured: str) -> int:
        try:
            status = Path(path).stat()
            signature = status.st_mtime_ns, status.st_size
            if signature != self._seen.get(path):
                self._lines[path] = first_changed_line(path, captured)
                self._seen[path] = signature
        except (OSError, UsageError, ValueError):  # ValueError: a path with a null character
            self._seen.pop(path, None)
            return 0
        return self._lines[path]
