"""This module finds what to open of an archive or a folder that somebody attached to a report: the
log or folder of tlparse's, a TORCH_TRACE log, the logs of a job's ranks, a folder of
TORCH_COMPILE_DEBUG, printed text, a session.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from fx_explorer.analysis.words import counted, listed
from fx_explorer.errors import UsageError
from fx_explorer.readers.debug_directory import is_debug_directory
from fx_explorer.readers.tlparse_folder import log_of, tlparse_folders
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


def open_archive(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a folder, and return what to open of it: a file, or a folder with the
    logs of ranks. Raises UnreadableProgramError as ``unpack`` does, and UsageError where nothing in
    it can be opened, or several things can.
    """
    content = folder / "content" / archive.name
    content.mkdir(parents=True)
    unpack(archive, content)
    of_tlparse = tlparse_folders(content)
    if of_tlparse:
        return open_tlparse(of_tlparse, folder)
    files = [path for path in sorted(content.rglob("*")) if path.is_file()]
    kinds = {path: kind_of_file(path).kind for path in files}
    inside = (
        _file_of_kinds(archive, content, folder, kinds, _BEFORE_DIRECTORIES)
        or _debug_directory(archive, content)
        or _file_of_kinds(archive, content, folder, kinds, _AFTER_DIRECTORIES)
    )
    if inside is None:
        raise UsageError(
            f"{archive} is {kind_of_file(archive).words} with {counted(len(files), 'file')}, and "
            "none that fx-explorer opens (a log of TORCH_TRACE or TORCH_LOGS, tlparse's folder, a "
            f"session){': ' if files else ''}{_names(files, content)}"
        )
    return inside


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
            f"{archive} has {len(found)} folders of TORCH_COMPILE_DEBUG: "
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
