"""Processes that the program started, in the JSON report."""

from __future__ import annotations

from fx_explorer import model

Json = dict[str, object]


def child_process(one: model.ChildProcess) -> Json:
    """Return one process, and what was compiled in it."""
    return {
        "pid": one.pid or None,
        "beginning": one.beginning,
        "command": one.command,
        "unseen": one.unseen or None,
        "compilations": one.compilations,
        "graphs": one.graphs,
        "graph_break_hits": one.graph_breaks,
        "recompiles": one.recompiles,
    }
