"""Find a place of one session again in a newer session of the same target."""

from __future__ import annotations

from collections.abc import Iterable

from fx_explorer import model
from fx_explorer.analysis.documents import (
    OF_GRAPHS,
    Document,
    Place,
    document_of,
    documents_but_kernels,
    documents_of,
    graph_form,
    node_at,
    place_of_row,
    source_document,
)
from fx_explorer.session import SessionReader


def same_place(old: SessionReader, place: Place, new: SessionReader) -> Place | None:
    """Return the same place in ``new``; None when the document is gone.

    It is the same file and line, or the same node in the graph or text of the same compilation,
    stage and direction. Where there is no such node, it is the same line.
    """
    document = same_document(old, place.document, new)
    if document is None:
        return None
    node = node_at(old, place)
    if node:
        row = _row_of_name(new, document, node.name)
        if row is not None:
            return place_of_row(new, document, row)
    return Place(document, max(0, min(place.line, document.line_count - 1)))


def same_document(old: SessionReader, document: Document, new: SessionReader) -> Document | None:
    if document.kind == "source":
        path = old.get(model.SourceFile, document.id).path
        found = new.rows(model.SourceFile, path=path, limit=1)
        return source_document(found[0]) if found else None
    is_of_graph = document.kind in OF_GRAPHS
    shown = document_of(old, "graph" if is_of_graph else document.kind, document.id)
    compilations = new.rows(model.Compilation, name=shown.owner, limit=1)
    there = documents_of if shown.stage == "kernel" else documents_but_kernels
    alike = _alike(shown, there(new, compilations[0])) if compilations else None
    return graph_form(alike, document.kind) if alike and is_of_graph else alike


def _alike(wanted: Document, documents: Iterable[Document]) -> Document | None:
    """Return the document of the same stage, direction and kind; where there are several (kernels),
    the one with the same title.
    """
    peers = [
        d
        for d in documents
        if (d.kind, d.stage, d.direction, d.language)
        == (wanted.kind, wanted.stage, wanted.direction, wanted.language)
    ]
    return next((d for d in peers if d.title == wanted.title), peers[0] if peers else None)


def _row_of_name(reader: SessionReader, document: Document, name: str) -> int | None:
    found = reader.rows(model.Node, graph=document.id, name=name, limit=1)
    return found[0].position if found else None
