"""The figures of a whole session, counted once and shown everywhere alike."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.timing import compile_seconds
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
    """Generated functions and library calls."""
    compile_s: float
    skipped_records: int
    """Records that could not be read or understood; shown, never hidden."""


DISTINCT_BREAK = "file, line, coalesce(nullif(registry_id, ''), reason)"
"""What makes two reported breaks the same: one line and one cause."""


_COUNTS = "compilation NOT IN (SELECT id FROM compilation WHERE status = 'restarted')"
"""An attempt that Dynamo gave up for another is shown, but not counted: torch does not count it either."""


def totals(reader: SessionReader) -> Totals:
    return Totals(
        compilations=_number(reader, "SELECT count(*) FROM compilation WHERE status != 'restarted'"),
        graphs=_number(reader, f"SELECT count(*) FROM graph WHERE stage = 'dynamo' AND parent = 0 AND {_COUNTS}"),
        graph_breaks=_number(reader, f"SELECT count(*) FROM (SELECT DISTINCT {DISTINCT_BREAK} FROM graph_break)"),
        graph_break_hits=reader.count(model.GraphBreak),
        recompiles=_number(reader, "SELECT count(DISTINCT compilation) FROM recompile"),
        kernels=_number(reader, f"SELECT count(*) FROM kernel WHERE {_COUNTS}"),
        compile_s=compile_seconds(reader),
        skipped_records=_skipped_records(reader),
    )


def _number(reader: SessionReader, sql: str) -> int:
    return int(reader.query(sql)[0][0])


def _skipped_records(reader: SessionReader) -> int:
    """What the producer says it skipped, and the views it failed to record."""
    return int(reader.meta("skipped_records", 0)) + reader.count(model.Failure, where="recorder")
