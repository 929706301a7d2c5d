"""What stands before and after a stage: nodes without their texts, and which came from which."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.session.queries.sql import IS_CALL
from fx_explorer.session.reader import SessionReader


class PlainNode(NamedTuple):
    """An operation without its texts: a graph of 100,000 nodes is compared without reading those."""

    id: int
    is_view: bool
    is_backward: bool


def plain_operations(reader: SessionReader, graphs: Iterable[int]) -> list[PlainNode]:
    """Return the operations of these graphs, in the order of the graphs."""
    found = []
    for graph in graphs:
        rows = reader.query(
            f"SELECT id, is_view, is_backward FROM node WHERE graph=? AND {IS_CALL} ORDER "
            "BY position",
            (graph,),
        )
        found += [PlainNode(number, bool(view), bool(backward)) for number, view, backward in rows]
    return found


class Origin(NamedTuple):
    """Operation ``child`` of a later graph is, or came of, operation ``parent`` of an earlier one."""

    child: int
    parent: int
    is_copy: bool
    """The same node, or a copy of it, by every link on the way."""
    differs: bool
    """Name, target, arguments, shape or type are not those of the parent."""


def origins(reader: SessionReader, before: Collection[int], after: Collection[int]) -> list[Origin]:
    """Return which operations of the graphs ``after`` come of which of the graphs ``before``.
    Graphs in between, such as one that was edited, are passed through.

    A node that is only known to lie on the same line as several others came from none of them.
    """
    here, there = _within(reader, before), _within(reader, after)
    if not here or not there:
        return []
    known = (
        "link.how != 'stack_trace' OR (SELECT count(*) FROM link AS other WHERE other.child "
        "= link.child) = 1"
    )
    copy = "link.how IN ('identity', 'name')"
    rows = reader.query(
        f"WITH RECURSIVE up(origin, id, copy) AS (SELECT child, parent, {copy} FROM link "
        f"WHERE ({_in(there, 'child')}) AND ({known}) "
        f"UNION SELECT up.origin, link.parent, up.copy AND {copy} FROM up JOIN link ON "
        "link.child = up.id "
        f"WHERE NOT ({_in(here, 'up.id')}) AND ({known})) "
        "SELECT up.origin, up.id, max(up.copy), later.name != node.name "
        "OR later.target != node.target OR later.arguments != node.arguments "
        "OR later.shape IS NOT node.shape OR later.dtype != node.dtype "
        "FROM up JOIN node AS later ON later.id = up.origin AND later.op LIKE 'call_%' "
        f"JOIN node ON node.id = up.id AND {IS_CALL} "
        f"WHERE {_in(here, 'up.id')} GROUP BY 1, 2 ORDER BY 1, 2"
    )
    return [
        Origin(child, parent, bool(is_copy), bool(differs))
        for child, parent, is_copy, differs in rows
    ]


def _within(reader: SessionReader, graphs: Collection[int]) -> list[tuple[int, int]]:
    found = reader.by_ids(model.Graph, graphs)
    return [
        (graph.first_node, graph.first_node + graph.node_count)
        for graph in found
        if graph.node_count
    ]


def _in(ranges: list[tuple[int, int]], column: str) -> str:
    """Return a condition; the ranges are whole numbers, and there may be more than SQLite takes
    parameters.
    """
    return (
        "("
        + " OR ".join(f"({column} >= {first} AND {column} < {end})" for first, end in ranges)
        + ")"
    )


def nodes_of_lines(reader: SessionReader, artifact: int) -> list[tuple[int, int]]:
    """Return (line, node) for every line of an artifact that is linked to a node."""
    return reader.query(
        "SELECT DISTINCT line, node FROM line_node WHERE artifact=? ORDER BY 1, 2", (artifact,)
    )


def source_lines(reader: SessionReader, graphs: Iterable[int]) -> int:
    """Return how many lines of source the operations of these graphs stand on, by their innermost
    lines.
    """
    found: set[tuple[int, int]] = set()
    for graph in graphs:
        found |= set(
            reader.query(
                f"SELECT DISTINCT file, line FROM node WHERE graph=? AND file AND {IS_CALL}",
                (graph,),
            )
        )
    return len(found)
