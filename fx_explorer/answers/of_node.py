"""Answers about the nodes of a graph, and about one node: what it came from, what became of it."""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.analysis.documents import (
    Document,
    Place,
    document_of,
)
from fx_explorer.analysis.input_names import InputNames
from fx_explorer.analysis.link_explanations import Explanation, explain
from fx_explorer.analysis.linked_lines import Selection
from fx_explorer.analysis.nested_regions import (
    describe_region,
    region_called_by,
    why_traced_again,
)
from fx_explorer.analysis.node_meta import SHOWN_AS, meta_of_node, requires_grad
from fx_explorer.analysis.words import counted, listed, value_text
from fx_explorer.answers.answer import Answer, Json, Pages
from fx_explorer.answers.references import (
    SUGGESTED,
    documents_called,
    graph_documents,
)
from fx_explorer.errors import UsageError
from fx_explorer.instruments.decisions.figures import decisions_of_node
from fx_explorer.instruments.memory.saved_readers import describe_saved_node
from fx_explorer.instruments.memory.sizes import UnknownSize, shape_bytes
from fx_explorer.instruments.passes.figures import decomposition_of, history_of_node
from fx_explorer.instruments.values.collectives import (
    collectives,
    describe_collective,
    is_communication,
)
from fx_explorer.instruments.values.figures import values_by_node
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.joined import NodeLine, origins_of_joined
from fx_explorer.session.queries.kernels import kernels_of_each
from fx_explorer.session.queries.nodes import nodes_beginning


def of_nodes(reader: SessionReader, name: str) -> Answer:
    """Return the nodes of a graph, in order. Raises UsageError unless one graph is meant."""
    document = graph_called(reader, name)
    graph = reader.get(model.Graph, document.id)
    inputs = InputNames(reader)

    def read(start: int, stop: int) -> list[Json]:
        ids = range(graph.first_node + start, graph.first_node + stop)
        nodes = sorted(reader.by_ids(model.Node, ids), key=lambda node: node.id)
        own_names = inputs.of([node for node in nodes if node.op == "placeholder"])
        rows = []
        for node in nodes:
            row = _node_row(reader, node)
            own = own_names.get(node.id)
            if own and own.name != node.name:
                row["user_name"] = own.name
            rows.append(row)
        return rows

    title = document.full_title
    calls = counted(graph.call_count, "operation")
    return Answer(
        text=f"{title} has {counted(graph.node_count, 'node')}, {calls}.",
        rows=Pages(graph.node_count, read),
        known_from="the FX graph, read while it was compiled",
        places=("at",),
        fields=(
            "name",
            "user_name",
            "target",
            "arguments",
            "value",
            "requires_grad",
            "at",
            "module",
        ),
        next=[f"graph {graph.id}", f"node NAME --match {graph.id}", f"code {document.id}"],
    )


def _node_row(reader: SessionReader, node: model.Node) -> Json:
    at = ""
    if node.file:
        path = reader.get(model.SourceFile, node.file).path
        at = f"{path}:{node.line}"
    return {
        "name": node.name,
        "op": node.op,
        "target": node.target,
        "arguments": node.arguments,
        "value": value_text(node),
        "bytes": _bytes(node),
        "stride": list(node.stride or ()),
        "device": node.device,
        "at": at,
        "module": node.module,
        "module_type": node.module_type,
        "annotations": node.annotations or {},
        "is_view": node.is_view or None,
        "requires_grad": requires_grad(reader, node),
    }


def _bytes(node: model.Node) -> int | None:
    """Return the bytes of a tensor without gaps; None for other values and symbolic sizes."""
    if node.shape is None:
        return None
    try:
        return shape_bytes(node.dtype, node.shape, {})
    except UnknownSize:
        return None


def graph_called(reader: SessionReader, name: str) -> Document:
    """Return the graph of this number, or with these words in its name. Raises UsageError unless
    there is one.
    """
    graphs = graph_documents(reader)
    fitting = documents_called(graphs, name)
    if len(fitting) == 1:
        return fitting[0]
    shown = fitting or graphs
    listed_graphs = "; ".join(f"{graph.id} {graph.full_title}" for graph in shown[:SUGGESTED])
    more = f"; {len(shown) - SUGGESTED} more" if len(shown) > SUGGESTED else ""
    if fitting:
        what = f"{name!r} matches {len(fitting)} graphs; give the number of one"
    else:
        what = f"no graph is called {name!r}; there are"
    raise UsageError(f"{what}: {listed_graphs or 'none'}{more}")


