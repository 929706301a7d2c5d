"""Nodes: what is known of those with given ids, and those that are looked for by what they are.

What is asked of given ids runs on every move of the cursor, so it is answered inside SQLite.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fx_explorer import model
from fx_explorer.session.queries.sql import column, json_list
from fx_explorer.session.reader import SessionReader


def operation_names(
    reader: SessionReader, nodes: Iterable[int], stage: model.Stage | None = None
) -> list[str]:
    """Return the names of those nodes that are operations (of this stage), each once, in the order
    of the ids.
    """
    graphs = "SELECT id FROM graph WHERE stage=?" if stage else "SELECT id FROM graph"
    return column(
        reader,
        # SQLite keeps to the order of a CROSS JOIN: the wanted nodes first, each found by its id.
        "SELECT DISTINCT node.name FROM json_each(?) AS wanted CROSS JOIN node ON "
        "node.id = wanted.value "
        f"WHERE node.op LIKE 'call_%' AND node.graph IN ({graphs})",
        json_list(nodes),
        *([stage] if stage else []),
    )


def operation_counts(
    reader: SessionReader, nodes: Iterable[int]
) -> dict[tuple[model.Stage, model.Direction], int]:
    """Return how many of the nodes are operations, by the stage and direction of their graph."""
    found = reader.query(
        "SELECT graph.stage, graph.direction, count(*) FROM json_each(?) AS wanted JOIN "
        "node ON node.id = wanted.value "
        "JOIN graph ON graph.id = node.graph WHERE node.op LIKE 'call_%' GROUP BY 1, 2",
        (json_list(nodes),),
    )
    return {(stage, direction): count for stage, direction, count in found}


def compilations_of_nodes(reader: SessionReader, nodes: Iterable[int]) -> set[int]:
    """Return the ids of the compilations that the nodes belong to."""
    found = column(
        reader,
        "SELECT DISTINCT graph.compilation FROM json_each(?) AS wanted CROSS JOIN node "
        "ON node.id = wanted.value "
        "JOIN graph ON graph.id = node.graph WHERE graph.compilation",
        json_list(nodes),
    )
    return set(found)


def user_stacks(reader: SessionReader, nodes: Iterable[int]) -> list[tuple[model.Frame, ...]]:
    """Return the distinct user stacks of the nodes, each outermost frame first."""
    stacks = (
        "SELECT DISTINCT node.stack FROM json_each(?) JOIN node ON node.id = json_each.value "
        "WHERE node.stack"
    )
    return [
        stack.frames
        for stack in reader.by_ids(model.Stack, column(reader, stacks, json_list(nodes)))
    ]


def returned_nodes(reader: SessionReader, nodes: Iterable[int]) -> set[int]:
    """Return the nodes that their graph returns."""
    found = column(
        reader,
        "SELECT edge.producer FROM json_each(?) AS wanted JOIN edge ON edge.producer = "
        "wanted.value "
        "JOIN node ON node.id = edge.consumer WHERE node.op = 'output'",
        json_list(nodes),
    )
    return set(found)


def users_of_inputs(reader: SessionReader, nodes: Iterable[int]) -> set[int]:
    """Return the ids of what takes those of the nodes that are inputs of their graph."""
    found = column(
        reader,
        "SELECT edge.consumer FROM json_each(?) AS wanted JOIN edge ON edge.producer = "
        "wanted.value "
        "JOIN node ON node.id = edge.producer WHERE node.op = 'placeholder'",
        json_list(nodes),
    )
    return set(found)


def first_operation(reader: SessionReader, graph: int) -> int:
    """Return the row of the first operation that a generated kernel computes; else of the first one
    that has a user line.
    """
    found = reader.query(
        "SELECT node.position FROM kernel JOIN line_node ON line_node.artifact = kernel.artifact "
        "JOIN node ON node.id = line_node.node WHERE node.graph=? AND node.line ORDER BY 1 LIMIT 1",
        (graph,),
    ) or reader.query(
        "SELECT position FROM node WHERE graph=? AND op LIKE 'call_%' ORDER BY NOT (NOT "
        "is_view AND line), position LIMIT 1",
        (graph,),
    )
    return int(found[0][0]) if found else 0


def first_operation_on(reader: SessionReader, graph: int, rows: Iterable[int]) -> int | None:
    """Return the first of some rows of a graph that hold an operation; None when none does."""
    ((first,),) = reader.query(
        "SELECT min(position) FROM json_each(?) AS wanted CROSS JOIN node ON "
        "node.graph=? AND node.position = wanted.value "
        "WHERE node.op LIKE 'call_%'",
        (json_list(rows), graph),
    )
    return None if first is None else int(first)


def nodes_beginning(reader: SessionReader, beginning: str, limit: int) -> list[int]:
    """Return the ids of nodes whose name begins so, the shortest names first. An index finds
    them.
    """
    # A range of the index; a LIKE would be a scan, and take ``_`` for any letter.
    begins = "SELECT id FROM node WHERE name>=? AND name<? ORDER BY length(name), id LIMIT ?"
    return column(reader, begins, beginning, beginning + "\uffff", limit)


def nodes_containing(reader: SessionReader, words: Collection[str], limit: int) -> list[int]:
    """Return the ids of nodes that have all words in their name, target or module: one scan that
    stops when it has enough.
    """
    condition = " AND ".join(
        ["(name || ' ' || target || ' ' || module) LIKE ? ESCAPE '\\'"] * len(words)
    )
    return column(
        reader, f"SELECT id FROM node WHERE {condition} LIMIT ?", *map(_like, words), limit
    )


def _like(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def squeezes(reader: SessionReader) -> list[tuple[str, int, str, str]]:
    """Return the calls of ``squeeze`` in Dynamo's graphs on tensors that have a size without a
    value, in graph order: file, line, arguments, and the shape of the tensor in JSON.
    """
    return reader.query(
        "SELECT coalesce(source_file.path, ''), node.line, node.arguments, given.shape FROM node"
        " JOIN graph ON graph.id = node.graph AND graph.stage = 'dynamo'"
        " JOIN node AS given ON given.graph = node.graph"
        " AND (node.arguments = given.name OR substr(node.arguments, 1, "
        "length(given.name) + 1) = given.name || ',')"
        " LEFT JOIN source_file ON source_file.id = node.file"
        " WHERE node.op IN ('call_method', 'call_function') AND given.shape LIKE '%u%'"
        " AND (node.target IN ('squeeze', 'squeeze_') OR node.target LIKE '%.squeeze')"
        " ORDER BY node.id"
    )
