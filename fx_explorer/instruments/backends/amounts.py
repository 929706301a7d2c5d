"""This module adds up the work of the operators of graphs, and the part that a backend supports.
The session counts, so that the overview of a large model need not read every node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import graphs_in_use, root_name, variants_in_use
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.regions import (
    SupportCount,
    latest_reports,
    segment_counts,
    support_counts,
)


@dataclass(frozen=True, slots=True)
class Amount:
    """Number, work and bytes of some operators."""

    count: int
    flops: int
    """Arithmetic operations, of the operators for which torch has formulas."""
    size_bytes: int
    without_flops: int
    """Operators whose operations could not be counted."""
    without_bytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The amounts of operators that one backend supports, and of all operators in its graphs."""

    backend: str
    graphs: int
    is_said: bool
    """Whether the backend, or torch's partitioner, reported what is supported."""
    whole: Amount
    supported: Amount
    unknown: Amount
    in_segments: Amount
    segments: int | None
    """Number of segments; None where it is not known."""


def reports_in_use(reader: SessionReader) -> list[model.SupportReport]:
    """Return the last report of each graph in use, by the backend in use. Variants share graphs,
    and each asks its own backend.
    """
    used, latest = graphs_in_use(reader), latest_reports(reader)
    if used is None:
        return latest
    rows = {compilation.id: compilation for compilation in reader.rows(model.Compilation)}
    backends = {
        root_name(compilation.name): compilation.backend for compilation in variants_in_use(reader)
    }

    def is_in_use(report: model.SupportReport) -> bool:
        row = rows.get(report.compilation)
        return (
            report.graph in used
            and row is not None
            and report.backend == backends.get(root_name(row.name))
        )

    # The last one that asks the same backend; dictionaries keep the order of the graphs.
    return list({report.graph: report for report in latest if is_in_use(report)}.values())


def reports_to_show(reader: SessionReader) -> list[model.SupportReport]:
    """Return the reports in use, else those of unused variants: the user may have continued with
    another backend after the program had run with Inductor.
    """
    return reports_in_use(reader) or latest_reports(reader)


def summaries(reader: SessionReader) -> list[Summary]:
    """Return a summary for each backend in use that was given a graph; none for Inductor."""
    return summaries_of(reader, reports_in_use(reader))


def summaries_of(reader: SessionReader, reports: list[model.SupportReport]) -> list[Summary]:
    """Return a summary for each backend that these reports are of."""
    if not reports:
        return []
    counts, segments = support_counts(reader), segment_counts(reader)
    backends = dict.fromkeys(report.backend for report in reports)
    summaries = []
    for backend in backends:
        of_backend = [report for report in reports if report.backend == backend]
        summaries.append(_summary(backend, of_backend, counts, segments))
    return summaries


def _summary(
    backend: str,
    reports: list[model.SupportReport],
    counts: list[SupportCount],
    segments: dict[int, int],
) -> Summary:
    ids = {report.id for report in reports}
    of_reports = [count for count in counts if count.report in ids]
    number_of_segments = None
    if any(report.is_partitioned for report in reports):
        number_of_segments = sum(segments.get(report.id, 0) for report in reports)

    def amount(is_wanted: Callable[[SupportCount], bool]) -> Amount:
        return _added(count for count in of_reports if is_wanted(count))

    return Summary(
        backend,
        len(reports),
        any(report.said_by != "nobody" for report in reports),
        amount(lambda count: True),
        amount(lambda count: count.support == "supported"),
        amount(lambda count: count.support == "unknown"),
        amount(lambda count: count.is_in_segment),
        number_of_segments,
    )


def _added(counts: Iterable[SupportCount]) -> Amount:
    every = list(counts)
    columns = zip(
        *(
            (row.operators, row.flops, row.size_bytes, row.without_flops, row.without_bytes)
            for row in every
        ),
        strict=True,
    )
    if every:
        return Amount(*(sum(column) for column in columns))
    return Amount(0, 0, 0, 0, 0)
