"""This module makes the JSON of what passes changed."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.documents import document_of
from fx_explorer.instruments.passes.figures import describe_pass, passes_by_graph
from fx_explorer.session import SessionReader


def changes_of_report(reader: SessionReader) -> list[dict[str, object]]:
    """Return one object for each node that a pass made, changed or removed, in order."""
    rows: list[dict[str, object]] = []
    for passes in passes_by_graph(reader):
        document = document_of(reader, "graph", passes.graph.id)
        title = document.full_title
        for step in passes.steps:
            rows += [_change(reader, title, passes.graph, change) for change in step.changes]
    return rows


def _change(
    reader: SessionReader, title: str, graph: model.Graph, change: model.PassChange
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
    }
