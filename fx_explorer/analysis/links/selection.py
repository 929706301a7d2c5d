"""Which nodes a place stands for: the row of a graph, a source line, a line of a kernel, of output
code, of bytecode.

This is the first half of following a link; ``linked.py`` continues from the nodes to every other
document.
"""

from __future__ import annotations

from collections.abc import Iterable

from fx_explorer import model
from fx_explorer.analysis.documents import Place, node_at
from fx_explorer.analysis.links.own_kernels import callers, own_lines_at
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.links import calls_on_line, kernel_around


def nodes_at(reader: SessionReader, place: Place) -> list[int]:
    """Return the ids of the nodes at a place, in the order of the file. A line of a Triton kernel
    of the user's stands for its calls.
    """
    document = place.document
    if document.kind == "graph":
        graph = reader.get(model.Graph, document.id)
        return [graph.first_node + place.line] if 0 <= place.line < graph.node_count else []
    if document.kind == "code" or document.kind == "table":
        node = node_at(reader, place)
        return [node.id] if node else []
    if document.kind == "source":
        return nodes_at_source(reader, document.id, place.line + 1) or callers(
            reader, own_lines_at(reader, place)
        )
    return sorted(
        {row.node for row in line_nodes_at(reader, document.id, place.line + 1)}
        | set(_nodes_of_bytecode(reader, place))
    )


def nodes_at_source(reader: SessionReader, file: int, line: int) -> list[int]:
    """Return the nodes whose innermost user frame is this line. If there are none, return those
    whose stack passes through it.
    """
    return reader.nodes_at_source(file, line, innermost=True) or reader.nodes_at_source(file, line)


def line_nodes_at(reader: SessionReader, artifact: int, line: int) -> list[model.LineNode]:
    """Return what line ``line`` (from 1) of an artifact computes, and how that is known.

    A line of a kernel without nodes of its own (its signature, a declaration, a brace) stands for
    the whole kernel. In output code, the lines of a kernel's body are that kernel's lines, and a
    line that calls a kernel stands for that call.
    """
    own = reader.nodes_of_line(artifact, line)
    if own:
        return own
    embedded = kernel_around(reader, artifact, line)
    if embedded:
        return line_nodes_at(reader, embedded.artifact, line - embedded.first_line + 1)
    called = _nodes_of_call(reader, artifact, line)
    return called or reader.nodes_of_line(artifact, 0)


def _nodes_of_call(reader: SessionReader, output_code: int, line: int) -> list[model.LineNode]:
    """Return the nodes of the kernel call that the wrapper makes on this line."""
    calls = calls_on_line(reader, output_code, line)
    rows = [
        row
        for call, artifact in calls
        for row in reader.nodes_of_line(artifact, 0)
        if row.call in (0, call)
    ]
    return rows or [row for _, artifact in calls for row in reader.nodes_of_line(artifact, 0)]


def _nodes_of_bytecode(reader: SessionReader, place: Place) -> Iterable[int]:
    for row in reader.sources_of_line(place.document.id, place.line + 1):
        yield from nodes_at_source(reader, row.file, row.source_line)
