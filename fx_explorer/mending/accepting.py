"""Writing a mend to the user's file, with a backup beside it: line ends, encoding and mode stay what they are."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from difflib import SequenceMatcher
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.mending.mend import Mend
from fx_explorer.mending.on_disk import SourceOnDisk, changed_on_disk, read


def accept_all(mend: Mend) -> list[Path]:
    """Write it to each file that it edits, and return the backups. Nothing is written unless all of them can be."""
    prepared = [_prepared(edit, Path(edit.path)) for edit in mend.edits]
    return [_written(file, content) for file, content in prepared]


def accept(mend: Mend, path: str | Path = "") -> Path:
    """Write the edit to the mend's file (or ``path``, the same file elsewhere) and return the backup.

    Raises UsageError, and writes nothing, when the file is no longer what it was when captured, or cannot be written.
    """
    if not mend.path:
        raise UsageError(f"this mend changes no file. Set it in your program: {mend.instruction.splitlines()[0]}")
    return _written(*_prepared(mend, Path(path or mend.path)))


def _prepared(mend: Mend, file: Path) -> tuple[Path, bytes]:
    """(the file, its new content)."""
    change = changed_on_disk(mend, str(file))
    if change:
        raise UsageError(change)
    target = file.resolve()
    if _is_read_only(target):
        raise UsageError(f"{file} is read-only. Make it writable (chmod u+w {shlex.quote(str(file))}), or copy the diff.")
    if _is_read_only(target.parent):
        raise UsageError(f"the folder of {file} is read-only, and the backup stands beside the file. Copy the diff instead.")
    return target, _encoded(mend, read(str(target)), file)


def _is_read_only(path: Path) -> bool:
    """By its mode too: root may write everything."""
    return not os.access(path, os.W_OK) or not path.stat().st_mode & 0o222


def _written(file: Path, content: bytes) -> Path:
    try:
        backup = _back_up(file)
        _replace(file, content)
    except OSError as error:
        raise UsageError(f"cannot write {file}: {error.strerror or error}. It is as it was; copy the diff instead.") from error
    return backup


def _encoded(mend: Mend, now: SourceOnDisk, file: Path) -> bytes:
    try:
        return "".join(_with_ends(mend, now)).encode(now.encoding)
    except UnicodeEncodeError as error:
        raise UsageError(f"{file} is {now.encoding}, which cannot hold what the edit adds ({error}).") from error


def _with_ends(mend: Mend, now: SourceOnDisk) -> list[str]:
    """Lines that stay keep the ends they have; a new one ends as the line before it does, the last one as the last one did."""
    before, after = (text.removesuffix("\n").split("\n") for text in (mend.before, mend.after))
    end = next(filter(None, map(_end_of, now.lines)), "\n")
    lines: list[str] = []
    for kind, first, last, new_first, new_last in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
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


def _back_up(file: Path) -> Path:
    """``model.py.orig``; ``model.py.orig2`` when there is one, and so on: a backup is never written over."""
    number = 1
    while True:
        backup = file.with_name(f"{file.name}.orig{number if number > 1 else ''}")
        try:
            os.close(os.open(backup, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            number += 1
            continue
        shutil.copy2(file, backup)
        return backup


def _replace(file: Path, content: bytes) -> None:
    """All of it or nothing, with the mode of the file that was there."""
    descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
    try:
        with os.fdopen(descriptor, "wb") as written:
            written.write(content)
        shutil.copymode(file, name)
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
