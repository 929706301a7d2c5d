"""This module finds the user's own file of a session and the line of it to look at first: what the
key of the source view opens, and what stands beside the first page. It also finds the events at
lines of the user's source: where a graph broke, and why a function was recompiled.

The own file is the target's. Another file of the user's comes next, where operations are written
only there (a model that a script imports), and a library's last of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, place_of_path, place_of_source
from fx_explorer.analysis.words import first_line
from fx_explorer.instruments.breaks.break_owners import BreakInLibrary
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.kernels.line_heat import LineHeat, SourceHeat
from fx_explorer.instruments.recompiles.causes import recompiles
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.session.queries.compilations import compilation_ids
from fx_explorer.session.queries.nodes import operations_by_source_line, stacks_by_source_line


@dataclass(frozen=True, slots=True)
class LineEvent:
    """A LineEvent is a graph break or a recompilation at a line of source."""

    what: Literal["graph break", "recompile"]
    text: str


@answered_once
def line_events(reader: SessionReader, document: Document) -> dict[int, list[LineEvent]]:
    """Return a map from each line (from 0) of a source file to its events, breaks first."""
    events: dict[int, list[LineEvent]] = {}
    if document.kind != "source":
        return events
    for graph_break in distinct_breaks(reader):
        for place in places_of_break(reader, graph_break):
            if place.document == document:
                text = f"graph break: {first_line(graph_break.description)}"
                events.setdefault(place.line, []).append(LineEvent("graph break", text))
    for again in recompiles(reader):
        if again.place and again.place.document == document:
            event = LineEvent("recompile", f"recompiled: {first_line(again.description)}")
            of_line = events.setdefault(again.place.line, [])
            if event not in of_line:
                of_line.append(event)
    return events


def places_of_break(reader: SessionReader, graph_break: DistinctBreak) -> Iterator[Place]:
    """Yield the line that breaks the graph, and the user's line that led to a break in a
    library.
    """
    if graph_break.place:
        yield graph_break.place
    if isinstance(graph_break.elsewhere, BreakInLibrary):
        caller = graph_break.elsewhere.called_from
        place = place_of_path(reader, caller.file, caller.line)
        if place:
            yield place


@dataclass(frozen=True, slots=True)
class OwnPlace:
    """A line of the user's own file."""

    place: Place
    compilation: int = 0
    """Id of the compilation whose graph stands beside the line; 0 where none is known."""


def own_place(reader: SessionReader, heat: SourceHeat) -> OwnPlace | None:
    """Return the most interesting line of the user's own file: the most expensive graph break, else
    a recompile, else the line whose kernels take most, else the line with most operations.

    ``heat``: what the lines cost, as far as it is known. None where the session has no text of the
    user's own file, and where no line of it was compiled.
    """
    files = _own_files(reader)
    breaks = [hit for hit in distinct_breaks(reader) if not hit.is_wrappers]
    again = [recompile.place for recompile in recompiles(reader) if recompile.place]
    operations = operations_by_source_line(reader)
    for file in files:
        own = _line_of(reader, file, breaks, heat, again, operations.get(file, {}))
        if own:
            return own
    for file in files:
        passed = stacks_by_source_line(reader, file)
        if passed:
            return _at(reader, file, _largest(passed))
    return None


def _own_files(reader: SessionReader) -> list[int]:
    """Return the ids of the user's files whose text was kept, the target's first."""
    target = str((reader.meta("target") or {}).get("file") or "")
    files = [file for file in reader.rows(model.SourceFile, is_user=True) if file.text]
    files.sort(key=lambda file: file.path != target)
    return [file.id for file in files]


def _line_of(
    reader: SessionReader,
    file: int,
    breaks: Sequence[DistinctBreak],
    heat: SourceHeat,
    again: Sequence[Place],
    operations: Mapping[int, int],
) -> OwnPlace | None:
    """Return the most interesting line of one file; None where no break, recompile, kernel or
    operation is in it.
    """
    for graph_break in breaks:
        for place in places_of_break(reader, graph_break):
            if place.document.id == file:
                return OwnPlace(place, _compilation_of(reader, graph_break))
    for place in again:
        if place.document.id == file:
            return OwnPlace(place)
    shares = _shares(heat.files.get(file, {}))
    if shares:
        return _at(reader, file, _largest(shares))
    if operations:
        return _at(reader, file, _largest(operations))
    return None


def _compilation_of(reader: SessionReader, graph_break: DistinctBreak) -> int:
    """Return the first compilation that the break cut and that has a graph; 0 for none."""
    for compilation in compilation_ids(reader, graph_break.compilations):
        if reader.count(model.Graph, compilation=compilation):
            return compilation
    return 0


def _shares(lines: Mapping[int, LineHeat]) -> dict[int, float]:
    """Return line (from 1) → the share of all kernels' cost, of lines that have one."""
    shares = {}
    for line, line_heat in lines.items():
        if line_heat.share:
            shares[line + 1] = line_heat.share
    return shares


def _largest(amounts: Mapping[int, float]) -> int:
    """Return the line with the largest amount, the first of several."""
    return min(amounts, key=lambda line: (-amounts[line], line))


def _at(reader: SessionReader, file: int, line: int) -> OwnPlace | None:
    place = place_of_source(reader, file, line)
    return OwnPlace(place) if place else None
