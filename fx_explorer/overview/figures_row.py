"""The figures of a session that its first page shows in one row: how many graphs, breaks,
recompiles, guards and kernels, how much is saved for the backward, how long compiling took.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.whole_session import totals
from fx_explorer.analysis.words import seconds, size
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.memory.saved_values import saved_total
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import check_count, compile_seconds

MOST_PARTS = 5
"""Maximum number of bars of a figure: the largest parts stand for themselves."""


@dataclass(frozen=True, slots=True)
class FigureInRow:
    """One figure, and its parts."""

    label: str
    value: str
    parts: tuple[float, ...] = ()
    """Amount of each part, largest first: operations of each graph, seconds of each function."""


def figures_row(reader: SessionReader) -> list[FigureInRow]:
    """Return the figures of a session that has graphs; empty for another one."""
    if not totals(reader).graphs:
        return []
    return list(_figures(reader))


def _figures(reader: SessionReader) -> Iterator[FigureInRow]:
    whole = totals(reader)
    compilations = variants_in_use(reader)
    graphs = [graph.call_count for graph in reader.rows(model.Graph, stage="dynamo", parent=0)]
    yield FigureInRow("graphs", f"{whole.graphs:,}", _largest(graphs))
    hits = [graph_break.count for graph_break in distinct_breaks(reader)]
    yield FigureInRow("breaks", f"{whole.graph_breaks:,}", _largest(hits))
    yield FigureInRow("recompiles", f"{whole.recompiles:,}")
    guards = [check_count(reader, compilation.id) for compilation in compilations[:MOST_READ]]
    yield FigureInRow("guards", f"{check_count(reader):,}", _largest(guards))
    kernels = [
        reader.count(model.Kernel, compilation=compilation.id)
        for compilation in compilations[:MOST_READ]
    ]
    yield FigureInRow("kernels", f"{whole.kernels:,}", _largest(kernels))
    saved = saved_total(reader).size_bytes
    yield FigureInRow("saved", size(saved) if saved else "–")
    times = [compile_seconds(reader, compilation.id) for compilation in compilations[:MOST_READ]]
    yield FigureInRow("compiling", seconds(whole.compile_s), _largest(times))


MOST_READ = 50
"""Maximum number of compilations whose parts are read; of more, the bars are those of the first."""


def _largest(amounts: list[int] | list[float]) -> tuple[float, ...]:
    """Return the largest amounts that are not zero; none where there is only one."""
    parts = sorted((amount for amount in amounts if amount), reverse=True)
    return tuple(parts[:MOST_PARTS]) if len(parts) > 1 else ()
