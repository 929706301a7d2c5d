"""What a node is made from and what uses it, and in which kernels nodes of any graph end."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fx_explorer import model
from fx_explorer.session.queries.sql import column, json_list
from fx_explorer.session.reader import SessionReader


def neighbours_of(reader: SessionReader, nodes: Iterable[int], side: int) -> list[int]:
    """Return what these nodes take as arguments (``side`` -1) or what takes them (1), each once, in
    the order of the graph.
    """
    here, there = ("consumer", "producer") if side < 0 else ("producer", "consumer")
    asked = (
        f"SELECT DISTINCT edge.{there} FROM json_each(?) AS wanted CROSS JOIN edge ON "
        f"edge.{here} = wanted.value ORDER BY 1"
    )
    return column(reader, asked, json_list(nodes))


def edges_among(reader: SessionReader, nodes: Collection[int]) -> list[tuple[int, int]]:
    """Return (producer, consumer) for each edge that begins and ends at one of the nodes."""
    wanted = json_list(nodes)
    return reader.query(
        "SELECT DISTINCT edge.producer, edge.consumer FROM json_each(?) AS wanted "
        "CROSS JOIN edge ON edge.producer = wanted.value WHERE edge.consumer IN (SELECT "
        "value FROM json_each(?)) ORDER BY 1, 2",
        (wanted, wanted),
    )


def kernels_by_node(
    reader: SessionReader, nodes: Iterable[int], direction: model.Direction = ""
) -> dict[int, list[int]]:
    """Return the ids of the kernels that compute each node, or what happened to it at later stages:
    those of ``direction``, where one is given.
    """
    condition = "(? = '' OR kernel.direction = ?)"
    found = reader.query(
        "WITH RECURSIVE reached(origin, id) AS (SELECT value, value FROM json_each(?) "
        "UNION SELECT reached.origin, link.child FROM reached JOIN link ON link.parent = "
        "reached.id) "
        "SELECT reached.origin, kernel.id FROM reached JOIN line_node ON line_node.node "
        "= reached.id "
        f"CROSS JOIN kernel ON kernel.artifact = line_node.artifact WHERE {condition} "
        "UNION SELECT reached.origin, kernel.id FROM reached JOIN line_node ON "
        "line_node.node = reached.id "
        "CROSS JOIN kernel ON kernel.output_code = line_node.artifact AND "
        "kernel.first_line = line_node.line "
        f"WHERE NOT kernel.artifact AND {condition} ORDER BY 1, 2",
        (json_list(nodes), *[direction] * 4),
    )
    kernels: dict[int, list[int]] = {}
    for node, kernel in found:
        kernels.setdefault(node, []).append(kernel)
    return kernels


def operation_counts_of(reader: SessionReader, kernels: Iterable[int]) -> dict[int, int]:
    """Return how many nodes each of these kernels computes, by its id."""
    wanted = json_list(kernels)
    return dict(
        reader.query(
            "SELECT kernel.id, count(DISTINCT line_node.node) FROM json_each(?) AS wanted "
            "JOIN kernel ON kernel.id = wanted.value JOIN line_node ON "
            "line_node.artifact = kernel.artifact "
            "WHERE kernel.artifact GROUP BY 1 "
            "UNION SELECT kernel.id, count(DISTINCT line_node.node) FROM json_each(?) AS wanted "
            "JOIN kernel ON kernel.id = wanted.value JOIN line_node ON "
            "line_node.artifact = kernel.output_code "
            "AND line_node.line = kernel.first_line WHERE NOT kernel.artifact GROUP BY 1",
            (wanted, wanted),
        )
    )
