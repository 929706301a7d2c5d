"""What a backend supports, as facts for the overview."""

from __future__ import annotations

from collections.abc import Iterator

from fx_explorer.analysis.backends.support import backend_support
from fx_explorer.analysis.backends.verdict import SHORT, verdict
from fx_explorer.analysis.facts import Fact
from fx_explorer.session import SessionReader


def support_facts(reader: SessionReader) -> Iterator[Fact]:
    """Yield the first sentences of the verdict; nothing where every graph went to Inductor."""
    graphs = backend_support(reader)
    rests = any(one.row.support == "falls_back" or graph.report.notes for graph in graphs for one in graph.nodes)
    for sentence in verdict(graphs)[:SHORT]:
        yield Fact("backend", "notice" if rests else "good", sentence, view="support")
