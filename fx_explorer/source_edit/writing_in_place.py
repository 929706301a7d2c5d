"""Writes new content into source files of the user's, in place: hard links, owner, mode and
attributes stay what they are.

Each has a backup beside it before a byte is changed. All files of a call are written, or none is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import UsageError


@dataclass(frozen=True, slots=True)
class NewContent:
    file: Path
    """Links resolved."""
    before: bytes
    after: bytes


def write_all(contents: Sequence[NewContent]) -> list[Path]:
    """Write each, and return the backups. Raises UsageError, with every file as it was, when one
    cannot be written.
    """
    backups: list[Path] = []
    file = Path()
    try:
        for one in contents:
            file = one.file
            backups.append(_back_up(one))
            _write(file, one.before, one.after)
    except BaseException as error:
        told = _undo(contents, backups)
        if isinstance(error, OSError):
            raise UsageError(f"cannot write {file}: {error.strerror or error}. {told}") from error
        raise
    return backups


def _undo(contents: Sequence[NewContent], backups: list[Path]) -> str:
    """Make each file what it was, and say so. A backup goes only when its file is whole again."""
    lost = []
    # What has no backup yet was not touched.
    for one, backup in zip(contents, backups, strict=False):
        with contextlib.suppress(OSError, UsageError):
            if one.file.read_bytes() == one.after:
                _write(one.file, one.after, one.before)
            if one.file.read_bytes() == one.before:
                backup.unlink()
                continue
        lost.append(f"{one.file} is in {backup}")
    if lost:
        return f"It could not be undone: what was in {'; '.join(lost)}."
    return "It is as it was; copy the diff instead."


def _write(file: Path, before: bytes, after: bytes) -> None:
    """Write the new content. Nothing is cut off before everything is written: on a full disk what
    was there still fits.
    """
    # Links were resolved before: one that is here now was put in between.
    with os.fdopen(os.open(file, os.O_RDWR | os.O_NOFOLLOW), "r+b", buffering=0) as opened:
        mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
        if opened.read() != before:
            raise UsageError(
                f"{file} has changed while it was being written: nothing was. Capture again."
            )
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
    """Keep the old content as ``model.py.orig``; ``model.py.orig2`` when there is one, and so on: a
    backup is never written over.
    """
    number = 1
    while True:
        backup = content.file.with_name(f"{content.file.name}.orig{number if number > 1 else ''}")
        try:
            descriptor = os.open(backup, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            break
        except FileExistsError:
            number += 1
    try:
        _fill(descriptor, content.before)
        shutil.copystat(content.file, backup)
        os.fchmod(
            descriptor, os.fstat(descriptor).st_mode & 0o777
        )  # a copy belongs to us: not setuid as the other's file was
    except BaseException:
        backup.unlink()
        raise
    finally:
        os.close(descriptor)
    return backup
