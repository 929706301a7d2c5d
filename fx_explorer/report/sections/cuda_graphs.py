"""The CUDA graphs that a program asked for, as the report has them."""

from __future__ import annotations

from fx_explorer.analysis.cuda_graphs import CudaGraph, Reason, cuda_graphs
from fx_explorer.session import SessionReader

Json = dict[str, object]


def cuda_graphs_of_report(reader: SessionReader) -> Json | None:
    """Return what happened to each graph; None where no CUDA graphs were asked for."""
    found = cuda_graphs(reader)
    if not found.asked and not found.graphs:
        return None
    return {
        "asked": found.asked or None,
        "has_run": found.has_run,
        "graphs": [_graph(one) for one in found.graphs],
    }


def _graph(graph: CudaGraph) -> Json:
    return {
        "graph": graph.name,
        "state": graph.state,
        "reasons": [_reason(one) for one in graph.reasons],
        "parts": graph.parts,
        "recorded": graph.recorded,
        "replayed": graph.replayed,
        "why_again": list(graph.why_again),
        "mutated": graph.mutated or None,
    }


def _reason(reason: Reason) -> Json:
    return {"reason": reason.text, "file": reason.file or None, "line": reason.line or None}
