"""A directory that torch wrote for ``TORCH_COMPILE_DEBUG=1`` becomes a session: AOTAutograd's
graphs, those after Inductor's passes, IR, and code with kernels.

It has a folder for each graph that Inductor compiled (``DebugContext``, torch/_inductor/debug.py).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fx_explorer.errors import SessionError
from fx_explorer.model import Direction, Outcome
from fx_explorer.outside_file import read_outside
from fx_explorer.readers.provenance_table import (
    KERNEL_INFORMATION,
    NODE_MAPPINGS,
    TITLE,
    format_provenance,
    read_provenance,
)
from fx_explorer.readers.session_of_file import write_beginning
from fx_explorer.readers.torch_trace.compilation_records import Compilations
from fx_explorer.readers.torch_trace.graph_records import GraphRecords
from fx_explorer.readers.torch_trace.inductor_records import InductorRecords
from fx_explorer.readers.torch_trace.places import Places
from fx_explorer.readers.torch_trace.records import MALFORMED, Record
from fx_explorer.session import SessionWriter

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


MOST_OF_A_FILE = 64 << 20
"""Maximum number of bytes of a file; a longer one is counted as not read."""

_RECORDS = {
    "fx_graph_transformed.py": "inductor_post_grad_graph",
    "output_code.py": "inductor_output_code",
    "output_code.cpp": "inductor_aot_wrapper_code",
    "inductor_provenance_tracking_node_mappings.json": "inductor_provenance_tracking_node_mappings",
}
"""File → the record that torch's structured trace has of the same thing. Read in this order, after
AOTAutograd's graph.
"""

_READABLE = "fx_graph_readable.py"

_DOCUMENTS = {
    "fx_graph_runnable.py": ("listing", "post_grad", "Script that runs the graph", "python"),
    "ir_pre_fusion.txt": ("ir_pre_fusion", "schedule", "IR before fusion", "ir"),
    "ir_post_fusion.txt": ("ir_post_fusion", "schedule", "IR after fusion", "ir"),
}


def read_directory(directory: Path, session: Path) -> None:
    """Write the session of a debug directory. Files that have no view are listed with their sizes.

    Raises SessionError for a directory that cannot be read.
    """
    kinds, skipped = Counter[str](), 0
    try:
        folders = graph_folders(directory)
    except OSError as error:
        raise SessionError(f"{directory} cannot be read: {error.strerror or error}") from error
    with SessionWriter(session, checks_rows=True) as writer:
        places = Places(writer)
        compilations = Compilations(writer, places)
        graphs = GraphRecords(writer, compilations, places)
        handles: dict[str, Callable[[Record], None]] = {
            **graphs.handles(),
            **InductorRecords(writer, compilations, graphs).handles(),
        }
        with writer.transaction():
            for number, folder in enumerate(folders, 1):
                skipped += _add_folder(folder, number, compilations, handles, kinds)
            compilations.finish_text()
        _add_meta(writer, directory, kinds, skipped, graphs.unread_lines)


def _add_folder(
    folder: GraphFolder,
    number: int,
    compilations: Compilations,
    handles: dict[str, Callable[[Record], None]],
    kinds: Counter[str],
) -> int:
    """Add the files in a folder, and return how many could not be read."""
    skipped = 0
    for name, kind in {_READABLE: f"aot_{folder.direction}_graph", **_RECORDS}.items():
        file = folder.path / name
        if not file.exists():
            continue
        try:
            record = _record(folder, kind, _text(file), number)
            compilations.begun_by(record)
            handles[kind](record)
            # The trace has its kernels in a record after it.
            if kind == "inductor_aot_wrapper_code":
                none = _record(folder, "inductor_aot_kernel_code", "", number)
                handles[none.name](none)
            kinds[name] += 1
        except (*MALFORMED, OSError):
            skipped += 1
    about = _record(folder, "document", "", number)
    for name in (KERNEL_INFORMATION, NODE_MAPPINGS):
        file = folder.path / name
        if not file.exists():
            continue
        try:
            text = format_provenance(read_provenance(_text(file)))
            compilations.add_artifact(
                about, "listing", "output_code", TITLE, "text", text, folder.direction
            )
            kinds[name] += name not in _RECORDS  # which was counted
        except (ValueError, OSError):
            skipped += name not in _RECORDS
        break
    for name, (document, stage, title, language) in _DOCUMENTS.items():
        file = folder.path / name
        if not file.exists():
            continue
        try:
            compilations.add_artifact(
                about,
                document,  # type: ignore[arg-type]
                stage,  # type: ignore[arg-type]
                title,
                language,
                _text(file),
                folder.direction,
            )
            kinds[name] += 1
        except (ValueError, OSError):
            skipped += 1
    names_read = {_READABLE, *_RECORDS, *_DOCUMENTS, KERNEL_INFORMATION}
    others = [file for file in sorted(folder.path.iterdir()) if file.name not in names_read]
    if others:
        listing = "\n".join(f"{file.stat().st_size:>14,}  {file.name}" for file in others)
        compilations.add_artifact(
            about, "listing", "output_code", "Other files", "text", listing, folder.direction
        )
    return skipped


def _text(file: Path) -> str:
    """Return a file's text. Raises OSError if it is too large, or not a file."""
    return read_outside(file, MOST_OF_A_FILE).decode(errors="replace")


def _record(folder: GraphFolder, name: str, text: str, number: int) -> Record:
    return Record("artifact", {"name": name}, folder.program, 0, -1, float(number), text, number)


def _add_meta(
    writer: SessionWriter, directory: Path, kinds: Counter[str], skipped: int, unread_lines: int
) -> None:
    write_beginning(writer, directory)
    writer.set_meta("skipped_records", skipped)
    writer.set_meta("build", True)  # torch built what it wrote of
    writer.set_meta(
        "log",
        {
            "format": "debug_directory",
            "records": kinds.total(),
            "kinds": dict(kinds.most_common()),
            "unknown": {},
            "beside": [str(log) for log in logs_in_parent(directory)][:3],
            "unread_graph_lines": unread_lines,
            "damaged_lines": [],
        },
    )
    writer.set_meta("outcome", Outcome("finished").to_json())
