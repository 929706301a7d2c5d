"""The answer about a graph as a whole, folded by module."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.answers.answer import Answer
from fx_explorer.answers.of_node import graph_called, of_nodes
from fx_explorer.instruments.modules.folded_listing import (
    describe_folded,
    folded_rows,
    whole_name,
)
from fx_explorer.instruments.modules.graph_folding import folded_graph
from fx_explorer.instruments.profile.folded_times import graph_seconds
from fx_explorer.session import SessionReader


def of_graph(reader: SessionReader, name: str) -> Answer:
    """Return the rows of a graph that is folded by module; its nodes where none is in a module.
    Raises UsageError unless one graph is meant.
    """
    document = graph_called(reader, name)
    folded = folded_graph(reader, document.id)
    if not folded.has_modules:
        return of_nodes(reader, str(document.id))
    graph = reader.get(model.Graph, document.id)
    rows = folded.first_shown()
    modules = [group for group in map(folded.group, rows) if group and group.path]
    largest = max(modules, key=lambda group: (group.depth, group.node_count))
    inside = f"{largest.path}." if largest.kind == "layers" else largest.path
    return Answer(
        text=f"{document.full_title}: {describe_folded(folded)}",
        rows=folded_rows(reader, graph, folded, rows, graph_seconds(reader, graph)),
        known_from="the module in which each node was made, as torch records it; layers are "
        "compared operation by operation",
        fields=(
            "depth", "module", "node", "is", "nodes", "layers", "differ", "class", "parameters",
            "parameter_bytes", "seconds", "most_frequent", "target", "value",
        ),
        figures={"nodes": graph.node_count, "rows_of_all": len(folded.rows)},
        next=[f"nodes {graph.id} --match {inside}", f"modules --match {whole_name(largest)}"],
    )  # fmt: skip
