"""Links between nodes: what comes from what, over all stages, and which nodes have no link where
one can be expected.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fx_explorer import model
from fx_explorer.session.queries.sql import IS_CALL, among, column, json_list
from fx_explorer.session.reader import SessionReader


def ancestors(reader: SessionReader, nodes: Iterable[int]) -> frozenset[int]:
    """Return these nodes and all they come from, at every earlier stage."""
    return _closure(reader, nodes, "child", "parent")


def descendants(reader: SessionReader, nodes: Iterable[int]) -> frozenset[int]:
    """Return these nodes and all that came of them, at every later stage."""
    return _closure(reader, nodes, "parent", "child")


NODES_AT_ONCE = 20_000
"""Nodes of which is asked in one question to the session, so that no answer is large."""


def computed_from(reader: SessionReader, first: int, count: int) -> dict[int, list[int]]:
    """Return a node that generated code computes → the nodes among these ``count`` that it comes
    from, itself not among them.
    """
    found: dict[int, list[int]] = {}
    for start in range(first, first + count, NODES_AT_ONCE):
        pairs = reader.query(
            "WITH RECURSIVE down(origin, id) AS (SELECT parent, child FROM link WHERE "
            "parent >= ? AND parent < ? "
            "UNION SELECT down.origin, link.child FROM down JOIN link ON link.parent = down.id) "
            "SELECT id, group_concat(CAST(origin AS INTEGER)) FROM down WHERE origin != id "
            "AND EXISTS (SELECT 1 FROM line_node WHERE line_node.node = down.id) GROUP BY 1",
            (start, min(start + NODES_AT_ONCE, first + count)),
        )
        for node, origins in pairs:
            found.setdefault(node, []).extend(map(int, origins.split(",")))
    return found


def _closure(reader: SessionReader, nodes: Iterable[int], here: str, there: str) -> frozenset[int]:
    # Inside SQLite: decoding every link in Python costs three times as much on a line that a whole
    # model passes through.
    found = column(
        reader,
        "WITH RECURSIVE reached(id) AS (SELECT value FROM json_each(?) "
        f"UNION SELECT link.{there} FROM reached JOIN link ON link.{here} = reached.id) "
        "SELECT id FROM reached",
        json_list(nodes),
    )
    return frozenset(found)


def post_grad_calls(
    reader: SessionReader, direction: model.Direction, graphs: Collection[int] | None
) -> tuple[int, int]:
    """Return how many call nodes the post-grad graphs of a direction have, and how many of them are
    no views.

    ``graphs``, here and below: the ids of the graphs that count; None for all.
    """
    ((nodes, compute),) = reader.query(
        f"SELECT count(*), coalesce(sum(NOT node.is_view), 0) {_call_nodes(graphs)}", (direction,)
    )
    return nodes, compute


def nodes_without_source(
    reader: SessionReader, direction: model.Direction, graphs: Collection[int] | None
) -> list[int]:
    """Return the ids of post-grad call nodes that no user line is known for."""
    return column(
        reader,
        f"WITH RECURSIVE own(id) AS (SELECT node.id {_call_nodes(graphs)} AND NOT node.file), "
        "up(origin, id) AS (SELECT id, id FROM own "
        "UNION SELECT up.origin, link.parent FROM up JOIN link ON link.child = up.id) "
        "SELECT id FROM own EXCEPT SELECT up.origin FROM up JOIN node ON node.id = up.id "
        "WHERE node.file",
        direction,
    )


def nodes_without_kernel(
    reader: SessionReader, direction: model.Direction, graphs: Collection[int] | None
) -> list[int]:
    """Return the ids of post-grad compute nodes that neither a generated kernel nor a library call
    is known for.
    """
    return column(
        reader,
        f"SELECT node.id {_call_nodes(graphs)} AND NOT node.is_view AND NOT EXISTS "
        "(SELECT 1 FROM line_node "
        "JOIN artifact ON artifact.id = line_node.artifact "
        "WHERE line_node.node = node.id AND artifact.kind IN ('kernel', 'output_code'))",
        direction,
    )


def _call_nodes(graphs: Collection[int] | None) -> str:
    return (
        "FROM node JOIN graph ON graph.id = node.graph WHERE graph.stage='post_grad' AND "
        "graph.direction=? "
        f"AND {IS_CALL} AND {among(graphs, 'graph.id')}"
    )
