"""This module writes Dynamo's graph as it was at a step of the trace, a line for each node."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.dynamo_trace import TracedAttempt
from fx_explorer.session import SessionReader
from fx_explorer.session.reader import answered_once

MOST_LINES = 500
"""Maximum number of nodes that are shown: the last ones."""


def graph_lines(reader: SessionReader, attempt: TracedAttempt, at: int) -> tuple[list[str], int]:
    """Return a line for each node that the graph has after a step, and how many of them, the last
    ones, the step has added.

    A node of an attempt that was discarded has no more than its name, unless a later attempt made
    it again.
    """
    texts = _texts_of_nodes(reader, attempt.row.compilation)
    new = attempt.nodes_at(at)
    nodes = [*attempt.nodes_before(at), *new][-MOST_LINES:]
    return [texts.get(node.name, node.name) for node in nodes], min(len(new), len(nodes))


@answered_once
def _texts_of_nodes(reader: SessionReader, compilation: int) -> dict[str, str]:
    """Return name → ``name = target(arguments)`` of the nodes of Dynamo's graphs."""
    texts: dict[str, str] = {}
    for graph in reader.rows(model.Graph, compilation=compilation, stage="dynamo"):
        for node in reader.nodes(graph):
            texts.setdefault(node.name, _text_of(node))
    return texts


def _text_of(node: model.Node) -> str:
    if node.op == "placeholder":
        return f"{node.name}  # an input"
    if node.op == "output":
        return f"return {node.arguments}" if node.arguments else "return"
    return f"{node.name} = {node.target}({node.arguments})"