def of_node(reader: SessionReader, name: str) -> Answer:
    """Return each node of this name: its value, where it comes from, what became of it, who uses
    it. Raises UsageError where no graph has it.
    """
    nodes = reader.rows(model.Node, name=name)
    if not nodes:
        near = nodes_beginning(reader, name[:4].casefold(), SUGGESTED)
        names = dict.fromkeys(node.name for node in reader.by_ids(model.Node, near))
        also = f"; there are {', '.join(names)}" if names else ""
        raise UsageError(f"no graph has a node {name!r}{also}. find TEXT searches all names")
    rows = [_whole_node(reader, node) for node in nodes]
    text = f"{name} is in {counted(len(rows), 'graph')}"
    lines: list[str] = next((row["lines"] for row in rows if row["lines"]), [])
    if lines:
        text += f"; from {listed(lines, 4)}"
    kernels = list(dict.fromkeys(kernel for row in rows for kernel in row["kernels"]))
    if kernels:
        text += f"; computed by {listed(kernels, 3)}"
    saved = dict.fromkeys(row["saved"] for row in rows if row["saved"])
    return Answer(
        text=" ".join([f"{text}.", *saved]),
        rows=rows,
        known_from="the text in parentheses after a link's name says how the link is known",
        next=[f"kernel {kernels[0]}"] if kernels else ["graphs"],
    )


def _why(reader: SessionReader, node: model.Node) -> list[str]:
    """Return what was decided about the operations that a node became."""
    reasons = [explained.reason for explained in decisions_of_node(reader, node.id)]
    sentences = [f"{reason.text} {reason.change}".strip() for reason in reasons]
    return list(dict.fromkeys(sentences))[:MOST_REASONS]


MOST_REASONS = 8
"""Maximum number of decisions about a node that are told."""


def _decomposition(reader: SessionReader, node: model.Node) -> Json | None:
    decomposed = decomposition_of(reader, node)
    if decomposed is None:
        return None
    return {
        "operator": decomposed.operator,
        "function": decomposed.function,
        "file": decomposed.file,
        "line": decomposed.line,
        "source": reader.text(decomposed.source) if decomposed.source else "",
    }


def _whole_node(reader: SessionReader, node: model.Node) -> Json:
    document = document_of(reader, "graph", node.graph)
    place = Place(document, node.position)
    links: dict[str, list[str]] = {"from": [], "became": [], "kernel": [], "source": []}
    for explanation in explain(reader, place):
        links[explanation.relation].append(_link_text(explanation))
    below = Selection(reader, place).below
    kernels = dict.fromkeys(
        kernel.name
        for kernel in reader.by_ids(
            model.Kernel,
            sorted({k for ids in kernels_of_each(reader, below).values() for k in ids}),
        )
    )
    return {
        "graph": document.full_title,
        "number": node.graph,
        **_node_row(reader, node),
        "lines": _lines(reader, node),
        "takes": _names(reader, reader.producers(node.id)),
        "used_by": _names(reader, reader.users(node.id)),
        "stack": _stack(reader, node),
        "passes": [event.sentence for event in history_of_node(reader, node)],
        "saved": describe_saved_node(reader, node),
        "why": _why(reader, node),
        "value_facts": [value.text for value in values_by_node(reader).get(node.id, ())],
        "collective": _collective(reader, node),
        "region": _region(reader, node),
        "meta": _meta(reader, node),
        "decomposition": _decomposition(reader, node),
        "comes_from": links["from"],
        "became": links["became"],
        "kernels": list(kernels),
    }


def _lines(reader: SessionReader, node: model.Node) -> list[str]:
    """Return the user's lines that a node is from: several where a pass joined nodes to it."""
    paths = source_paths(reader)
    own = (NodeLine(node.file, node.line, node.module),) if node.file else ()
    origins = origins_of_joined(reader).get(node.id, own)
    return [f"{paths[origin.file]}:{origin.line}" for origin in origins]


def _collective(reader: SessionReader, node: model.Node) -> str:
    if not is_communication(node):
        return ""
    for collective in collectives(reader):
        wait = collective.wait
        if node.id in (collective.node.id, wait.id if wait else 0):
            return describe_collective(collective)
    return ""


def _region(reader: SessionReader, node: model.Node) -> str:
    region = region_called_by(reader, node)
    if region is None:
        return ""
    return f"{describe_region(region)} {why_traced_again(region)}".strip()


def _meta(reader: SessionReader, node: model.Node) -> dict[str, str]:
    """Return each key of ``node.meta`` with its value, or where the answer has it."""
    entries = meta_of_node(reader, node)
    return {entry.key: entry.text or f"({SHOWN_AS.get(entry.key, 'empty')})" for entry in entries}


def _stack(reader: SessionReader, node: model.Node) -> list[str]:
    """Return the lines of the user's stack, outermost first, where it has several."""
    stacks = reader.by_ids(model.Stack, [node.stack]) if node.stack else []
    frames = stacks[0].frames if stacks else ()
    if len(frames) < 2:
        return []
    return [f"{frame.file}:{frame.line} in {frame.function}" for frame in frames]


def _names(reader: SessionReader, nodes: Sequence[int]) -> list[str]:
    return [node.name for node in reader.by_ids(model.Node, nodes)]


def _link_text(explanation: Explanation) -> str:
    """Return ``add_3 in [0/0] Forward graph (the same node, …)``."""
    where = explanation.place.document.full_title
    return f"{explanation.name} in {where} ({explanation.text})"
