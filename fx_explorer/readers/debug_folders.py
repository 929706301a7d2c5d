"""This module finds the folders in a debug directory, one for each graph that Inductor compiled
(``DebugContext``, torch/_inductor/debug.py). It imports little, since any directory may be checked.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.model import Direction

_FOLDER = re.compile(
    r"(?P<model>.+?)__(?P<id>\d+)_(?P<direction>forward|backward|inference)_\d+\.(?P<order>\d+)"
)

_OF_PACKAGE = re.compile(r"(?P<model>.+?)__(?P<id>_?\d*)\.(?P<order>\d+)")
"""Matches the folder of a compilation by AOTInductor: ``model___0.0``."""

_CODE = ("output_code.py", "output_code.cpp", "fx_graph_readable.py")

_BELOW = (".", "torchinductor", "run_*/torchinductor", "torch_compile_debug/run_*/torchinductor")
"""Paths of the folders, relative to the named directory."""

_LOGS = (
    "tlparse/*.log",
    "../tlparse/*.log",
    "torch_compile_debug/tlparse/*.log",
    "../../tlparse/*.log",
)
"""Path to which torch 2.13 writes a TORCH_TRACE log of the same run."""


@dataclass(frozen=True, slots=True)
class GraphFolder:
    """The folder of one graph."""

    path: Path
    program: str
    """``model 0``: forward and backward of one Dynamo graph share it."""
    direction: Direction
    order: int


def is_debug_directory(directory: Path) -> bool:
    """Return whether Inductor wrote into it. Raises PermissionError for a directory that cannot be
    looked into.
    """
    if directory.is_dir():
        os.scandir(directory).close()
    return directory.is_dir() and bool(graph_folders(directory))


def graph_folders(directory: Path) -> list[GraphFolder]:
    """Return the folders in the order Inductor compiled them. The directory may be one of them, or
    up to three levels above.
    """
    paths = {directory.absolute()}
    for below in _BELOW:
        paths.update(path for path in directory.glob(f"{below}/*__*") if path.is_dir())
    folders = []
    for path in paths:
        folder = _folder(path)
        if folder:
            folders.append(folder)
    return sorted(folders, key=lambda folder: (folder.path.parent, folder.order))


def logs_in_parent(directory: Path) -> list[Path]:
    logs: set[Path] = set()
    for pattern in _LOGS:
        logs.update(log.resolve() for log in directory.glob(pattern))
    return sorted(logs)


def _folder(path: Path) -> GraphFolder | None:
    named = _FOLDER.fullmatch(path.name)
    if not any((path / name).is_file() for name in _CODE):
        return None
    if not named and (package := _OF_PACKAGE.fullmatch(path.name)):
        name = f"{package['model']} {package['id'].strip('_')}".strip()
        return GraphFolder(path, name, "inference", int(package["order"][:9]))
    if not named:
        return None
    directions: dict[str, Direction] = {
        "forward": "forward",
        "backward": "backward",
        "inference": "inference",
    }
    return GraphFolder(
        path,
        f"{named['model']} {named['id']}",
        directions[named["direction"]],
        int(named["order"][:9]),
    )
