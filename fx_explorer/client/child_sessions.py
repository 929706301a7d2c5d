"""This module turns the files that the program's child processes left beside the session into rows.
The children may have ended in any way.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from fx_explorer.client.descendants import UnknownProcess
from fx_explorer.errors import SessionError
from fx_explorer.model import (
    Beginning,
    ChildFinding,
    ChildProcess,
    Compilation,
    Fallback,
    FindingKind,
    GraphBreak,
    Recompile,
)
from fx_explorer.outside_file import read_outside
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.compilations import check_count, raised_compilations
from fx_explorer.session.queries.graphs import captured_graph_count

VARIABLE, HOOK = (
    "FX_EXPLORER_CHILDREN",
    str(Path(__file__).resolve().parent.parent / "program" / "in_children"),
)
"""The environment variable, and the folder of the hook, by which processes started by a worker are
recorded (program/children.py).
"""

MOST_OF_UNSEEN = 1 << 20
"""Maximum size of the note on a process that could not be seen, in bytes."""

DIRECTORY = "children"
"""Folder beside the session that holds the sessions of child processes (program/children.py)."""

MOST_PROCESSES, MOST_FINDINGS = 1000, 1000
"""Maximum number of rows of one capture, and of one process; the totals of a process count
everything.
"""

LONGEST = 1000
"""Maximum number of characters of a text."""


def add_children(
    writer: SessionWriter, session: Path, unknown: Sequence[UnknownProcess] = ()
) -> None:
    """Add every process that compiled something, and every process of which it is not known whether
    it did.
    """
    directory = session.with_name(DIRECTORY)
    files = sorted(directory.iterdir()) if directory.is_dir() else []
    kept = [read for file in files if (read := _read(file))]
    if unknown and not _is_script(writer.path):
        # What a function starts need not end with it; what was recorded is known.
        unknown = [process for process in unknown if not process.is_recorded]
    kept.extend((_unknown(process), []) for process in unknown)
    with writer.transaction():
        for child, findings in kept[:MOST_PROCESSES]:
            row = writer.add(child)
            writer.add_all(replace(finding, process=row) for finding in findings[:MOST_FINDINGS])


def _read(file: Path) -> tuple[ChildProcess, list[ChildFinding]] | None:
    """Read the files of one child; None if they contain nothing."""
    if file.suffix == ".json" and file.name != "request.json":
        return _unseen(file), []
    if file.suffix != ".fxs":
        return None
    try:
        with SessionReader(file) as reader:
            if reader.count(Compilation):
                return (_process(reader), list(_findings(reader)))
            return None
    except SessionError as error:
        start_of_name = file.name.partition("-")[0]
        pid = int(start_of_name) if start_of_name.isdecimal() else 0
        return ChildProcess(0, pid, "started", "", f"its record is damaged: {error}"), []


def _unseen(file: Path) -> ChildProcess:
    try:
        told = json.loads(read_outside(file, MOST_OF_UNSEEN))
        return ChildProcess(
            0, 0, "started", str(told["command"])[:LONGEST], str(told["why"])[:LONGEST]
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        return ChildProcess(0, 0, "started", "", f"what it recorded cannot be read: {error}")


def _is_script(session: Path) -> bool:
    with SessionReader(session) as reader:
        return (reader.meta("target") or {}).get("kind") == "script"


def _unknown(process: UnknownProcess) -> ChildProcess:
    command, why = process.command[:LONGEST], process.why[:LONGEST]
    return ChildProcess(0, process.pid, "started", command, why)


def _process(reader: SessionReader) -> ChildProcess:
    told = reader.meta("process") or {}
    beginning: Beginning = "forked" if told.get("beginning") == "forked" else "started"
    return ChildProcess(
        id=0,
        pid=int(told.get("pid") or 0),
        beginning=beginning,
        command=str(told.get("command") or "")[:LONGEST],
        compilations=sum(
            compilation.status != "restarted" for compilation in reader.rows(Compilation)
        ),
        graphs=captured_graph_count(reader, None),
        graph_breaks=reader.count(GraphBreak),
        recompiles=len({recompile.compilation for recompile in reader.rows(Recompile)}),
    )


def _findings(reader: SessionReader) -> Iterator[ChildFinding]:
    """Return one finding for each place, cause and text."""
    yield from _counted(
        "break",
        (
            (graph_break.file, graph_break.line, graph_break.registry_id, graph_break.reason)
            for graph_break in reader.rows(GraphBreak)
        ),
    )
    yield from _counted(
        "recompile",
        (
            (recompile.file, recompile.line, "", recompile.guard or recompile.reason)
            for recompile in reader.rows(Recompile)
        ),
    )
    yield from _counted(
        "left",
        (
            (fallback.file, fallback.line, fallback.kind, fallback.reason)
            for fallback in reader.rows(Fallback)
        ),
    )
    for compilation in raised_compilations(reader):
        yield ChildFinding(
            0,
            0,
            "error",
            compilation.file,
            compilation.line,
            "",
            f"{compilation.function}: {compilation.error}"[:LONGEST],
        )
    for compilation in reader.rows(Compilation):
        if guards := check_count(reader, compilation.id):
            yield ChildFinding(
                0,
                0,
                "guards",
                compilation.file,
                compilation.line,
                "",
                compilation.function[:LONGEST],
                guards,
            )


def _counted(
    kind: FindingKind, found: Iterable[tuple[str, int, str, str]]
) -> Iterator[ChildFinding]:
    for (file, line, cause, text), count in Counter(found).items():
        yield ChildFinding(0, 0, kind, file[:LONGEST], line, cause[:LONGEST], text[:LONGEST], count)


def without_mark(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a worker of ours that a recorded program starts, so that only the
    worker records its own children.
    """
    kept = dict(environment)
    if kept.pop(VARIABLE, None):
        entries = (entry for entry in kept.get("PYTHONPATH", "").split(os.pathsep) if entry != HOOK)
        kept["PYTHONPATH"] = os.pathsep.join(entries)
        if not kept["PYTHONPATH"]:
            del kept["PYTHONPATH"]
    return kept
