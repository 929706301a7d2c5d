"""This module finds the nodes of a place: the row of a graph, a source line, a line of a kernel
(also the user's own), of output code, of bytecode; and the same place in a newer session.

This is the first half of following a link; ``linked_lines.py`` continues from the nodes to every
other document.
"""

from __future__ import annotations

from collections.abc import Iterable

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    document_of,
    documents_but_kernels,
    documents_of,
    graph_form,
    is_of_graph,
    node_at,
    place_of_row,
    place_of_source,
    source_document,
)
from fx_explorer.analysis.graph_texts import is_form
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import kernels_of
from fx_explorer.session.queries.links import calls_on_line, descendants, kernel_around


def lines_of_users_kernel(reader: SessionReader, place: Place) -> list[model.LineSource]:
    """Return where a line of the user's file was copied to, or where a line of a kernel was copied
    from, also if the kernel is inside output code. Empty for other lines.
    """
    document, line = place.document, place.line + 1
    if document.kind == "source":
        return reader.rows(model.LineSource, file=document.id, source_line=line, how="copied")
    if document.kind != "artifact":
        return []
    artifact = document.id
    if document.stage == "output_code" and (kernel := kernel_around(reader, document.id, line)):
        artifact, line = kernel.artifact, line - kernel.first_line + 1
    sources = reader.sources_of_line(artifact, line)
    return [row for row in sources if row.line == line and row.how == "copied"]


def callers(reader: SessionReader, lines: Iterable[model.LineSource]) -> list[int]:
    """Return the ids of the nodes that call the kernels of these lines."""
    nodes: set[int] = set()
    for artifact in {line.artifact for line in lines}:
        nodes.update(row.node for row in reader.nodes_of_line(artifact, 0))
    return sorted(nodes)


def place_of_users_kernel(reader: SessionReader, lines: Iterable[model.LineSource]) -> Place | None:
    """Return the place of the first of these lines in the user's own kernel source."""
    first = next(iter(lines), None)
    if first is None:
        return None
    return place_of_source(reader, first.file, first.source_line)


def definition(reader: SessionReader, artifact: int) -> Place | None:
    """Return the ``def`` of a kernel of the user's. None for a kernel that torch made."""
    return place_of_users_kernel(
        reader, reader.rows(model.LineSource, artifact=artifact, how="copied", limit=1)
    )


def copies(
    reader: SessionReader, lines: Iterable[model.LineSource]
) -> list[tuple[model.Kernel, Place]]:
    places = []
    for line in lines:
        for kernel in reader.rows(model.Kernel, artifact=line.artifact, limit=1):
            document = document_of(reader, "artifact", line.artifact)
            places.append((kernel, Place(document, line.line - 1)))
    return places


def nodes_at(reader: SessionReader, place: Place) -> list[int]:
    """Return the ids of the nodes at a place, in the order of the file. For a line of a user's
    Triton kernel they are the nodes of its calls.
    """
    document = place.document
    if document.kind == "graph":
        graph = reader.get(model.Graph, document.id)
        if not 0 <= place.line < graph.node_count:
            return []
        return [graph.first_node + place.line]
    if is_form(document.kind):
        node = node_at(reader, place)
        return [node.id] if node else []
    if document.kind == "source":
        nodes = nodes_at_source(reader, document.id, place.line + 1)
        return nodes or callers(reader, lines_of_users_kernel(reader, place))
    computed = {row.node for row in line_nodes_at(reader, document.id, place.line + 1)}
    return sorted(computed | set(_nodes_of_bytecode(reader, place)))


def nodes_at_source(reader: SessionReader, file: int, line: int) -> list[int]:
    """Return the nodes whose innermost user frame is this line. Without any, return those whose
    stack passes through it.
    """
    return reader.nodes_at_source(file, line, innermost=True) or reader.nodes_at_source(file, line)


def line_nodes_at(reader: SessionReader, artifact: int, line: int) -> list[model.LineNode]:
    """Return the nodes that line ``line`` (from 1) of an artifact computes, with the evidence.

    A line of a kernel without nodes of its own (its signature, a declaration, a brace) stands for
    the whole kernel. In output code, the lines of a kernel's body are that kernel's lines, and a
    line that calls a kernel stands for that call.
    """
    of_line = reader.nodes_of_line(artifact, line)
    if of_line:
        return of_line
    embedded = kernel_around(reader, artifact, line)
    if embedded:
        return line_nodes_at(reader, embedded.artifact, line - embedded.first_line + 1)
    called = _nodes_of_call(reader, artifact, line)
    return called or reader.nodes_of_line(artifact, 0)


def _nodes_of_call(reader: SessionReader, output_code: int, line: int) -> list[model.LineNode]:
    """Return the nodes of the kernel call that the wrapper makes on this line."""
    of_this_call = []
    of_all = []
    for call, artifact in calls_on_line(reader, output_code, line):
        rows = reader.nodes_of_line(artifact, 0)
        of_all += rows
        of_this_call += [row for row in rows if row.call in (0, call)]
    return of_this_call or of_all


def _nodes_of_bytecode(reader: SessionReader, place: Place) -> Iterable[int]:
    for row in reader.sources_of_line(place.document.id, place.line + 1):
        yield from nodes_at_source(reader, row.file, row.source_line)


def library_at(reader: SessionReader, place: Place) -> model.Kernel | None:
    """Return the library call on a line, else the first library call that computes the
    selection.
    """
    nodes = sorted(descendants(reader, nodes_at(reader, place)))
    kernels = [kernel for kernel in kernels_of(reader, nodes) if kernel.language == "extern"]
    for kernel in kernels:
        if is_call_of(kernel, place):
            return kernel
    return kernels[0] if kernels else None


def is_call_of(kernel: model.Kernel, place: Place) -> bool:
    """Return whether this is the line of the output code that calls ``kernel``."""
    is_there = place.document.kind == "artifact" and place.document.id == kernel.output_code
    return is_there and place.line + 1 == kernel.first_line


def same_place(old: SessionReader, place: Place, new: SessionReader) -> Place | None:
    """Return the same place in ``new``; None if the document does not exist there.

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
    """Return the corresponding document of another session; None without one."""
    if document.kind == "source":
        path = old.get(model.SourceFile, document.id).path
        source_files = new.rows(model.SourceFile, path=path, limit=1)
        if source_files:
            return source_document(source_files[0])
        return None
    of_graph = is_of_graph(document.kind)
    kind = "graph" if of_graph else document.kind
    shown = document_of(old, kind, document.id)
    compilations = new.rows(model.Compilation, name=shown.owner, limit=1)
    if not compilations:
        return None
    if shown.stage == "kernel":
        documents = documents_of(new, compilations[0])
    else:
        documents = documents_but_kernels(new, compilations[0])
    alike = _alike(shown, documents)
    if alike and of_graph:
        return graph_form(alike, document.kind)
    return alike


def _stands_for(document: Document) -> tuple[str, str | None, str, str]:
    return document.kind, document.stage, document.direction, document.language


def _alike(wanted: Document, documents: Iterable[Document]) -> Document | None:
    """Return the document of the same stage, direction and kind; among several (kernels), the one
    with the same title.
    """
    peers = [document for document in documents if _stands_for(document) == _stands_for(wanted)]
    for peer in peers:
        if peer.title == wanted.title:
            return peer
    return peers[0] if peers else None


def _row_of_name(reader: SessionReader, document: Document, name: str) -> int | None:
    nodes = reader.rows(model.Node, graph=document.id, name=name, limit=1)
    return nodes[0].position if nodes else None
