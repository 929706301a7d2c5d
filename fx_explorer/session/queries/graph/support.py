"""What backends support of graphs: the reports there are, and what they say of nodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.session.queries.sql import IS_COUNTED, column, json_list
from fx_explorer.session.reader import SessionReader


def latest_reports(reader: SessionReader) -> list[model.SupportReport]:
    """Return the last report of each graph by each variant that has it, in the order of the graphs.
    Attempts that Dynamo gave up are left out.
    """
    latest = (
        f"SELECT max(id) FROM support_report WHERE {IS_COUNTED} GROUP BY graph, compilation "
        "ORDER BY graph, max(id)"
    )
    return reader.by_ids(model.SupportReport, column(reader, latest))


class SupportCount(NamedTuple):
    """The operators of one report with the same support, in segments or not."""

    report: int
    support: model.Support
    is_in_segment: bool
    operators: int
    flops: int
    size_bytes: int
    without_flops: int
    without_bytes: int


def support_counts(reader: SessionReader) -> list[SupportCount]:
    """Count the operators of every report, without a look at each of them."""
    unknown = "(read_bytes < 0 OR written_bytes < 0)"
    # Reals, since numbers of a damaged file may add up to one that SQLite has no integer for.
    found = reader.query(
        "SELECT report, support, segment > 0, count(*), total(max(flops, 0)), "
        f"total(iif({unknown}, 0, read_bytes + written_bytes)), sum(flops < 0), "
        f"sum({unknown}) FROM node_support "
        "JOIN node ON node.id = node_support.node WHERE node.op LIKE 'call_%' GROUP BY 1, 2, 3"
    )
    return [
        SupportCount(
            report,
            support,
            bool(inside),
            operators,
            int(flops),
            int(size_bytes),
            without_flops,
            without_bytes,
        )
        for report, support, inside, operators, flops, size_bytes, without_flops, without_bytes in found
    ]


def segment_counts(reader: SessionReader) -> dict[int, int]:
    """Return how many segments each report has that has any."""
    return dict(
        reader.query(
            "SELECT report, count(DISTINCT segment) FROM node_support WHERE segment > 0 "
            "GROUP BY report"
        )
    )


def edges_of_graph(reader: SessionReader, graph: model.Graph) -> list[tuple[int, int]]:
    """Return (producer, consumer) of every use in a graph, as ids of nodes."""
    uses = "SELECT producer, consumer FROM edge WHERE consumer >= ? AND consumer < ?"
    return reader.query(uses, (graph.first_node, graph.first_node + graph.node_count))


_SHOWN = (
    "SELECT report.id AS id, report.graph AS graph, row_number() OVER "
    "(PARTITION BY report.graph ORDER BY coalesce(compilation.in_use, 0) DESC, report.id "
    "DESC) AS place "
    "FROM support_report AS report LEFT JOIN compilation ON compilation.id = report.compilation"
)
"""The reports of each graph: those of the variant in use first, then the last ones."""


class ShownSupport(NamedTuple):
    """What is shown of one operator beside its graph."""

    support: model.Support
    segment: int


def support_of_nodes(
    reader: SessionReader, graph: int, nodes: Iterable[int]
) -> dict[int, ShownSupport]:
    """Return what the report of a graph says of some of its nodes, that of the variant in use
    before any later one; empty without a report, and where the backend does not say.
    """
    found = reader.query(
        # SQLite keeps to the order of a CROSS JOIN: the wanted nodes first, each found by its key.
        "SELECT node, support, segment FROM json_each(?) AS wanted CROSS JOIN "
        "node_support ON node_support.node = wanted.value "
        f"AND report = (SELECT id FROM ({_SHOWN} WHERE report.graph=?) WHERE place = 1) "
        "WHERE support != 'unknown'",
        (json_list(nodes), graph),
    )
    return {node: ShownSupport(support, segment) for node, support, segment in found}


def nodes_in_segment(reader: SessionReader, segment: int) -> list[int]:
    """Return the nodes that the report of each graph has in this segment, ascending; for 0 those
    that fall back to PyTorch.
    """
    return column(
        reader,
        f"SELECT node FROM node_support WHERE report IN (SELECT id FROM ({_SHOWN}) WHERE "
        "place = 1) "
        "AND segment=? AND support != 'unknown' ORDER BY node",
        segment,
    )
