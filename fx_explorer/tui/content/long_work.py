"""This module recognises, from a count of rows, work that takes longer than a frame: the table of a
view, the outline, a large graph as text. Such work is done in the background.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, graph_form, node_at
from fx_explorer.analysis.graph_python import GraphText
from fx_explorer.analysis.graph_texts import (
    form_title,
    graph_text,
    is_form,
    is_kept,
    keep,
    write_text,
)
from fx_explorer.analysis.words import counted
from fx_explorer.highlight import Lines
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.sql import rows_up_to

AT_ONCE_US = 40_000
"""Maximum number of microseconds for making a table before the next frame; a longer one is made in
the background.
"""


READING = "Reading {what} …"

UNREADABLE = "This could not be read."

FAILED = f"{UNREADABLE} Choose the view again to retry."


@dataclass(frozen=True, slots=True)
class Reads:
    """The rows that a table is computed from, and how long reading them takes."""

    what: type
    """The rows that the user waits for."""
    noun: str
    cost_us: Mapping[type, float]
    """About how long each kind of row takes, in microseconds: measured for kernels, nodes and
    guards, estimated for the others.
    """

    def takes_long(self, reader: SessionReader) -> bool:
        """Return whether the table is too large to be made before the next frame. The count stops
        as soon as that is known.
        """
        estimated_us = 0.0
        for row_type, one_us in self.cost_us.items():
            estimated_us += one_us * rows_up_to(reader, row_type, int(AT_ONCE_US / one_us) + 1)
        return estimated_us > AT_ONCE_US

    def words(self, reader: SessionReader) -> str:
        """Describe what is being read: ``100,000 kernels``."""
        return counted(reader.count(self.what), self.noun)


READS: dict[str, Reads] = {
    "graphs": Reads(model.Node, "node", {model.Node: 0.7}),
    "guards": Reads(model.Guard, "guard", {model.Guard: 8}),
    "kernels": Reads(model.Kernel, "kernel", {model.Kernel: 22, model.LineNode: 1.8}),
    "memory": Reads(model.SavedTensor, "saved tensor", {model.SavedTensor: 30}),
    "modules": Reads(
        model.Node,
        "node",
        {model.Node: 0.7, model.Kernel: 22, model.LineNode: 1.8, model.SavedTensor: 30},
    ),
    "step_memory": Reads(model.Kernel, "kernel", {model.KernelCall: 400, model.Kernel: 50}),
    "regions": Reads(model.Node, "node", {model.Node: 0.15}),
    "ledger": Reads(model.LedgerStep, "step", {model.LedgerStep: 20}),
    "flame": Reads(model.Span, "phase", {model.Span: 20, model.PhaseLine: 20}),
    "profile": Reads(
        model.Kernel, "kernel", {model.ProfileTime: 60, model.Kernel: 25, model.LineNode: 3}
    ),
    "roofline": Reads(
        model.Kernel, "kernel", {model.Kernel: 40, model.LineNode: 1.8, model.LedgerStep: 10}
    ),
    "trace": Reads(model.TraceStep, "step", {model.TraceStep: 25, model.TracedCall: 25}),
    "passes": Reads(model.PassChange, "change", {model.PassChange: 20, model.GraphPass: 20}),
    "fusion": Reads(model.UnfusedPair, "pair", {model.UnfusedPair: 30, model.LineNode: 1.8}),
    "decisions": Reads(
        model.KernelDecision, "decision", {model.KernelDecision: 40, model.LineNode: 1.8}
    ),
    "time": Reads(model.Span, "phase", {model.Span: 5}),
}
"""View → the rows that may make it large. Tables of other views have few rows, or read them by
page.
"""

PLUGIN_READS = Reads(model.Node, "node", {model.Node: 5, model.Kernel: 25})
"""Rows from which a plug-in may compute its view: nobody knows which it reads."""

OUTLINE_READS = Reads(
    model.Compilation,
    "compilation",
    {model.Compilation: 800, model.Kernel: 0.5, model.SourceFile: 40},
)
"""The rows that the outline reads. For kernels it reads only the ranges."""

OVERVIEW_READS = Reads(model.Node, "node", {model.Node: 1, model.Kernel: 3, model.Compilation: 200})
"""Rows from which the overview is computed when the app opens."""

DOCUMENT_READS = Reads(
    model.Artifact, "text", {model.Artifact: 8, model.Graph: 40, model.Compilation: 100}
)
"""Rows from which a document of a pane is computed."""

FIND_READS = Reads(model.Node, "node", {model.Node: 0.5, model.Kernel: 8, model.SourceFile: 200})
"""Rows that a find searches."""


NODES_AT_ONCE = 1_000
"""Maximum number of nodes of a graph whose text is written before the next frame: each takes about
40 µs.
"""


def is_large_graph(reader: SessionReader, document: Document) -> bool:
    """Return whether a document is the text of a graph that is too large to be written before the
    next frame, with the graphs nested in it.
    """
    if not is_form(document.kind):
        return False
    graph = reader.get(model.Graph, document.id)
    beside = reader.rows(
        model.Graph, compilation=graph.compilation, stage=graph.stage, direction=graph.direction
    )
    return sum(graph.node_count for graph in beside) > NODES_AT_ONCE


def graph_takes_long(reader: SessionReader, document: Document) -> bool:
    """Return whether a document is the text of a large graph that has not been written yet."""
    if not is_form(document.kind):
        return False
    return not is_kept(
        reader, document.kind, reader.get(model.Graph, document.id)
    ) and is_large_graph(reader, document)


def write_graph(reader: SessionReader, document: Document) -> GraphText:
    """Write the text of a graph, and prepare the data that the screen reads from it first."""
    assert is_form(document.kind)
    text = write_text(reader, document.kind, reader.get(model.Graph, document.id))
    _ = text.coloured(document.language), text.line_of_node
    return text


def coloured_graph(reader: SessionReader, document: Document) -> Lines | None:
    """Return the coloured lines of a graph's text, which are prepared if it was written in the
    background; None for any other document.
    """
    if not is_form(document.kind):
        return None
    return graph_text(reader, document.kind, document.id).coloured(document.language)


def graph_text_of(reader: SessionReader, document: Document) -> GraphText:
    """Return the text of a graph, which is shown."""
    assert is_form(document.kind)
    return graph_text(reader, document.kind, document.id)


def keep_graph_text(reader: SessionReader, document: Document, text: GraphText) -> None:
    """Give a text that was written in the background to the reader of the session on screen."""
    assert is_form(document.kind)
    keep(reader, document.kind, reader.get(model.Graph, document.id), text)


def describe_graph(reader: SessionReader, document: Document) -> str:
    """Describe what is being written: ``100,001 nodes as Python``."""
    return f"{counted(document.line_count, 'node')} {form_title(document.kind)}"


def place_in_rows(reader: SessionReader, place: Place) -> Place:
    """Return the place of a node among its graph's rows, given its place in a text of the graph;
    the first row for a line without a node.
    """
    node = node_at(reader, place)
    row = node.position if node else 0
    return Place(graph_form(place.document, "graph"), row)
