"""This module compares the user's files in a change, in a session, and on disk: whether each still
has the text for which an edit was made, and its encoding.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.model import SourceFile
from fx_explorer.model.bounded_matching import unified_diff
from fx_explorer.model.secret_arguments import LEFT_OUT, without_known_keys
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class FileEdit:
    path: str
    """The user's file, as torch named it."""
    before: str
    after: str
    r"""Text of the whole file, with ``\n`` at the ends of lines."""

    @property
    def diff(self) -> str:
        """Return a unified diff that ``patch -p1`` and ``git apply`` accept in the working
        directory, or else in ``/``.
        """
        path = str(relative(self.path)).lstrip("/")
        before, after = (text.splitlines(keepends=True) for text in (self.before, self.after))
        return unified_diff(before, after, path)


def relative(path: str) -> Path:
    """Return the path relative to the working directory if the file is below it, else unchanged."""
    file, here = Path(path), Path.cwd()
    if not file.is_relative_to(here):
        return file
    return file.relative_to(here)


# splitlines() would split at form feeds and Unicode separators, too, which end no line of Python.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+\Z")


@dataclass(frozen=True, slots=True)
class SourceOnDisk:
    encoding: str
    """The encoding that the first lines declare; ``utf-8-sig`` with a byte order mark."""
    lines: tuple[str, ...]
    """The lines, with the ends they have."""

    @property
    def text(self) -> str:
        r"""The text as torch and the session read it: ``\n`` at the end of every line."""
        return "".join(line.rstrip("\r\n") + "\n" for line in self.lines)


def read(path: str) -> SourceOnDisk:
    """Read a file. Raises UsageError when it cannot be read or decoded."""
    try:
        if Path(path).exists() and not Path(path).is_file():
            raise UsageError(
                f"{path} is no longer a file. Copy the diff and apply it where the file is."
            )
        content = Path(path).read_bytes()
        encoding = tokenize.detect_encoding(io.BytesIO(content).readline)[0]
        return SourceOnDisk(encoding, tuple(_LINE.findall(content.decode(encoding))))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror or error}. Copy the diff and apply it "
            "where the file is."
        ) from error
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UsageError(
            f"{path} cannot be decoded ({error}). Declare its encoding in its first line, and "
            "capture again."
        ) from error


def changed_on_disk(edit: FileEdit) -> str:
    """Return why the edit cannot be used; empty if the file is as it was captured."""
    try:
        line = first_changed_line(edit.path, edit.before)
    except UsageError as error:
        return str(error)
    if not line:
        return _has_key(edit)
    return (
        f"{edit.path} has changed since it was captured, first in line {line}: capture again, and "
        "fix the current file."
    )


def _has_key(edit: FileEdit) -> str:
    """Return that a file has a key, which is not in the session; empty where it has none."""
    pairs = zip(edit.before.split("\n"), read(edit.path).text.split("\n"), strict=False)
    for number, (captured, now) in enumerate(pairs, 1):
        if captured != now:
            return (
                f"{edit.path} has a key in line {number}, which no session stores: the edit would "
                "remove it from the file. Read the key from the environment and capture again, or "
                "copy the diff."
            )
    return ""


def first_changed_line(path: str, captured: str) -> int:
    """Return the first line, from 1, in which a file is no longer the text that was captured; 0
    when it still is. Keys, which a session does not store, are not compared. Raises UsageError when
    it cannot be read or decoded.
    """
    now, then = read(path).text, _ended(captured)
    if LEFT_OUT in then:
        now = without_known_keys(now)
    if now == then:
        return 0
    pairs = zip(then.split("\n"), now.split("\n"), strict=False)
    for number, (before, after) in enumerate(pairs, 1):
        if before != after:
            return number
    return 1


def _ended(text: str) -> str:
    if not text or text.endswith("\n"):
        return text
    return f"{text}\n"


MOST_FILES = 300
"""Maximum number of files that are checked. A check takes some microseconds, once a second."""


@dataclass(frozen=True, slots=True)
class CapturedFile:
    """A user's file, as it was captured."""

    id: int
    """Id of its SourceFile in the session."""
    path: str
    text: str


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A captured file whose text on disk differs now."""

    file: CapturedFile
    line: int
    """The first line that differs, from 1."""


def captured_files(reader: SessionReader) -> list[CapturedFile]:
    """Return the user's own files whose text is in the session."""
    rows = reader.rows(SourceFile, is_user=True, limit=MOST_FILES)
    return [CapturedFile(row.id, row.path, reader.text(row.text)) for row in rows if row.text]


class FilesNow:
    """Checks files repeatedly, and reads those whose size or time has changed since the last check.
    Only the text counts: a file that was merely touched is unchanged.
    """

    def __init__(self, files: Sequence[CapturedFile]) -> None:
        self.files = files
        self._seen: dict[str, tuple[int, int]] = {}
        self._lines: dict[str, int] = {}

    def changed(self) -> tuple[ChangedFile, ...]:
        """Return the files with another text now. A missing or unreadable file is left out: a
        session may come from another machine, and some editors remove a file for a moment.
        """
        changed = []
        for file in self.files:
            line = self._line(file)
            if line:
                changed.append(ChangedFile(file, line))
        return tuple(changed)

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
