"""The figures of a whole session, counted once and shown everywhere alike."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.timing import compile_seconds
from fx_explorer.analysis.variants.lineage import among, in_use
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class Totals:
    compilations: int
    graphs: int
    """Graphs that Dynamo handed to the backend."""
    graph_breaks: int
    """Distinct: by the user's line and the cause."""
    graph_break_hits: int
    recompiles: int
    kernels: int
    """Generated functions and library calls; not what runs other graphs: conditionals, loops, calls of a region."""
    compile_s: float
    skipped_records: int
    """Records that could not be read or understood; shown, never hidden."""


DISTINCT_BREAK = "file, line, coalesce(nullif(registry_id, ''), reason)"
"""What makes two reported breaks the same: one line and one cause."""


_COUNTS = "compilation NOT IN (SELECT id FROM compilation WHERE status = 'restarted')"
"""An attempt that Dynamo gave up for another is shown, but not counted: torch does not count it either."""

IS_KERNEL = "coalesce(runs, '[]') IN ('[]', '')"
"""A row of kernel that runs other graphs is none: theirs are rows of their own."""

_ONCE = "branch_of = ''"
"""A compilation counts once, however many variants set out from its gates."""


def totals(reader: SessionReader) -> Totals:
    """Kernels are those of the variants in use."""
    used = in_use(reader)
    graphs = among(used.graphs if used else None, "id")
    kernels = among(used.kernels if used else None, "id")
    return Totals(
        compilations=_number(reader, f"SELECT count(*) FROM compilation WHERE status != 'restarted' AND {_ONCE}"),
        graphs=_number(reader, f"SELECT count(*) FROM graph WHERE stage = 'dynamo' AND parent = 0 AND {_COUNTS} AND {graphs}"),
        graph_breaks=_number(reader, f"SELECT count(*) FROM (SELECT DISTINCT {DISTINCT_BREAK} FROM graph_break)"),
        graph_break_hits=reader.count(model.GraphBreak),
        recompiles=_number(reader, "SELECT count(DISTINCT compilation) FROM recompile"),
        kernels=_number(reader, f"SELECT count(*) FROM kernel WHERE {IS_KERNEL} AND {_COUNTS} AND {kernels}"),
        compile_s=compile_seconds(reader),
        skipped_records=_skipped_records(reader),
    )


def operations_captured(reader: SessionReader) -> int:
    """Call nodes of all graphs that Dynamo made."""
    return _number(reader, "SELECT coalesce(sum(call_count), 0) FROM graph WHERE stage = 'dynamo' AND parent = 0")


def _number(reader: SessionReader, sql: str) -> int:
    return int(reader.query(sql)[0][0])


def _skipped_records(reader: SessionReader) -> int:
    """What the producer says it skipped, and the views it failed to record."""
    return int(reader.meta("skipped_records", 0)) + reader.count(model.Failure, where="recorder")
