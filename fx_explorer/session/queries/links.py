"""This module has the queries about links: which node comes from which, over all stages, which
nodes lack an expected link, and which nodes the lines of generated code compute.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fx_explorer import model
from fx_explorer.session.queries.sql import IS_CALL, among
from fx_explorer.session.reader import SessionReader, json_list


def ancestors(reader: SessionReader, nodes: Iterable[int]) -> frozenset[int]:
    """Return these nodes and all nodes from which they come, at every earlier stage."""
    return _closure(reader, nodes, "child", "parent")


def descendants(reader: SessionReader, nodes: Iterable[int]) -> frozenset[int]:
    """Return these nodes and all nodes that come from them, at every later stage."""
    return _closure(reader, nodes, "parent", "child")


def every_link(reader: SessionReader) -> list[tuple[int, int]]:
    """Return (child, parent) of each link of a session."""
    return reader.query("SELECT child, parent FROM link")


def every_computing_line(reader: SessionReader) -> list[tuple[int, int, int, int]]:
    """Return (node, artifact, line, call) of each line that computes a node."""
    return reader.query("SELECT node, artifact, line, call FROM line_node")


NODES_AT_ONCE = 20_000
"""Number of nodes in one query, so that no answer is large."""


def computed_from(reader: SessionReader, first: int, count: int) -> dict[int, list[int]]:
    """Return node that generated code computes → the nodes among these ``count`` from which it
    comes, without itself.
    """
    computed: dict[int, list[int]] = {}
    for start in range(first, first + count, NODES_AT_ONCE):
        pairs = reader.query(
            "WITH RECURSIVE down(origin, id) AS (SELECT parent, child FROM link WHERE parent >= ? "
            "AND parent < ? UNION SELECT down.origin, link.child FROM down JOIN link ON "
            "link.parent = down.id) SELECT id, group_concat(CAST(origin AS INTEGER)) FROM down "
            "WHERE origin != id AND EXISTS (SELECT 1 FROM line_node WHERE line_node.node = "
            "down.id) GROUP BY 1",
            (start, min(start + NODES_AT_ONCE, first + count)),
        )
        for node, origins in pairs:
            computed.setdefault(node, []).extend(map(int, origins.split(",")))
    return computed


def _closure(
    reader: SessionReader, nodes: Iterable[int], near_end: str, far_end: str
) -> frozenset[int]:
    # Inside SQLite: decoding every link in Python costs three times as much on a line that a whole
    # model passes through.
    ids = reader.column(
        "WITH RECURSIVE reached(id) AS (SELECT value FROM json_each(?) "
        f"UNION SELECT link.{far_end} FROM reached JOIN link ON link.{near_end} = reached.id) "
        "SELECT id FROM reached",
        json_list(nodes),
    )
    return frozenset(ids)


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
    return reader.column(
        f"WITH RECURSIVE own(id) AS (SELECT node.id {_call_nodes(graphs)} AND NOT node.file), "
        "up(origin, id) AS (SELECT id, id FROM own UNION SELECT up.origin, link.parent FROM up "
        "JOIN link ON link.child = up.id) SELECT id FROM own EXCEPT SELECT up.origin FROM up JOIN "
        "node ON node.id = up.id WHERE node.file",
        direction,
    )


def nodes_without_kernel(
    reader: SessionReader, direction: model.Direction, graphs: Collection[int] | None
) -> list[int]:
    """Return the ids of post-grad compute nodes without a known kernel or library call."""
    return reader.column(
        f"SELECT node.id {_call_nodes(graphs)} AND NOT node.is_view AND NOT EXISTS (SELECT 1 FROM "
        "line_node JOIN artifact ON artifact.id = line_node.artifact WHERE line_node.node = "
        "node.id AND artifact.kind IN ('kernel', 'output_code'))",
        direction,
    )


def _call_nodes(graphs: Collection[int] | None) -> str:
    return (
        "FROM node JOIN graph ON graph.id = node.graph WHERE graph.stage='post_grad' AND "
        f"graph.direction=? AND {IS_CALL} AND {among(graphs, 'graph.id')}"
    )


# Lines of kernels and of output code, and where the output code holds and calls a kernel.


def lines_computing(reader: SessionReader, nodes: Iterable[int]) -> dict[int, set[tuple[int, int]]]:
    """Return artifact → every (line, call) that computes one of the nodes (call 0: in all
    calls).
    """
    lines: dict[int, set[tuple[int, int]]] = {}
    rows = reader.query(
        "SELECT DISTINCT line_node.artifact, line_node.line, line_node.call FROM json_each(?) AS "
        "wanted JOIN line_node ON line_node.node = wanted.value",
        (json_list(nodes),),
    )
    for artifact, line, call in rows:
        lines.setdefault(artifact, set()).add((line, call))
    return lines


def lines_with_nodes(reader: SessionReader, artifact: int) -> set[int]:
    """Return the lines (from 1) of an artifact that are linked to a node."""
    return set(reader.column("SELECT line FROM line_node WHERE artifact=? AND line", artifact))


def linked_lines(reader: SessionReader, artifact: int) -> list[int]:
    """Return the lines (from 1) that are linked to a node or, in a kernel of the user's own, to the
    line from which they were copied.
    """
    return reader.column(
        "SELECT line FROM line_node WHERE artifact=? AND line UNION SELECT line FROM "
        "line_source WHERE artifact=? ORDER BY 1",
        artifact,
        artifact,
    )


def kernel_around(reader: SessionReader, output_code: int, line: int) -> model.Kernel | None:
    """Return the kernel whose code is on this line (from 1) of the output code; None without
    one.
    """
    rows = reader.query(
        "SELECT kernel.id, kernel.first_line + artifact.line_count FROM kernel JOIN artifact ON "
        "artifact.id = kernel.artifact WHERE kernel.output_code=? AND kernel.first_line BETWEEN 1 "
        "AND ? ORDER BY kernel.first_line DESC LIMIT 1",
        (output_code, line),
    )
    if not rows or line >= rows[0][1]:
        return None
    return reader.get(model.Kernel, rows[0][0])


def embedded_kernels(
    reader: SessionReader, output_code: int, artifacts: Iterable[int]
) -> list[tuple[int, int, int]]:
    """Return the kernels of the output code whose own code is one of the artifacts, as (kernel,
    artifact, first line of their code in the output code from 1, or 0 if it is not known).
    """
    # The + keeps SQLite from going through all kernels of the output code instead of those few.
    return reader.query(
        "SELECT kernel.id, kernel.artifact, kernel.first_line FROM json_each(?) AS wanted "
        "CROSS JOIN kernel ON kernel.artifact = wanted.value WHERE +kernel.output_code=?",
        (json_list(artifacts), output_code),
    )


def call_lines(
    reader: SessionReader, kernels: Iterable[int], calls: Iterable[int], whole: Iterable[int]
) -> list[int]:
    """Return the lines of the output code on which the wrapper makes calls: those of ``calls`` that
    belong to ``kernels``, and all calls of the kernels in ``whole``.
    """
    return reader.column(
        "SELECT kernel_call.line FROM json_each(?) AS wanted CROSS JOIN kernel_call ON "
        "kernel_call.id = wanted.value WHERE kernel_call.line AND +kernel_call.kernel IN (SELECT "
        "value FROM json_each(?)) UNION SELECT kernel_call.line FROM json_each(?) AS wanted CROSS "
        "JOIN kernel_call ON kernel_call.kernel = wanted.value WHERE kernel_call.line",
        json_list(calls),
        json_list(kernels),
        json_list(whole),
    )


def calls_on_line(reader: SessionReader, output_code: int, line: int) -> list[tuple[int, int]]:
    """Return (call, id of the kernel's own code) for the wrapper's calls on this line (from 1)."""
    return reader.query(
        "SELECT kernel_call.id, kernel.artifact FROM kernel_call CROSS JOIN kernel ON kernel.id = "
        "kernel_call.kernel WHERE kernel.output_code=? AND kernel_call.line=? AND kernel.artifact",
        (output_code, line),
    )
