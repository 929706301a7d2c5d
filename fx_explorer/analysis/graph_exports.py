"""This module writes a graph for programs that draw or analyze graphs: DOT (Graphviz), GraphML
(networkx, yEd, Gephi) and the JSON of Model Explorer, where the module path is the namespace.

Each node has its operation, value, module, source line and kernel, as the app shows them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.graph_uses import uses_in_graph
from fx_explorer.analysis.words import value_text
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.kernels import kernels_of_each


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node as other programs get it."""

    id: int
    name: str
    operation: str
    value: str
    module: str
    source: str
    """``model.py:32``; empty where it is not known."""
    kernel: str
    """Names of the kernels that compute it, with commas."""

    @property
    def attributes(self) -> dict[str, str]:
        """Return what is known of it besides its name."""
        known = {
            "operation": self.operation,
            "value": self.value,
            "module": self.module,
            "source": self.source,
            "kernel": self.kernel,
        }
        return {name: text for name, text in known.items() if text}


def graph_nodes(reader: SessionReader, graph: model.Graph) -> Iterator[GraphNode]:
    """Yield the nodes of a graph in order."""
    nodes = reader.nodes(graph)
    paths = source_paths(reader)
    kernels = kernels_of_each(reader, [node.id for node in nodes])
    names = {row.id: row.name for row in reader.rows(model.Kernel, compilation=graph.compilation)}
    for node in nodes:
        source = in_file(paths[node.file], node.line) if node.file in paths else ""
        of_node = [names[kernel] for kernel in kernels.get(node.id, ()) if kernel in names]
        yield GraphNode(
            node.id,
            printable(node.name),
            printable(node.target if node.op.startswith("call") else node.op),
            printable(value_text(node)),
            printable(node.module),
            printable(source),
            printable(", ".join(of_node)),
        )


def graph_as_dot(reader: SessionReader, graph: model.Graph, origin: str) -> str:
    """Return the graph as DOT, one cluster for each module."""
    lines = [f"// {origin}", "digraph {", "  rankdir=TB; node [shape=box, fontname=monospace];"]
    by_module: dict[str, list[GraphNode]] = {}
    for node in graph_nodes(reader, graph):
        by_module.setdefault(node.module, []).append(node)
    for number, (module, nodes) in enumerate(by_module.items()):
        inside = [f"  {_dot_node(node)}" for node in nodes]
        if module:
            label = f"    label={_quoted(module)};"
            inside = [f"  subgraph cluster_{number} {{", label, *map("  {}".format, inside), "  }"]
        lines += inside
    for producer, consumer in uses_in_graph(reader, graph, reader.nodes(graph)):
        lines.append(f"  n{producer} -> n{consumer};")
    return "\n".join([*lines, "}"]) + "\n"


def _dot_node(node: GraphNode) -> str:
    label = "\n".join(filter(None, (node.name, node.operation, node.value)))
    tooltip = "\n".join(filter(None, (node.source, node.kernel)))
    attributes = [f"label={_quoted(label)}"]
    if tooltip:
        attributes.append(f"tooltip={_quoted(tooltip)}")
    return f"n{node.id} [{', '.join(attributes)}];"


def _quoted(text: str) -> str:
    """Return a text as a quoted string of DOT, with a line break for each newline."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_NOT_IN_XML = {0xFFFE: "\\ufffe", 0xFFFF: "\\uffff"}
"""The characters that ``printable`` leaves and XML does not allow, as Python writes them."""


def graph_as_graphml(reader: SessionReader, graph: model.Graph, origin: str) -> str:
    """Return the graph as GraphML. Raises UsageError where networkx is not installed."""
    try:
        import networkx
    except ImportError as error:
        raise UsageError(
            "GraphML is written with networkx, which is not installed: pip install networkx. "
            "--format dot needs no library"
        ) from error
    directed = networkx.DiGraph()
    for node in graph_nodes(reader, graph):
        known = {"name": node.name, **node.attributes}
        allowed = {key: text.translate(_NOT_IN_XML) for key, text in known.items()}
        directed.add_node(f"n{node.id}", **allowed)
    for producer, consumer in uses_in_graph(reader, graph, reader.nodes(graph)):
        directed.add_edge(f"n{producer}", f"n{consumer}")
    body = "\n".join(networkx.generate_graphml(directed))
    comment = origin.replace("--", "—")
    return f'<?xml version="1.0" encoding="utf-8"?>\n<!-- {comment} -->\n{body}\n'


def graph_for_model_explorer(reader: SessionReader, graph: model.Graph, origin: str) -> str:
    """Return the graph as Model Explorer reads it (``GraphCollection``), to be opened there or by
    ``model-explorer FILE.json``.
    """
    incoming: dict[int, list[int]] = {}
    for producer, consumer in uses_in_graph(reader, graph, reader.nodes(graph)):
        incoming.setdefault(consumer, []).append(producer)
    nodes = []
    for node in graph_nodes(reader, graph):
        attributes = [{"key": key, "value": text} for key, text in node.attributes.items()]
        edges = [
            {"sourceNodeId": str(producer), "sourceNodeOutputId": "0", "targetNodeInputId": str(at)}
            for at, producer in enumerate(incoming.get(node.id, ()))
        ]
        nodes.append(
            {
                "id": str(node.id),
                "label": node.operation or node.name,
                "namespace": node.module.replace(".", "/"),
                "attrs": [{"key": "name", "value": node.name}, *attributes],
                "incomingEdges": edges,
            }
        )
    collection = {"label": origin, "graphs": [{"id": f"graph {graph.id}", "nodes": nodes}]}
    return json.dumps(collection, indent=1) + "\n"
