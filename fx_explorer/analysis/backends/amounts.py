"""How much the operators of graphs do, and how much of that a backend supports: counted by the session, so
that the overview of a large model need not read every node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.variants.lineage import graphs_in_use
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.support import SupportCount, latest_reports, segment_counts, support_counts


@dataclass(frozen=True, slots=True)
class Amount:
    """How much some operators do."""

    count: int
    flops: int
    """Those that torch's formulas count."""
    size_bytes: int
    without_flops: int
    """Operators whose operations could not be counted."""
    without_bytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """How much of all that it was given a backend supports."""

    backend: str
    graphs: int
    is_said: bool
    """Whether anybody says what it supports."""
    whole: Amount
    supported: Amount
    unknown: Amount
    in_segments: Amount
    segments: int | None
    """None where it is not known which there are."""


def reports_in_use(reader: SessionReader) -> list[model.SupportReport]:
    """Return the last report of each graph that is in use."""
    used = graphs_in_use(reader)
    return [one for one in latest_reports(reader) if used is None or one.graph in used]


def summaries(reader: SessionReader) -> list[Summary]:
    """Return a summary for each backend that was given a graph; none for Inductor."""
    reports = reports_in_use(reader)
    if not reports:
        return []
    counts, segments = support_counts(reader), segment_counts(reader)
    backends = dict.fromkeys(one.backend for one in reports)
    return [_summary(backend, [one for one in reports if one.backend == backend], counts, segments) for backend in backends]


def _summary(backend: str, reports: list[model.SupportReport], counts: list[SupportCount], segments: dict[int, int]) -> Summary:
    ids = {one.id for one in reports}
    own = [one for one in counts if one.report in ids]

    def amount(is_wanted: Callable[[SupportCount], bool]) -> Amount:
        return _added(one for one in own if is_wanted(one))

    return Summary(
        backend,
        len(reports),
        any(one.said_by != "nobody" for one in reports),
        amount(lambda one: True),
        amount(lambda one: one.support == "supported"),
        amount(lambda one: one.support == "unknown"),
        amount(lambda one: one.is_in_segment),
        sum(segments.get(one.id, 0) for one in reports) if any(one.is_partitioned for one in reports) else None,
    )


def _added(counts: Iterable[SupportCount]) -> Amount:
    every = list(counts)
    columns = zip(
        *((one.operators, one.flops, one.size_bytes, one.without_flops, one.without_bytes) for one in every), strict=True
    )
    return Amount(*(sum(column) for column in columns)) if every else Amount(0, 0, 0, 0, 0)
