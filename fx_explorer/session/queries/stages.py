"""What stands before and after a stage: nodes without their texts, and which came from which."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.session.queries.sql import IS_CALL
from fx_explorer.session.reader import SessionReader


class PlainNode(NamedTuple):
    """A node without its texts: a graph of 100,000 nodes is compared without reading those."""

    id: int
    is_operation: bool
    is_view: bool
    is_backward: bool


def plain_nodes(reader: SessionReader, graphs: Iterable[int]) -> list[PlainNode]:
    """Return the nodes of these graphs, in the order of the graphs."""
    found = []
    for graph in graphs:
        rows = reader.query(f"SELECT id, {IS_CALL}, is_view, is_backward FROM node WHERE graph=? ORDER BY position", (graph,))
        found += [PlainNode(number, bool(call), bool(view), bool(backward)) for number, call, view, backward in rows]
    return found


def node_origins(reader: SessionReader, before: Collection[int], after: Collection[int]) -> list[tuple[int, int, bool]]:
    """Return each node of the graphs ``after``, a node of the graphs ``before`` that it came from, and
    whether the two differ. Graphs in between, such as one that was edited, are passed through.

    A node that is only known to lie on the same line as several others came from none of them.
    """
    here, there = _within(reader, before), _within(reader, after)
    if not here or not there:
        return []
    known = "link.how != 'stack_trace' OR (SELECT count(*) FROM link AS other WHERE other.child = link.child) = 1"
    rows = reader.query(
        f"WITH RECURSIVE up(origin, id) AS (SELECT child, parent FROM link WHERE ({_in(there, 'child')}) AND ({known}) "
        f"UNION SELECT up.origin, link.parent FROM up JOIN link ON link.child = up.id "
        f"WHERE NOT ({_in(here, 'up.id')}) AND ({known})) "
        "SELECT up.origin, up.id, later.target != earlier.target OR later.arguments != earlier.arguments "
        "OR later.shape IS NOT earlier.shape OR later.dtype != earlier.dtype "
        "FROM up JOIN node AS later ON later.id = up.origin JOIN node AS earlier ON earlier.id = up.id "
        f"WHERE {_in(here, 'up.id')} ORDER BY 1, 2"
    )
    return [(child, parent, bool(differs)) for child, parent, differs in rows]


def _within(reader: SessionReader, graphs: Collection[int]) -> list[tuple[int, int]]:
    found = reader.by_ids(model.Graph, graphs)
    return [(graph.first_node, graph.first_node + graph.node_count) for graph in found if graph.node_count]


def _in(ranges: list[tuple[int, int]], column: str) -> str:
    """Return a condition; the ranges are whole numbers, and there may be more than SQLite takes parameters."""
    return " OR ".join(f"({column} >= {first} AND {column} < {end})" for first, end in ranges)


def nodes_of_lines(reader: SessionReader, artifact: int) -> list[tuple[int, int]]:
    """Return (line, node) for every line of an artifact that is linked to a node."""
    return reader.query("SELECT DISTINCT line, node FROM line_node WHERE artifact=? ORDER BY 1, 2", (artifact,))


def source_lines_of_nodes(reader: SessionReader, graphs: Iterable[int]) -> list[tuple[int, int, int]]:
    """Return (node, file, line) for every operation of these graphs; the file is 0 when no line is known."""
    return [
        row
        for graph in graphs
        for row in reader.query(f"SELECT id, file, line FROM node WHERE graph=? AND {IS_CALL} ORDER BY position", (graph,))
    ]


def reasons_without_kernel(reader: SessionReader, graphs: Iterable[int]) -> dict[int, str]:
    """Return why nodes of these graphs have no kernel of their own, by the id of the node."""
    found: dict[int, str] = {}
    for graph in graphs:
        found |= dict(
            reader.query(
                "SELECT without_kernel.node, without_kernel.reason FROM node JOIN without_kernel "
                "ON without_kernel.node = node.id WHERE node.graph=?",
                (graph,),
            )
        )
    return found
