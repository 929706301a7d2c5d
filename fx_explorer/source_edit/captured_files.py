"""The user's files as a session has them, and which of them are other files by now: what was found
in those is old.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.model import SourceFile
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.on_disk import first_changed_line

MOST_FILES = 300
"""Most files that are looked after. A look at one takes some microseconds, once a second."""


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """A file of the user's, as it was captured."""

    id: int
    """Id of its SourceFile in the session."""
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """One with another text now."""

    file: CapturedFile
    line: int
    """The first line that differs, from 1."""


def captured_files(reader: SessionReader) -> list[CapturedFile]:
    """Return the user's own files that a session has the text of."""
    rows = reader.rows(SourceFile, is_user=True, limit=MOST_FILES)
    return [CapturedFile(row.id, row.path, reader.text(row.text)) for row in rows if row.text]


class FilesNow:
    """Looks at files again and again, and reads those whose size or time of change is another one
    than at the last look. What counts is the text: a file that was only touched is as it was.
    """

    def __init__(self, files: Sequence[CapturedFile]) -> None:
        self.files = files
        self._seen: dict[str, tuple[int, int]] = {}
        self._lines: dict[str, int] = {}

    def changed(self) -> tuple[ChangedFile, ...]:
        """Return the files with another text now. One that is not there, or cannot be read, is not
        among them: a session may come from another machine, and some editors take a file away for a
        moment.
        """
        return tuple(ChangedFile(file, line) for file in self.files if (line := self._line(file)))

    def _line(self, file: CapturedFile) -> int:
        try:
            status = Path(file.path).stat()
            signature = status.st_mtime_ns, status.st_size
            if signature != self._seen.get(file.path):
                self._lines[file.path] = first_changed_line(file.path, file.text)
                self._seen[file.path] = signature
        except (OSError, UsageError, ValueError):  # ValueError: a path with a null character
            self._seen.pop(file.path, None)
            return 0
        return self._lines[file.path]
