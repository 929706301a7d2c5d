"""The totals of a whole session that a screen always shows, counted once and the same
everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.variants.lineage import in_use
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.breaks import break_count
from fx_explorer.session.queries.compilations import (
    compilation_count,
    compile_seconds,
    recompile_count,
)
from fx_explorer.session.queries.graph.graphs import captured_graph_count
from fx_explorer.session.queries.kernel.kernels import kernel_count


@dataclass(frozen=True, slots=True)
class Totals:
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


def _skipped_records(reader: SessionReader) -> int:
    """Return the number of records that the producer skipped, and of views it failed to record."""
    return int(reader.meta("skipped_records", 0)) + reader.count(model.Failure, where="recorder")
