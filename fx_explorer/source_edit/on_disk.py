"""The user's file as it is on disk now: whether it is still the text an edit was made for, and how
that text is encoded.
"""

from __future__ import annotations

import io
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.source_edit.file_edit import FileEdit

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
                f"{path} is no file any more. Copy the diff and apply it where the file is."
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
            f"{path} cannot be decoded ({error}). Say its encoding in its first line, and "
            "capture again."
        ) from error


def changed_on_disk(edit: FileEdit) -> str:
    """Say what is in the way of using the edit; empty when the file is as it was captured."""
    try:
        line = first_changed_line(edit.path, edit.before)
    except UsageError as error:
        return str(error)
    if not line:
        return ""
    return (
        f"{edit.path} has changed since it was captured, first in line {line}: capture again, "
        "and fix the file as it is now."
    )


def first_changed_line(path: str, captured: str) -> int:
    """Return the first line, from 1, in which a file is no longer the text that was captured; 0
    when it still is. Raises UsageError when it cannot be read or decoded.
    """
    now, then = read(path).text, _ended(captured)
    if now == then:
        return 0
    pairs = zip(then.split("\n"), now.split("\n"), strict=False)
    return next((number for number, (before, after) in enumerate(pairs, 1) if before != after), 1)


def _ended(text: str) -> str:
    return text if not text or text.endswith("\n") else f"{text}\n"
