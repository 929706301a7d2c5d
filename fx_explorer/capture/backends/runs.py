"""Runs of a backend's programs, as ``fx_explorer.publish_run`` tells them, as rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from fx_explorer.capture.backends.given import Problems, name_of
from fx_explorer.capture.backends.published_links import KnownNodes
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import BackendInstruction, BackendRun, Direction, PublishedStage
from fx_explorer.session.bounds import shortened

MOST_RUNS = 100
"""Runs of one entry that are kept; a training loop has as many as it has steps."""

MOST_INSTRUCTIONS = 20_000
"""Instructions of one run that are kept."""

MAX_SHAPES = 1_000

_PROGRAM = "program"
"""The stage whose lines a run names."""


def add_run(recording: Recording, entry: str, instructions: Any, call: Any, of: Problems) -> None:
    """Store one run. What cannot be read of it is noted, the rest is kept."""
    compilation = recording.variant_id()
    program, direction = _program(recording, entry)
    recording.published.runs[compilation, entry, direction] += 1
    counted = recording.published.runs[compilation, entry, direction]
    number = _call_number(call, counted, of)
    if counted > MOST_RUNS:
        of.add(f"its first {MOST_RUNS} runs are kept, and later ones are left out")
        return
    none: list[Any] = []
    read = of.tried(
        "its instructions",
        lambda: list(itertools.islice(iter(instructions), MOST_INSTRUCTIONS + 1)),
        none,
    )
    if len(read) > MOST_INSTRUCTIONS:
        of.add(f"it has more than {MOST_INSTRUCTIONS:,} instructions: the first are kept")
    known = KnownNodes(recording.segment(), direction)
    # Read before the transaction: what is in it may be of the backend's own classes.
    made = list(_instructions(read[:MOST_INSTRUCTIONS], known, of))
    with recording.writer.transaction():
        run = recording.writer.add(
            BackendRun(
                0, compilation, entry, direction, number, program, start_s=recording.elapsed()
            )
        )
        recording.writer.add_all(
            BackendInstruction(0, run, i, *fields) for i, fields in enumerate(made)
        )
    recording.saw("backend")


def _call_number(call: Any, counted: int, of: Problems) -> int:
    if call is None:
        return counted
    if isinstance(call, bool) or not isinstance(call, int) or not 0 < call < 2**31:
        of.add("its call is no number, from 1: its runs are counted")
        return counted
    return call


def _program(recording: Recording, entry: str) -> tuple[int, Direction]:
    """Return the program that an entry runs, and its direction: the last program that its compilation
    published, in the direction of the entry that runs in this thread, or that it is called after.
    """
    running = recording.here.running_direction
    stages = recording.published.stages.get(recording.variant_id(), [])
    programs = [stage for stage in stages if stage.name == _PROGRAM and stage.artifact]
    wanted = [
        stage for stage in programs if stage.direction and stage.direction in (running or entry)
    ]
    last: PublishedStage | None = next(reversed(wanted or programs), None)
    return (last.artifact, running or last.direction) if last else (0, running)


Fields = tuple[str, str, float, bool, int, int]
"""The fields of a BackendInstruction from its name on."""


def _instructions(given: list[Any], known: KnownNodes, of: Problems) -> Iterator[Fields]:
    for one in given:
        if not isinstance(one, Mapping):
            of.add(f"an instruction is of type {type(one).__name__}, not a dictionary")
            continue
        read = of.tried("an instruction", lambda one=one: _instruction(one, known, of), None)  # type: ignore[misc]
        if read is not None:
            yield read


def _instruction(given: Mapping[str, Any], known: KnownNodes, of: Problems) -> Fields:
    return (
        name_of(given.get("name", "instruction"), of, "instruction"),
        _shapes(given.get("shapes", "")),
        _seconds(given.get("seconds", 0.0), of),
        bool(given.get("fell_back", False)),
        _line(given.get("line"), of),
        _node(given.get("node"), known, of),
    )


def _shapes(given: Any) -> str:
    """Return ``512x512, 512`` for ``[(512, 512), (512,)]``."""
    if isinstance(given, (tuple, list)):
        parts = itertools.islice(given, 100)
        nested = [isinstance(part, (tuple, list, torch.Size)) for part in given[:100]]
        given = (
            ", ".join("x".join(map(str, part)) or "scalar" for part in parts)
            if any(nested)
            else "x".join(map(str, parts))
        )
    return shortened(" ".join(str(given).split()), MAX_SHAPES)


def _seconds(given: Any, of: Problems) -> float:
    seconds = float(given)
    if not math.isfinite(seconds) or seconds < 0:
        of.add("the seconds of an instruction are no time")
        return 0.0
    return seconds


def _line(given: Any, of: Problems) -> int:
    if given is None:
        return 0
    if isinstance(given, bool) or not isinstance(given, int) or not 0 < given < 50_000_000:
        of.add("the line of an instruction is no line number, from 1")
        return 0
    return given


def _node(given: Any, known: KnownNodes, of: Problems) -> int:
    if given is None:
        return 0
    row = known.of_node(given) if isinstance(given, torch.fx.Node) else 0
    row = row or known.of_name(given.name if isinstance(given, torch.fx.Node) else str(given))
    if not row:
        of.add(
            f"an instruction names {str(given)[:200]!r}, which is no node of the graph that the backend was given"
        )
    return row
