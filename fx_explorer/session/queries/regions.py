"""This module has the queries about marks on nodes: the regions they are annotated with, as stored
JSON, the kernels that regional compilation made, and the support of backends.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.session.queries.sql import IS_CALL, IS_COUNTED
from fx_explorer.session.reader import SessionReader, json_list


def every_annotation(reader: SessionReader) -> list[str]:
    """Return every distinct set of annotations that a node has."""
    return reader.column("SELECT DISTINCT annotations FROM node WHERE annotations IS NOT NULL")


def annotations_of_nodes(reader: SessionReader, nodes: Iterable[int]) -> dict[str, int]:
    """Return how many of the nodes have each set of annotations, in the order of the first node
    that has it.
    """
    return dict(
        reader.query(
            "SELECT node.annotations, count(*) FROM json_each(?) AS wanted JOIN node ON node.id = "
            "wanted.value WHERE node.annotations IS NOT NULL GROUP BY 1 ORDER BY min(node.id)",
            (json_list(nodes),),
        )
    )


def annotated_count(reader: SessionReader, graph: int) -> int:
    """Return how many nodes of a graph have annotations."""
    return reader.number(
        "SELECT count(*) FROM node WHERE graph=? AND annotations IS NOT NULL", graph
    )


def annotated_rows(
    reader: SessionReader, graph: model.Graph, annotations: Iterable[str]
) -> list[int]:
    """Return the rows of a graph whose nodes have one of these sets of annotations, ascending."""
    return reader.column(
        "SELECT position FROM node WHERE id >= ? AND id < ? AND annotations IN (SELECT "
        "value FROM json_each(?)) ORDER BY id",
        graph.first_node,
        graph.first_node + graph.node_count,
        json_list(annotations),
    )


def every_annotated(reader: SessionReader, annotations: Iterable[str]) -> list[int]:
    """Return the ids of all nodes with one of these sets of annotations."""
    wanted = "SELECT id FROM node WHERE annotations IN (SELECT value FROM json_each(?))"
    return reader.column(wanted, json_list(annotations))


def first_annotated(reader: SessionReader, annotations: Iterable[str]) -> list[int]:
    """Return the id of the first operation (else of the first node) with one of these sets of
    annotations; empty for none.
    """
    return reader.column(
        "SELECT id FROM node WHERE annotations IN (SELECT value FROM json_each(?)) ORDER "
        "BY op NOT LIKE 'call_%', id LIMIT 1",
        json_list(annotations),
    )


class AnnotatedNodes(NamedTuple):
    """The nodes of one compilation, stage and direction with the same set of annotations."""

    annotations: str
    compilation: int
    stage: model.Stage
    direction: model.Direction
    node_count: int
    first: int
    """The id of the first operation, or of the first node without one."""


def annotated_nodes(reader: SessionReader) -> list[AnnotatedNodes]:
    """Return all nodes with annotations, in the order of the first ones. An edited graph counts
    once, in its final form.
    """
    rows = reader.query(
        "SELECT node.annotations, graph.compilation, graph.stage, graph.direction, count(*), "
        "coalesce(min(CASE WHEN node.op LIKE 'call_%' THEN node.id END), min(node.id)) FROM node "
        "JOIN graph ON graph.id = node.graph WHERE node.annotations IS NOT NULL AND graph.id NOT "
        "IN (SELECT before FROM intervention WHERE after) GROUP BY 1, 2, 3, 4 ORDER BY min(node.id)"
    )
    return [AnnotatedNodes(*row) for row in rows]


def annotations_of_computed_nodes(reader: SessionReader) -> dict[int, str]:
    """Return the annotations of every node that has some and that a line of an artifact computes,
    by the id of the node.
    """
    return dict(
        reader.query(
            "SELECT DISTINCT node.id, node.annotations FROM line_node JOIN node ON node.id = "
            "line_node.node WHERE node.annotations IS NOT NULL"
        )
    )


def annotated_operations(
    reader: SessionReader, compilation: int, stage: model.Stage, direction: model.Direction
) -> list[tuple[str, str | None]]:
    """Return the targets of the calls in the graph of a stage and direction, with their
    annotations, in the order of the graph.
    """
    return reader.query(
        "SELECT node.target, node.annotations FROM node JOIN graph ON graph.id = node.graph WHERE "
        "graph.compilation=? AND graph.stage=? AND graph.direction=? AND graph.name='' AND "
        f"{IS_CALL} ORDER BY node.id",
        (compilation, stage, direction),
    )


def kernels_by_subgraph(reader: SessionReader) -> dict[tuple[int, model.Direction, str], list[str]]:
    """Return the names of the kernels of each subgraph, by compilation, direction and torch's name
    for the subgraph.
    """
    kernels: dict[tuple[int, model.Direction, str], list[str]] = {}
    rows = reader.query(
        "SELECT compilation, direction, subgraph, name FROM kernel WHERE subgraph != '' ORDER BY id"
    )
    for compilation, direction, subgraph, name in rows:
        kernels.setdefault((compilation, direction, subgraph), []).append(name)
    return kernels


# What backends support of graphs: the reports there are, and what they say of nodes.


def latest_reports(reader: SessionReader) -> list[model.SupportReport]:
    """Return the last report of each graph by each variant that has it, in the order of the graphs.
    Attempts that Dynamo gave up are left out.
    """
    latest = (
        f"SELECT max(id) FROM support_report WHERE {IS_COUNTED} GROUP BY graph, compilation "
        "ORDER BY graph, max(id)"
    )
    return reader.by_ids(model.SupportReport, reader.column(latest))


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
    rows = reader.query(
        "SELECT report, support, segment > 0, count(*), total(max(flops, 0)), "
        f"total(iif({unknown}, 0, read_bytes + written_bytes)), sum(flops < 0), sum({unknown}) "
        "FROM node_support JOIN node ON node.id = node_support.node WHERE node.op LIKE 'call_%' "
        "GROUP BY 1, 2, 3"
    )
    counts = []
    for report, support, inside, operators, flops, size_bytes, *without in rows:
        count = SupportCount(
            report, support, bool(inside), operators, int(flops), int(size_bytes), *without
        )
        counts.append(count)
    return counts


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
    "SELECT report.id AS id, report.graph AS graph, row_number() OVER (PARTITION BY report.graph "
    "ORDER BY coalesce(compilation.in_use, 0) DESC, report.id DESC) AS place FROM support_report "
    "AS report LEFT JOIN compilation ON compilation.id = report.compilation"
)
"""The reports of each graph: those of the variant in use first, then the last ones."""


class ShownSupport(NamedTuple):
    """The answer about one operator that is shown beside its graph, with its segment."""

    support: model.Support
    segment: int


def support_of_nodes(
    reader: SessionReader, graph: int, nodes: Iterable[int]
) -> dict[int, ShownSupport]:
    """Return the report's answers about some nodes of a graph, preferring the variant in use; empty
    without a report, and without the backend's answer.
    """
    rows = reader.query(
        # SQLite keeps to the order of a CROSS JOIN: the wanted nodes first, each found by its key.
        "SELECT node, support, segment FROM json_each(?) AS wanted CROSS JOIN node_support ON "
        f"node_support.node = wanted.value AND report = (SELECT id FROM ({_SHOWN} WHERE "
        "report.graph=?) WHERE place = 1) WHERE support != 'unknown'",
        (json_list(nodes), graph),
    )
    return {node: ShownSupport(support, segment) for node, support, segment in rows}


def nodes_in_segment(reader: SessionReader, segment: int) -> list[int]:
    """Return the nodes, ascending, that the report of each graph puts into this segment; for
    segment 0 those that fall back to PyTorch.
    """
    return reader.column(
        f"SELECT node FROM node_support WHERE report IN (SELECT id FROM ({_SHOWN}) WHERE place = "
        "1) AND segment=? AND support != 'unknown' ORDER BY node",
        segment,
    )
