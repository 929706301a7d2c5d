"""Guards, and the checks that torch runs for them."""

from __future__ import annotations

from dataclasses import dataclass

from fx_explorer.session.queries.sql import column, number
from fx_explorer.session.reader import SessionReader

_LEFT = "SELECT * FROM guard WHERE dropped_by = ''"
"""The guards that no filter dropped."""


def check_count(reader: SessionReader, compilation: int | None = None) -> int:
    """Return how many checks torch runs for compiled code: the leaves of its guard trees, each
    once. A guard that Dynamo asked for may have several, or none of its own; where the tree is not
    known (a session of old), the guards are counted.
    """
    condition, values = _of(compilation)
    checks = (
        "SELECT count(*) FROM (SELECT DISTINCT compilation, kind, source, code FROM guard_check"
        + condition
        + ")"
    )
    left = f"SELECT count(*) FROM ({_LEFT}){condition}"
    return number(reader, checks, *values) or number(reader, left, *values)


def guard_kind_counts(reader: SessionReader, compilation: int | None = None) -> dict[str, int]:
    """Return how many guards of each kind there are, the most frequent first; of one compilation,
    or of all. What a filter dropped is left out.
    """
    condition, values = _of(compilation)
    return dict(
        reader.query(
            f"SELECT kind, count(*) FROM ({_LEFT}){condition} GROUP BY kind ORDER BY 2 DESC, 1",
            values,
        )
    )


@dataclass(frozen=True, slots=True)
class Filtered:
    """What a guard filter did to a program."""

    filter: str
    dropped: int
    """Guards that nothing checks any more."""
    guards: int
    """Guards that Dynamo asked for, of the compilations that the filter was there for."""


def filtered(reader: SessionReader, compilation: int | None = None) -> list[Filtered]:
    """Return the filters that dropped guards of a compilation, or of any."""
    condition, values = _of(compilation)
    counts = (
        f"SELECT compilation, dropped_by AS filter, count(*) AS number FROM guard{condition} "
        "GROUP BY 1, 2"
    )
    whole = f"SELECT compilation, count(*) AS number FROM guard{condition} GROUP BY 1"
    rows = reader.query(
        f"SELECT filter, sum(counts.number), sum(whole.number) FROM ({counts}) AS counts "
        f"JOIN ({whole}) AS whole USING (compilation) WHERE filter != '' GROUP BY 1 ORDER BY 1",
        (*values, *values),
    )
    return [Filtered(*row) for row in rows]


def guard_kinds_of(reader: SessionReader, compilation: int) -> dict[int, str]:
    """Return the kind of each guard of a compilation, by the id of the guard."""
    return dict(reader.query("SELECT id, kind FROM guard WHERE compilation=?", (compilation,)))


def checked_tensors(reader: SessionReader, compilation: int) -> list[tuple[str, str | None]]:
    """Return the tensors that a compilation checks: torch's name for each, and what it was then
    (``f32[4, 64]``).
    """
    return reader.query(
        "SELECT source, value FROM guard_check WHERE compilation=? AND kind='TENSOR_MATCH'",
        (compilation,),
    )


def _of(compilation: int | None) -> tuple[str, tuple[int, ...]]:
    return ("", ()) if compilation is None else (" WHERE compilation=?", (compilation,))


def guarded_sources(reader: SessionReader) -> list[str]:
    """Return what guards look at, in torch's words:
    ``L['self']._modules['fc']._parameters['weight']``.
    """
    return column(
        reader,
        "SELECT source FROM guard WHERE source != '' UNION SELECT source FROM "
        "guard_check WHERE source != ''",
    )
