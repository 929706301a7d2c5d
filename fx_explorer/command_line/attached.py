"""This module finds what to open of an archive or a folder that somebody attached to a report: the
log or folder of tlparse's, a TORCH_TRACE log, the logs of a job's ranks, a folder of
TORCH_COMPILE_DEBUG, printed text, a session.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from fx_explorer.analysis.words import counted, listed
from fx_explorer.errors import UsageError
from fx_explorer.readers.debug_directory import is_debug_directory
from fx_explorer.readers.tlparse_folder import log_of, tlparse_folders
from fx_explorer.session.untrusted.kind_of_file import Kind, kind_of_file
from fx_explorer.session.untrusted.unpacking import unpack

_IN_ORDER: tuple[tuple[Kind, ...], ...] = (("log",), ("sqlite", "page"), ("torch_logs",), (
    "tritonparse", "provenance"), ("exported_program", "aot_inductor"))  # fmt: skip
"""Kinds of files that are opened, those that tell most first."""

SHOWN = 6
"""Number of files that a message names."""


def open_archive(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a folder, and return what to open of it: a file, or a folder with the
    logs of ranks. Raises UnreadableProgramError as ``unpack`` does, and UsageError where nothing in
    it can be opened, or several things can.
    """
    content = folder / "content"
    content.mkdir()
    unpack(archive, content)
    of_tlparse = tlparse_folders(content)
    if of_tlparse:
        return open_tlparse(of_tlparse, folder)
    for directory in (content, *(path for path in sorted(content.rglob("*")) if path.is_dir())):
        if is_debug_directory(directory):
            return directory
    return _file_in(archive, content, folder)


def open_tlparse(directories: Sequence[Path], folder: Path) -> Path:
    """Return the log of tlparse's folder, or a folder with those of several ranks. ``folder`` is
    for what must be written.
    """
    if len(directories) == 1:
        return log_of(directories[0], folder / "raw.log")
    logs = folder / "ranks"
    logs.mkdir()
    for number, directory in enumerate(directories):
        name = directory.name if "rank" in directory.name else f"rank_{number}"
        log = log_of(directory, folder / "raw.log")
        shutil.copyfile(log, logs / f"{name}.log")
    return logs


def _file_in(archive: Path, content: Path, folder: Path) -> Path:
    files = [path for path in sorted(content.rglob("*")) if path.is_file()]
    kinds = {path: kind_of_file(path).kind for path in files}
    for wanted in _IN_ORDER:
        chosen = [path for path in files if kinds[path] in wanted]
        if len(chosen) == 1:
            return chosen[0]
        if chosen and wanted == ("log",):
            return _together(chosen, folder)
        if chosen:
            raise UsageError(
                f"{archive} has {len(chosen)} files that can be opened: "
                f"{_names(chosen, content)}. Unpack it, and name one of them"
            )
    raise UsageError(
        f"{archive} is {kind_of_file(archive).words} with {counted(len(files), 'file')}, and none "
        "that fx-explorer opens (a log of TORCH_TRACE or TORCH_LOGS, tlparse's folder, a session)"
        f"{': ' if files else ''}{_names(files, content)}"
    )


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
