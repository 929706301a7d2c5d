"""This module finds what to open of an archive or a folder that somebody attached to a report: the
log or folder of tlparse's, a TORCH_TRACE log, the logs of a job's ranks, a folder of
TORCH_COMPILE_DEBUG, printed text, a session.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from fx_explorer.analysis.words import counted, listed
from fx_explorer.command_line.narration import LiveLine
from fx_explorer.errors import UsageError
from fx_explorer.folders import temporary_folder
from fx_explorer.highlight import printable
from fx_explorer.readers.debug_directory import is_debug_directory
from fx_explorer.readers.tlparse_folder import RAW_LOG, files_of_logs, log_of, tlparse_folders
from fx_explorer.readers.torch_trace.read_log import LogOrigin
from fx_explorer.session.untrusted.kind_of_file import Kind, kind_of_file
from fx_explorer.session.untrusted.unpacking import unpack

_BEFORE_DIRECTORIES: tuple[tuple[Kind, ...], ...] = (("log",), ("sqlite", "page"))
"""Kinds of files that tell more than a folder of TORCH_COMPILE_DEBUG, the best first."""

_AFTER_DIRECTORIES: tuple[tuple[Kind, ...], ...] = (
    ("torch_logs",), ("tritonparse", "provenance"), ("exported_program", "aot_inductor"),
    ("profile",), ("memory_snapshot",),
)  # fmt: skip
"""Kinds of files that tell less; one with printed text is in each such folder."""

SHOWN = 6
"""Number of files that a message names."""


class UnpackingProgress(LiveLine):
    """Shows how many files of an archive are unpacked, and how many were looked at."""

    def __init__(self, out: TextIO, archive: Path) -> None:
        super().__init__(out)
        self._name = printable(archive.name)

    def show_unpacked(self, count: int) -> None:
        if self.is_due:
            self.show(f"unpacking {self._name}: {counted(count, 'file')}")

    def show_looked_at(self, count: int, total: int) -> None:
        if self.is_due:
            self.show(f"reading the list of files in {self._name}: {count:,} of {total:,}")


def open_archive(archive: Path, folder: Path, progress: UnpackingProgress) -> Path:
    """Unpack an archive into a folder, and return what to open of it: a file, or a folder with the
    logs of ranks. Raises UnreadableProgramError as ``unpack`` does, and UsageError where nothing in
    it can be opened, or several things can.
    """
    content = _content(archive, folder)
    content.mkdir(parents=True)
    unpack(archive, content, files_of_logs, progress.show_unpacked)
    of_tlparse = tlparse_folders(content)
    if of_tlparse:
        return open_tlparse(of_tlparse, folder)
    files = [path for path in sorted(content.rglob("*")) if path.is_file()]
    kinds: dict[Path, Kind] = {}
    for count, path in enumerate(files):
        progress.show_looked_at(count, len(files))
        kinds[path] = kind_of_file(path).kind
    inside = (
        _file_of_kinds(archive, content, folder, kinds, _BEFORE_DIRECTORIES)
        or _debug_directory(archive, content)
        or _file_of_kinds(archive, content, folder, kinds, _AFTER_DIRECTORIES)
    )
    if inside is None:
        raise UsageError(
            f"{archive} is {kind_of_file(archive).words} with {counted(len(files), 'file')}, but "
            "none that fx-explorer can open (a log of TORCH_TRACE or TORCH_LOGS, tlparse's "
            f"folder, a session){': ' if files else ''}{_names(files, content)}"
        )
    return inside


def unpacked(path: Path, until: contextlib.ExitStack) -> Path:
    """Return what to open of an archive, which ``until`` removes; any other path unchanged."""
    if kind_of_file(path).kind != "packed":
        return path
    folder = until.enter_context(temporary_folder())
    with UnpackingProgress(sys.stderr, path) as progress:
        return open_archive(path, folder, progress)


def origin_of(inside: Path, given: Path, folder: Path) -> LogOrigin:
    """Return what is shown for something that was taken out of ``given``, in place of its temporary
    path: the path in it. A log of tlparse's has the name of the folder or archive.
    """
    content, file = _content(given, folder), given.absolute()
    if inside.is_relative_to(content):
        file /= inside.relative_to(content)
    elif inside.name == RAW_LOG:
        file /= RAW_LOG
    return LogOrigin(given.name if inside.name == RAW_LOG else inside.name, str(file))


def _content(archive: Path, folder: Path) -> Path:
    """Return the folder for what is in an archive. It has the archive's name, which a directory of
    TORCH_COMPILE_DEBUG without a name of its own gets.
    """
    return folder / "content" / archive.name


def open_tlparse(directories: Sequence[Path], folder: Path) -> Path:
    """Return the log of tlparse's folder, or a folder with those of several ranks. ``folder`` is
    for what must be written.
    """
    if len(directories) == 1:
        return log_of(directories[0], folder / "raw.log")
    logs = folder / "ranks"
    logs.mkdir()
    above = Path(os.path.commonpath(directories))
    for number, directory in enumerate(directories):
        name = "_".join(directory.relative_to(above).parts)
        if "rank" not in name:
            name = f"rank_{number}"
        log = log_of(directory, folder / "raw.log")
        shutil.copyfile(log, logs / f"{name}.log")
    return logs


def _debug_directory(archive: Path, content: Path) -> Path | None:
    """Return the folder of TORCH_COMPILE_DEBUG. Raises UsageError for several."""
    found: list[Path] = []
    for directory in (content, *(path for path in sorted(content.rglob("*")) if path.is_dir())):
        is_below = any(other in directory.parents for other in found)
        if not is_below and is_debug_directory(directory):
            found.append(directory)
    if len(found) > 1:
        raise UsageError(
            f"{archive} has {len(found)} TORCH_COMPILE_DEBUG directories: "
            f"{_names(found, content)}. Unpack it, and name one of them"
        )
    return found[0] if found else None


def _file_of_kinds(
    archive: Path,
    content: Path,
    folder: Path,
    kinds: Mapping[Path, Kind],
    in_order: Sequence[tuple[Kind, ...]],
) -> Path | None:
    """Return the file of the first kinds that there are, or a folder with the logs of ranks. Raises
    UsageError for several others.
    """
    for wanted in in_order:
        chosen = [path for path, kind in kinds.items() if kind in wanted]
        if len(chosen) == 1:
            return chosen[0]
        if chosen and wanted == ("log",):
            return _together(chosen, folder)
        if chosen:
            raise UsageError(
                f"{archive} has {len(chosen)} files that can be opened: "
                f"{_names(chosen, content)}. Unpack it, and name one of them"
            )
    return None


def _together(logs: Sequence[Path], folder: Path) -> Path:
    """Return a folder with the logs side by side, as a job's ranks are."""
    together = folder / "ranks"
    together.mkdir()
    for number, log in enumerate(logs):
        name = log.name
        if (together / name).exists():
            name = f"rank_{number}.{name}"
        log.rename(together / name)
    return together


def _names(files: Sequence[Path], content: Path) -> str:
    return listed([str(path.relative_to(content)) for path in files], SHOWN)
