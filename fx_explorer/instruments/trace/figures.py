"""This module lays Dynamo's trace out as a tree: a compiled function, its lines in the order in
which Dynamo traced them, below each line the calls that were inlined there, and their lines.

A line that Dynamo comes to again, in a loop, is one line with a count; so is a function that is
called again from the same line for the same module. What torch and Python's own library do inside
is counted for the call, without its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from fx_explorer import model
from fx_explorer.analysis.dynamo_trace import TracedAttempt
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.session import SessionReader
from fx_explorer.session.reader import answered_once

_INSTALLED = re.compile(r"[/\\](?:site|dist)-packages[/\\](?!torch[/\\])")
"""Matches the path of an installed library other than torch."""


@dataclass
class TracedLine:
    """A line of a function, with everything that Dynamo did there."""

    line: int
    """0 for a function whose lines are not shown."""
    times: int = 0
    """How often Dynamo traced it."""
    nodes: int = 0
    guards: int = 0
    """Numbers of nodes and guards, with those of the calls at this line."""
    node_names: list[str] = field(default_factory=list)
    """Names of the nodes that were added at the line itself, and inside torch."""
    events: list[str] = field(default_factory=list)
    calls: dict[tuple[str, int, str], TracedFunction] = field(default_factory=dict)
    """(function, file, module) → the call."""


@dataclass
class TracedFunction:
    """A function that Dynamo traced: called by Python, or inlined."""

    function: str
    file: int
    module: str
    first_line: int
    has_lines: bool
    """Whether its lines are shown: not for functions of torch's."""
    times: int = 0
    nodes: int = 0
    guards: int = 0
    ended: set[str] = field(default_factory=set)
    lines: dict[int, TracedLine] = field(default_factory=dict)

    def at(self, line: int) -> TracedLine:
        number = line if self.has_lines else 0
        return self.lines.setdefault(number, TracedLine(number))


@dataclass(frozen=True)
class TracedCompilation:
    """A compilation and what Dynamo did for it."""

    compilation: model.Compilation
    attempts: Sequence[model.TraceAttempt]
    root: TracedFunction | None
    """The last attempt as a tree; None if no step of it was recorded."""


@dataclass(frozen=True, slots=True)
class _Spot:
    """Where the steps of a call count: in a function, at any line of it or at a certain one."""

    path: tuple[tuple[TracedFunction, int], ...]
    """The functions around, outermost first, each with the line that the next is called from."""
    function: TracedFunction
    fixed_line: int = -1
    """The line of the function for calls that are not shown; -1 for the function's own steps."""


@answered_once
def traced_compilations(reader: SessionReader) -> list[TracedCompilation]:
    """Return what Dynamo did for each compilation, in the order of these."""
    attempts: dict[int, list[model.TraceAttempt]] = {}
    for row in reader.rows(model.TraceAttempt):
        attempts.setdefault(row.compilation, []).append(row)
    files = {file.id: file for file in reader.rows(model.SourceFile)}
    traced = []
    for compilation in first_variants(reader):
        rows = attempts.get(compilation.id)
        if rows:
            last = TracedAttempt(reader, rows[-1])
            traced.append(TracedCompilation(compilation, rows, tree_of(last, files)))
    return traced


def tree_of(attempt: TracedAttempt, files: dict[int, model.SourceFile]) -> TracedFunction | None:
    """Return an attempt as a tree; None if it has no steps."""
    spots: dict[int, _Spot] = {}
    root: TracedFunction | None = None
    names_at: dict[int, list[str]] = {}
    for node in attempt.nodes:
        names_at.setdefault(node.position, []).append(node.name)
    for step in attempt.steps:
        if step.call not in spots:
            spot = _spot_of(attempt, step.call, spots, files)
            if spot is None:
                continue
            spots[step.call] = spot
            root = root or spot.function
        _count(spots[step.call], step, names_at.get(step.position, ()))
    return root


def _spot_of(
    attempt: TracedAttempt,
    number: int,
    spots: dict[int, _Spot],
    files: dict[int, model.SourceFile],
) -> _Spot | None:
    call = attempt.calls.get(number)
    if call is None:
        return None
    has_lines = _is_shown(files.get(call.file))
    outer = spots.get(call.parent)
    if outer is None:
        function = TracedFunction(
            call.function, call.file, call.module, call.first_line, has_lines=True
        )
        return _begun(_Spot((), function), call)
    # A function of torch's inside one of torch's is not shown, whatever it calls.
    if not has_lines and not outer.function.has_lines:
        return _Spot(outer.path, outer.function, 0)
    if outer.fixed_line >= 0:
        line = outer.fixed_line
    else:
        line = call.parent_line
    calls = outer.function.at(line).calls
    key = call.function, call.file, call.module
    if key not in calls:
        calls[key] = TracedFunction(*key, call.first_line, has_lines)
    path = (*outer.path, (outer.function, line))
    return _begun(_Spot(path, calls[key]), call)


def _begun(spot: _Spot, call: model.TracedCall) -> _Spot:
    spot.function.times += 1
    spot.function.ended.add(call.ended)
    return spot


def _is_shown(file: model.SourceFile | None) -> bool:
    """Return whether the lines of a file's functions are shown: the user's, and those of libraries
    other than torch and Python's.
    """
    if file is None:
        return False
    return file.is_user or _INSTALLED.search(file.path) is not None


def _count(spot: _Spot, step: model.TraceStep, names: Sequence[str]) -> None:
    line_number = step.line if spot.fixed_line < 0 else spot.fixed_line
    line = spot.function.at(line_number)
    if step.starts_line and spot.fixed_line < 0:
        line.times += 1
    line.node_names += names
    if step.event:
        line.events.append(step.event)
    for function, called_from in (*spot.path, (spot.function, line_number)):
        function.nodes += step.node_count
        function.guards += step.guard_count
        at = function.at(called_from)
        at.nodes += step.node_count
        at.guards += step.guard_count


def walk(
    function: TracedFunction, depth: int = 0
) -> Iterator[tuple[int, TracedFunction | TracedLine, TracedFunction]]:
    """Yield (depth, line or call, the function that it is in), each before what is inside it."""
    for line in function.lines.values():
        inner = depth
        if line.line:
            yield depth, line, function
            inner = depth + 1
        for call in line.calls.values():
            yield inner, call, function
            yield from walk(call, inner + 1)


def resumed_by(reader: SessionReader, compilation: int) -> list[tuple[model.ResumeFunction, str]]:
    """Return the resume functions that a compilation ends with, each with the name of the first
    compilation of it; empty if it was not compiled.
    """
    names: dict[str, str] = {}
    for row in first_variants(reader):
        names.setdefault(row.function.rpartition(".")[2], row.name)
    return [
        (row, names.get(row.name, ""))
        for row in reader.rows(model.ResumeFunction, compilation=compilation)
    ]
