"""A pane: a graph in the language of Graphviz, each line linked to its node."""

from __future__ import annotations

import json

from fx_explorer.plugins import GraphPane, PaneText, SessionReader, model


def write_dot(reader: SessionReader, graph: model.Graph) -> PaneText:
    """Return ``digraph { x -> add; … }``, with a line for each node and one for each edge."""
    nodes = {node.id: node for node in reader.nodes(graph)}
    lines = ["digraph {"]
    node_of_line: dict[int, int] = {}
    for node in nodes.values():
        node_of_line[len(lines)] = node.id
        label = json.dumps(f"{node.name}: {node.target}")
        lines.append(f"  {node.name} [label={label}];")
    for node in nodes.values():
        producers = [nodes[producer].name for producer in reader.producers(node.id)]
        lines += [f"  {producer} -> {node.name};" for producer in producers]
    lines.append("}")
    return PaneText(lines=tuple(lines), node_of_line=node_of_line)


DOT = GraphPane(interface=1, title="as DOT", write=write_dot)
