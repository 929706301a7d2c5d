"""The figures of a whole session, counted once and the same everywhere: those that a screen always
shows, which are cheap, and those by which one capture is compared with another.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from fx_explorer import model
from fx_explorer.analysis.variants.lineage import in_use
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.breaks import break_count
from fx_explorer.session.queries.compilations import (
    compilation_count,
    compile_seconds,
    recompile_count,
)
from fx_explorer.session.queries.graph.graphs import captured_graph_count, captured_operations
from fx_explorer.session.queries.guards import check_count
from fx_explorer.session.queries.kernel.kernels import kernel_count


@dataclass(frozen=True, slots=True)
class Totals:
    """The figures that a screen always shows. They are cheap to count."""

    compilations: int
    graphs: int
    """How many graphs Dynamo gave to the backend."""
    graph_breaks: int
    """Distinct graph breaks, by the user's line and the cause."""
    graph_break_hits: int
    recompiles: int
    kernels: int
    """Generated functions and library calls, without what runs other graphs (conditionals, loops,
    calls of a region).
    """
    compile_s: float
    skipped_records: int
    """How many records could not be read or understood. They are shown, never hidden."""


@dataclass(frozen=True, slots=True)
class SessionFigures(Totals):
    """The figures by which two captures are compared: the totals, and what takes longer to count."""

    compiled: int
    """Compilations that produced code, in full or up to a graph break."""
    left_to_python: int
    """Functions that Dynamo looked at and did not compile."""
    operations: int
    """Call nodes of Dynamo's graphs."""
    guards: int
    free_sizes: int
    """Sizes and numbers that stay free."""
    fixed_sizes: int
    """Sizes and numbers that were dynamic and became a constant."""
    failed: tuple[str, ...] = ()
    """The type of the error, of each time that the compiler failed. The program may have caught it."""


def totals(reader: SessionReader) -> Totals:
    """Count the figures. Kernels are those of the variants in use."""
    used = in_use(reader)
    return Totals(
        compilations=compilation_count(reader),
        graphs=captured_graph_count(reader, used.graphs if used else None),
        graph_breaks=break_count(reader),
        graph_break_hits=reader.count(model.GraphBreak),
        recompiles=recompile_count(reader),
        kernels=kernel_count(reader, used.kernels if used else None),
        compile_s=compile_seconds(reader),
        skipped_records=_skipped_records(reader),
    )


def session_figures(reader: SessionReader) -> SessionFigures:
    """Count the figures of a session."""
    symbols = [row for row in reader.rows(model.Symbol) if row.final_range]
    return SessionFigures(
        **asdict(totals(reader)),
        compiled=sum(reader.count(model.Compilation, status=status) for status in ("ok", "broke")),
        left_to_python=reader.count(model.Compilation, status="skipped"),
        operations=captured_operations(reader),
        guards=check_count(reader),
        free_sizes=sum(not row.became for row in symbols),
        fixed_sizes=sum(bool(row.became) for row in symbols),
        failed=tuple(row.kind for row in reader.rows(model.Failure, where="compiler")),
    )


def _skipped_records(reader: SessionReader) -> int:
    """Return the number of records that the producer skipped, and of views it failed to record."""
    return int(reader.meta("skipped_records", 0)) + reader.count(model.Failure, where="recorder")
