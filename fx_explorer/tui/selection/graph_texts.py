"""Graphs as Python or as a table: which of these texts take long to write, and how they are written
beside the screen.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, graph_form, node_at
from fx_explorer.analysis.graph_code.code import GraphText
from fx_explorer.analysis.graph_code.texts import graph_text, is_kept, keep, write_text
from fx_explorer.analysis.words import counted
from fx_explorer.highlight import Lines
from fx_explorer.session import SessionReader

NODES_AT_ONCE = 1_000
"""A graph of so many nodes is written before the next frame: each node takes some 40 µs."""

AS_WORDS = {"code": "as Python", "table": "as a table"}


def is_large(reader: SessionReader, document: Document) -> bool:
    """Return whether a document is the text of a graph that is too large to be written before the
    next frame, with the graphs nested in it.
    """
    if document.kind != "code" and document.kind != "table":
        return False
    graph = reader.get(model.Graph, document.id)
    beside = reader.rows(
        model.Graph, compilation=graph.compilation, stage=graph.stage, direction=graph.direction
    )
    return sum(graph.node_count for graph in beside) > NODES_AT_ONCE


def takes_long(reader: SessionReader, document: Document) -> bool:
    """Return whether a document is the text of a large graph that is not written yet."""
    if document.kind != "code" and document.kind != "table":
        return False
    return not is_kept(reader, document.kind, reader.get(model.Graph, document.id)) and is_large(
        reader, document
    )


def written(reader: SessionReader, document: Document) -> GraphText:
    """Write the text of a graph, and make what the screen asks of it first."""
    assert document.kind == "code" or document.kind == "table"
    text = write_text(reader, document.kind, reader.get(model.Graph, document.id))
    _ = text.coloured(document.language), text.line_of_node
    return text


def coloured(reader: SessionReader, document: Document) -> Lines | None:
    """Return the lines of a text of a graph, which are ready where it was written beside the
    screen; None for what is no such text.
    """
    if document.kind != "code" and document.kind != "table":
        return None
    return graph_text(reader, document.kind, document.id).coloured(document.language)


def written_text(reader: SessionReader, document: Document) -> GraphText:
    """Return the text of a graph, which is shown."""
    assert document.kind == "code" or document.kind == "table"
    return graph_text(reader, document.kind, document.id)


def keep_written(reader: SessionReader, document: Document, text: GraphText) -> None:
    """Give a text that was written beside the screen to the reader of the session on screen."""
    assert document.kind == "code" or document.kind == "table"
    keep(reader, document.kind, reader.get(model.Graph, document.id), text)


def words(reader: SessionReader, document: Document) -> str:
    """Say what is being written: ``100,001 nodes as Python``."""
    return f"{counted(document.line_count, 'node')} {AS_WORDS.get(document.kind, '')}"


def in_rows(reader: SessionReader, place: Place) -> Place:
    """Return the place of a node in the rows of its graph for its place in a text of it; the first
    row for a line that is of no node.
    """
    node = node_at(reader, place)
    return Place(graph_form(place.document, "graph"), node.position if node else 0)
