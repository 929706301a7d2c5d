"""The figures of a whole session, for comparing one capture with another. Figures that a screen
always shows are in totals.py, which is cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.whole_session.totals import totals
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graph.graphs import captured_operations
from fx_explorer.session.queries.guards import check_count


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """Figures by which two captures are compared. Those that ``Totals`` counts stand among them
    under the same names, so that each figure is asked for by one name.
    """

    compilations: int
    compiled: int
    """Compilations that produced code, in full or up to a graph break."""
    left_to_python: int
    """Functions that Dynamo looked at and did not compile."""
    recompiles: int
    graphs: int
    operations: int
    """Call nodes of Dynamo's graphs."""
    graph_breaks: int
    """Distinct graph breaks, by the user's line and the cause."""
    graph_break_hits: int
    guards: int
    free_sizes: int
    """Sizes and numbers that stay free."""
    fixed_sizes: int
    """Sizes and numbers that were dynamic and became a constant."""
    kernels: int
    compile_s: float
    failed: tuple[str, ...] = ()
    """The type of the error, of each time that the compiler failed. The program may have caught it."""


def session_figures(reader: SessionReader) -> SessionFigures:
    """Count the figures of a session."""
    counted = totals(reader)
    symbols = [row for row in reader.rows(model.Symbol) if row.final_range]
    return SessionFigures(
        compilations=counted.compilations,
        compiled=sum(reader.count(model.Compilation, status=status) for status in ("ok", "broke")),
        left_to_python=reader.count(model.Compilation, status="skipped"),
        recompiles=counted.recompiles,
        graphs=counted.graphs,
        operations=captured_operations(reader),
        graph_breaks=counted.graph_breaks,
        graph_break_hits=counted.graph_break_hits,
        guards=check_count(reader),
        free_sizes=sum(not row.became for row in symbols),
        fixed_sizes=sum(bool(row.became) for row in symbols),
        kernels=counted.kernels,
        compile_s=counted.compile_s,
        failed=tuple(row.kind for row in reader.rows(model.Failure, where="compiler")),
    )
