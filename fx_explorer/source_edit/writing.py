"""This module writes edits to the user's files, with a backup beside each, keeping line ends,
encoding and mode. Several edits of one file are merged hunk by hunk; of two edits of the same line
one is refused, and named.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import libcst as cst

from fx_explorer.errors import UsageError
from fx_explorer.model.bounded_matching import changed_lines
from fx_explorer.source_edit.user_files import FileEdit, SourceOnDisk, changed_on_disk, read


def write_edits(edits: Sequence[FileEdit]) -> WrittenEdits:
    """Write each edit to its file. Either all files are written or none.

    Raises UsageError when a file is no longer what it was when captured, or cannot be written.
    """
    contents = [_prepared(edit) for edit in edits]
    return WrittenEdits(contents, write_all(contents))


@dataclass(frozen=True, slots=True)
class WrittenEdits:
    """Edits that were written, and how to take them back."""

    contents: Sequence[NewContent]
    backups: Sequence[Path]
    """The files with the old contents, in the same order."""

    @property
    def files(self) -> list[Path]:
        return [content.file for content in self.contents]

    def undo(self) -> None:
        """Give each file its old content back, and remove its backup.

        Raises UsageError, with every file and backup as it is, when a file is no longer what was
        written, or cannot be written.
        """
        for content, backup in zip(self.contents, self.backups, strict=True):
            try:
                is_as_written = content.file.read_bytes() == content.after
            except OSError as error:
                raise UsageError(
                    f"cannot read {content.file}: {error.strerror or error}. Its old content is in "
                    f"{backup}."
                ) from error
            if not is_as_written:
                raise UsageError(
                    f"{content.file} has changed since the fix was written. Its old content is in "
                    f"{backup}."
                )
        done: list[NewContent] = []
        try:
            for content in self.contents:
                _write(content.file, content.after, content.before)
                done.append(content)
        except (OSError, UsageError) as error:
            for content in done:
                _write(content.file, content.before, content.after)
            raise UsageError(f"nothing was undone: {error}") from error
        for backup in self.backups:
            with contextlib.suppress(OSError):  # it may have been moved away
                backup.unlink()


def why_not_written(edits: Sequence[FileEdit]) -> str:
    """Say why they cannot be written; empty when they can. It is checked before somebody is asked,
    or waits for a trial.
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
            f"{file} is read-only. Make it writable (chmod u+w {shlex.quote(str(file))}), "
            "or copy the diff."
        )
    if _is_read_only(target.parent):
        raise UsageError(
            f"the folder of {file} is read-only, but the backup is written there. Copy the diff "
            "instead."
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
            f"{file} is {now.encoding}, which cannot encode the edit ({error})."
        ) from error


def _with_ends(edit: FileEdit, now: SourceOnDisk) -> list[str]:
    """Return the lines with their ends. Unchanged lines keep their ends; a new one ends as the line
    before it does, and a new last line as the old one.
    """
    before = edit.before.removesuffix("\n").split("\n")
    after = edit.after.removesuffix("\n").split("\n")
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


# Writing in place: hard links, owner, mode and attributes of the user's files stay.


@dataclass(frozen=True, slots=True)
class NewContent:
    file: Path
    """The file itself, where the user's path was a link."""
    before: bytes
    after: bytes


def write_all(contents: Sequence[NewContent]) -> list[Path]:
    """Write each file, and return the backups. Raises UsageError, with every file unchanged, if one
    cannot be written.

    Each has its backup beside it before a byte is changed.
    """
    backups: list[Path] = []
    file = Path()
    try:
        for content in contents:
            file = content.file
            backups.append(_back_up(content))
            _write(file, content.before, content.after)
    except BaseException as error:
        text = _undo(contents, backups)
        if isinstance(error, OSError):
            raise UsageError(f"cannot write {file}: {error.strerror or error}. {text}") from error
        raise
    return backups


def _undo(contents: Sequence[NewContent], backups: list[Path]) -> str:
    """Restore each file, and describe that. A backup is removed only when its file is complete
    again.
    """
    lost = []
    # What has no backup yet was not touched.
    for content, backup in zip(contents, backups, strict=False):
        with contextlib.suppress(OSError, UsageError):
            if content.file.read_bytes() == content.after:
                _write(content.file, content.after, content.before)
            if content.file.read_bytes() == content.before:
                backup.unlink()
                continue
        lost.append(f"{content.file} is in {backup}")
    if lost:
        return f"It could not be undone: the old content of {'; '.join(lost)}."
    return "It is unchanged; copy the diff instead."


