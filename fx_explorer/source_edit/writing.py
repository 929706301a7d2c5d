"""Writing edits to the user's files, with a backup beside each: line ends, encoding and mode stay
what they are.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.model.bounded_matching import changed_lines
from fx_explorer.source_edit.file_edit import FileEdit
from fx_explorer.source_edit.on_disk import SourceOnDisk, changed_on_disk, read
from fx_explorer.source_edit.writing_in_place import NewContent, write_all


def write_edits(edits: Sequence[FileEdit]) -> list[Path]:
    """Write each to its file, and return the backups. Nothing is written unless all of them are.

    Raises UsageError when a file is no longer what it was when captured, or cannot be written.
    """
    return write_all([_prepared(edit) for edit in edits])


def why_not_written(edits: Sequence[FileEdit]) -> str:
    """Say why they cannot be written; empty when they can. It is told before somebody is asked, or
    waits for a trial.
    """
    try:
        for edit in edits:
            _prepared(edit)
    except UsageError as error:
        return str(error)
    return ""


def _prepared(edit: FileEdit) -> NewContent:
    file, change = Path(edit.path), changed_on_disk(edit)
    if change:
        raise UsageError(change)
    # A link stays a link: what it leads to is written, and has its backup beside it.
    target = file.resolve()
    if _is_read_only(target):
        raise UsageError(
            f"{file} is read-only. Make it writable (chmod u+w {shlex.quote(str(file))}), or copy the diff."
        )
    if _is_read_only(target.parent):
        raise UsageError(
            f"the folder of {file} is read-only, and the backup stands beside the file. Copy the diff instead."
        )
    try:
        os.close(os.open(target, os.O_RDWR))  # not of an immutable file, whatever its mode says
        before = target.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot write {file}: {error.strerror or error}. Copy the diff instead."
        ) from error
    return NewContent(target, before, _encoded(edit, read(str(target)), file))


def _is_read_only(path: Path) -> bool:
    """Return whether the file may not be written; its mode counts too, since root may write
    everything.
    """
    return not os.access(path, os.W_OK) or not path.stat().st_mode & 0o222


def _encoded(edit: FileEdit, now: SourceOnDisk, file: Path) -> bytes:
    try:
        return "".join(_with_ends(edit, now)).encode(now.encoding)
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{file} is {now.encoding}, which cannot hold what the edit adds ({error})."
        ) from error


def _with_ends(edit: FileEdit, now: SourceOnDisk) -> list[str]:
    """Return the lines with their ends. Lines that stay keep the ends they have; a new one ends as
    the line before it does, the last one as the last one did.
    """
    before, after = (text.removesuffix("\n").split("\n") for text in (edit.before, edit.after))
    end = next(filter(None, map(_end_of, now.lines)), "\n")
    lines: list[str] = []
    for kind, first, last, new_first, new_last in changed_lines(before, after):
        if kind == "equal":
            kept = [line if _end_of(line) else line + end for line in now.lines[first:last]]
            end = _end_of(kept[-1])
            lines += kept
        else:
            lines += [text + end for text in after[new_first:new_last]]
    if now.lines and not _end_of(now.lines[-1]):
        lines[-1] = lines[-1].rstrip("\r\n")
    return lines


def _end_of(line: str) -> str:
    return line[len(line.rstrip("\r\n")) :]
