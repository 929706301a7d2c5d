"""This module makes the JSON of what passes changed."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.documents import document_of
from fx_explorer.instruments.passes.figures import describe_pass, passes_by_graph
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import source_paths


def changes_of_report(reader: SessionReader) -> list[dict[str, object]]:
    """Return one object for each node that a pass made, changed or removed, in order."""
    rows: list[dict[str, object]] = []
    lines = _LinesOfNodes(reader)
    for passes in passes_by_graph(reader):
        document = document_of(reader, "graph", passes.graph.id)
        title = document.full_title
        for step in passes.steps:
            rows += [_change(reader, title, passes.graph, change, lines) for change in step.changes]
    return rows


class _LinesOfNodes:
    """The user's lines of nodes that passes changed. A node that is not there at the end is the one
    of that name in the graph that the stage began with: it was copied with its names.
    """

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._paths = source_paths(reader)
        self._by_name: dict[tuple[int, str], dict[str, str]] = {}

    def of(self, graph: model.Graph, change: model.PassChange) -> list[str]:
        """Return ``/models/net.py:12`` for the node and for those it replaced, each once."""
        by_name = self._of_graphs(graph)
        lines = [self._line(node) for node in self._reader.by_ids(model.Node, [change.node])]
        lines += [by_name.get(name, "") for name in (change.name, *change.replaced)]
        return [line for line in dict.fromkeys(lines) if line]

    def _of_graphs(self, graph: model.Graph) -> dict[str, str]:
        """Return name → line of the nodes of a graph, and of the earlier graphs of its compilation
        and direction.
        """
        key = (graph.compilation, graph.direction)
        if key not in self._by_name:
            names: dict[str, str] = {}
            for earlier in self._reader.rows(model.Graph, compilation=graph.compilation):
                if earlier.direction in ("", graph.direction) or earlier.stage == "joint":
                    for node in self._reader.rows(model.Node, graph=earlier.id):
                        names[node.name] = self._line(node) or names.get(node.name, "")
            self._by_name[key] = names
        return self._by_name[key]

    def _line(self, node: model.Node) -> str:
        if node.file not in self._paths or not node.line:
            return ""
        return f"{self._paths[node.file]}:{node.line}"


def _change(
    reader: SessionReader,
    title: str,
    graph: model.Graph,
    change: model.PassChange,
    lines: _LinesOfNodes,
) -> dict[str, object]:
    return {
        "graph": title,
        "pass": describe_pass(reader, graph, change),
        "pattern": change.pattern,
        "did": "removed" if change.kind == "erased" else change.kind,
        "node": change.name,
        "before": change.before,
        "after": change.after,
        "replaced": list(change.replaced),
        "in_graph": change.node != 0,
        "lines": lines.of(graph, change),
    }
