"""This module finds events at lines of the user's source: where a graph broke, and why a function
was recompiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fx_explorer.analysis.documents import Document, Place, place_of_path
from fx_explorer.analysis.words import first_line
from fx_explorer.instruments.breaks.grouped import BreakInLibrary, DistinctBreak, distinct_breaks
from fx_explorer.instruments.recompiles.causes import recompiles
from fx_explorer.session import SessionReader, answered_once


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
            event = LineEvent("recompile", f"compiled again: {first_line(again.description)}")
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