def _write(file: Path, before: bytes, after: bytes) -> None:
    """Write the new content. The old content is cut off only after the whole new one is written: on
    a full disk the old content still fits.
    """
    # Links were resolved before: one that is here now was put in between.
    with os.fdopen(os.open(file, os.O_RDWR | os.O_NOFOLLOW), "r+b", buffering=0) as opened:
        mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
        if opened.read() != before:
            raise UsageError(f"{file} changed during writing: nothing was written. Capture again.")
        try:
            _fill(opened.fileno(), after)
        except BaseException:
            _fill(opened.fileno(), before)
            raise
        finally:
            if (
                stat.S_IMODE(os.fstat(opened.fileno()).st_mode) != mode
            ):  # the kernel drops setuid from what is written
                os.fchmod(opened.fileno(), mode)


def _fill(descriptor: int, content: bytes) -> None:
    os.lseek(descriptor, 0, os.SEEK_SET)
    left = content
    while left:
        left = left[os.write(descriptor, left) :]
    os.ftruncate(descriptor, len(content))
    os.fsync(descriptor)


def _back_up(content: NewContent) -> Path:
    """Store the old content as ``model.py.orig``; ``model.py.orig2`` if that exists, and so on: a
    backup is never overwritten.
    """
    number = 1
    while True:
        suffix = str(number) if number > 1 else ""
        backup = content.file.with_name(f"{content.file.name}.orig{suffix}")
        try:
            descriptor = os.open(backup, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            break
        except FileExistsError:
            number += 1
    try:
        _fill(descriptor, content.before)
        shutil.copystat(content.file, backup)
        # A copy belongs to us: not setuid as the other's file was.
        os.fchmod(descriptor, os.fstat(descriptor).st_mode & 0o777)
    except BaseException:
        backup.unlink()
        raise
    finally:
        os.close(descriptor)
    return backup


@dataclass(frozen=True, slots=True)
class _Hunk:
    """A replacement of lines ``first`` to ``last`` of the file, from 0 and without the last one."""

    first: int
    last: int
    lines: tuple[str, ...]
    title: str

    def is_as(self, other: _Hunk) -> bool:
        return (self.first, self.last, self.lines) == (other.first, other.last, other.lines)

    def is_in_the_way_of(self, other: _Hunk) -> bool:
        """Return whether this change and another conflict. Lines inserted at the same place are put
        below each other.
        """
        return self.first < other.last and other.first < self.last


class MergedEdits:
    """The text of one file with several edits that were each made for the original."""

    def __init__(self, first: FileEdit) -> None:
        """``first`` is any edit of the file, for its path and its original text; it is not applied
        yet.
        """
        self._path, self._before = first.path, first.before
        self._hunks: list[_Hunk] = []

    @property
    def edit(self) -> FileEdit:
        return FileEdit(self._path, self._before, self._with(self._hunks))

    def add(self, edit: FileEdit, title: str) -> str:
        """Add an edit. Returns why that is impossible; empty on success. ``title`` names it in case
        the next one conflicts with it.
        """
        new = [hunk for hunk in _hunks(edit, title) if not self._has(hunk)]
        for hunk in new:
            for other in self._hunks:
                if hunk.is_in_the_way_of(other):
                    return (
                        f"edits line {other.first + 1} like {other.title!r}: accept one, capture "
                        "again, and try the other"
                    )
        try:
            # Each alone could be parsed. Together they may leave a block empty.
            cst.parse_module(self._with([*self._hunks, *new]))
        except cst.ParserSyntaxError:
            return "conflicts with the others: the file could not be parsed"
        self._hunks += new
        return ""

    def _has(self, hunk: _Hunk) -> bool:
        return any(hunk.is_as(other) for other in self._hunks)

    def _with(self, hunks: Sequence[_Hunk]) -> str:
        lines, position, pieces = self._before.splitlines(keepends=True), 0, []
        for hunk in sorted(hunks, key=lambda hunk: (hunk.first, hunk.last)):
            pieces += [*lines[position : hunk.first], *hunk.lines]
            position = hunk.last
        return "".join([*pieces, *lines[position:]])


def _hunks(edit: FileEdit, title: str) -> Iterator[_Hunk]:
    before, after = (text.splitlines(keepends=True) for text in (edit.before, edit.after))
    for kind, first, last, new_first, new_last in changed_lines(before, after):
        if kind != "equal":
            yield _Hunk(first, last, tuple(after[new_first:new_last]), title)
