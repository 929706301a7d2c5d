"""Which documents are shown of a stage, and where its cursor begins."""

from __future__ import annotations

from collections.abc import Mapping

from fx_explorer import model
from fx_explorer.analysis.documents import Document, place_of_path
from fx_explorer.analysis.stages.work import Fate, StagePoint
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.nodes import first_operation

AS_BEFORE: frozenset[Fate] = frozenset(("kept", "forward", "view"))
"""What is not worth beginning with."""


def stage_sources(reader: SessionReader, point: StagePoint) -> tuple[Document, ...]:
    """Return what Dynamo read: it has no graph before it."""
    if point.before:
        return ()
    variant = reader.get(model.Compilation, point.compilation)
    place = place_of_path(reader, variant.file, variant.line)
    return (place.document,) if place else ()


def shown_parts(point: StagePoint) -> list[Document]:
    """Return the document before, and those after, each of the whole graph: one, but for the
    partition, which makes two.
    """
    after = {
        (document.kind, document.stage, document.direction): document
        for document in reversed(point.after)
    }
    return [*point.before[:1], *reversed(after.values())]


def first_marked(reader: SessionReader, graph: Document, fates: Mapping[int, Fate]) -> int:
    """Return the row of the first operation that did not just stay; of the first one where all did."""
    first = reader.get(model.Graph, graph.id).first_node
    rows = range(first, first + graph.line_count)
    found = next(
        (node - first for node in rows if node in fates and fates[node] not in AS_BEFORE), None
    )
    return first_operation(reader, graph.id) if found is None else found
