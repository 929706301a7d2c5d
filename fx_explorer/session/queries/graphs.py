"""This module has the queries about graphs: those of each stage, their sizes, their nodes, and
which operations of one stage came from which of another.

The nodes of a graph have ids in a row, so whether one lies in it needs no look at the node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.model.rows.graph import LeftOutReason
from fx_explorer.session.queries.sql import IS_CALL, IS_COUNTED, among
from fx_explorer.session.reader import SessionReader, json_list


def compilations_of_graphs(reader: SessionReader) -> dict[int, int]:
    """Return graph → the compilation that made it, by ids."""
    return dict(reader.query("SELECT id, compilation FROM graph"))


def edited_graphs(reader: SessionReader) -> list[tuple[int, int]]:
    """Return (before, after): the id of each graph that was edited, and that of the edited
    graph.
    """
    return reader.query("SELECT before, after FROM intervention WHERE before AND after")


def stages_reached(reader: SessionReader) -> set[model.Stage]:
    """Return the stages of compilations that left a graph or an artifact behind."""
    made = (
        "SELECT stage FROM graph WHERE stage != 'front_end' UNION SELECT stage FROM artifact "
        "WHERE kind != 'compile_options'"
    )
    return set(reader.column(made))


def post_grad_directions(reader: SessionReader) -> set[model.Direction]:
    """Return the directions that have a post-grad graph."""
    return set(reader.column("SELECT DISTINCT direction FROM graph WHERE stage='post_grad'"))


def captured_graph_count(reader: SessionReader, graphs: Collection[int] | None) -> int:
    """Return how many of ``graphs`` (None: of all) Dynamo passed to the backend."""
    wanted = f"stage = 'dynamo' AND parent = 0 AND {IS_COUNTED} AND {among(graphs, 'id')}"
    return reader.number(f"SELECT count(*) FROM graph WHERE {wanted}")


def captured_operations(reader: SessionReader, graphs: Collection[int] | None = None) -> int:
    """Return the number of call nodes in those of ``graphs`` (None: of all) that Dynamo made,
    including nested graphs. Unlike torch's ``counters["stats"]["calls_captured"]``, it leaves out
    attempts that Dynamo restarted.
    """
    return _operations(reader, f"stage='dynamo' AND {among(graphs, 'id')}")


def post_grad_operations(reader: SessionReader, graphs: Collection[int] | None) -> int:
    """Return the number of call nodes in the post-grad graphs among ``graphs`` (None: among
    all).
    """
    return _operations(reader, f"stage='post_grad' AND {among(graphs, 'id')}")


def _operations(reader: SessionReader, condition: str) -> int:
    # The cast is for damaged files: their numbers may add up to one that Python has no int for.
    total = "SELECT CAST(coalesce(sum(call_count), 0) AS INTEGER) FROM graph"
    return reader.number(f"{total} WHERE {condition} AND {IS_COUNTED}")


def partition_operations(
    reader: SessionReader, graphs: Collection[int] | None
) -> dict[model.Direction, int]:
    """Return the number of call nodes in AOTAutograd's graphs among ``graphs`` (None: among all),
    by direction.
    """
    partitioned = f"stage IN ('forward', 'backward') AND {among(graphs, 'id')} AND {IS_COUNTED}"
    return dict(
        reader.query(
            f"SELECT direction, sum(call_count) FROM graph WHERE {partitioned} GROUP BY direction"
        )
    )


def frequent_targets(reader: SessionReader) -> dict[int, list[tuple[str, int]]]:
    """Return, by the id of the graph, its call targets with their numbers, the most frequent
    first.
    """
    rows = reader.query(
        "SELECT graph, target, count(*) FROM node WHERE op LIKE 'call_%' GROUP BY graph, "
        "target ORDER BY 1, 3 DESC, 2"
    )
    targets: dict[int, list[tuple[str, int]]] = {}
    for graph, target, count in rows:
        targets.setdefault(graph, []).append((target, count))
    return targets


def target_counts(reader: SessionReader, graph: int) -> dict[str, int]:
    """Return the number of calls of each target in one graph, the most frequent first."""
    counts = (
        f"SELECT target, count(*) FROM node WHERE graph=? AND {IS_CALL} GROUP BY target ORDER "
        "BY 2 DESC, 1"
    )
    return dict(reader.query(counts, (graph,)))


def calls_of_nested_graph(reader: SessionReader, graph: model.Graph) -> int:
    """Return how many nodes of the graph around it call a nested graph."""
    return len(callers_of_nested_graph(reader, graph))


def callers_of_nested_graph(reader: SessionReader, graph: model.Graph) -> list[int]:
    """Return the ids of the nodes of the graph around it that call a nested graph."""
    called = (
        "SELECT DISTINCT node.id FROM node, json_each(node.subgraph_names) AS called WHERE "
        "node.graph=? AND called.value=? ORDER BY node.id"
    )
    return reader.column(called, graph.parent, graph.name.rpartition(".")[2])


def nodes_on_same_lines(reader: SessionReader, graph: int, nodes: Iterable[int]) -> list[int]:
    """Return the nodes of one graph that come from the same lines of the user's as these nodes."""
    return reader.column(
        "SELECT DISTINCT node.id FROM json_each(?) AS wanted CROSS JOIN node AS given ON given.id "
        "= wanted.value JOIN node ON node.graph = ? AND node.file = given.file AND node.line = "
        "given.line WHERE given.line",
        json_list(nodes),
        graph,
    )


def nodes_on_line(reader: SessionReader, graph: int, file: int, line: int) -> list[int]:
    """Return the nodes of one graph with this innermost line of the user's."""
    return reader.column(
        "SELECT id FROM node WHERE graph=? AND file=? AND line=?", graph, file, line
    )


def nodes_of_stage(reader: SessionReader, nodes: Iterable[int], stage: model.Stage) -> list[int]:
    """Return the nodes that belong to a graph of this stage, sorted."""
    ranges = reader.query(
        "SELECT first_node, first_node + node_count FROM graph WHERE stage=? ORDER BY first_node",
        (stage,),
    )
    return _within(sorted(nodes), ranges)


def nodes_lowered_forward(reader: SessionReader, nodes: Iterable[int]) -> list[int]:
    """Return the nodes in a forward (or inference) graph from which kernels were made."""
    lowered = "stage = 'post_grad' AND direction != 'backward'"
    return _within(
        nodes,
        reader.query(f"SELECT first_node, first_node + node_count FROM graph WHERE {lowered}"),
    )


def _within(nodes: Iterable[int], ranges: Collection[tuple[int, int]]) -> list[int]:
    return [node for node in nodes if any(first <= node < end for first, end in ranges)]


def input_names(reader: SessionReader, graph: model.Graph) -> dict[int, list[str]]:
    """Return the names of the nodes that each node of a graph takes, by the id of the node that
    takes them.
    """
    rows = reader.query(
        "SELECT edge.consumer, node.name FROM edge JOIN node ON node.id = edge.producer "
        "WHERE edge.consumer >= ? AND edge.consumer < ?",
        (graph.first_node, graph.first_node + graph.node_count),
    )
    names: dict[int, list[str]] = {}
    for consumer, name in rows:
        names.setdefault(consumer, []).append(name)
    return names


def leading_placeholders(reader: SessionReader, graph: model.Graph) -> int:
    """Return how many inputs stand before a graph's first operation."""
    end = graph.first_node + graph.node_count
    asked = (
        "SELECT position FROM node WHERE id >= ? AND id < ? AND op != 'placeholder' ORDER BY "
        "id LIMIT 1"
    )
    positions = reader.query(asked, (graph.first_node, end))
    return positions[0][0] if positions else graph.node_count


def sources_of_inputs(reader: SessionReader, nodes: Iterable[int]) -> dict[int, str]:
    """Return torch's source of each of these nodes that is an input of a graph of Dynamo's."""
    asked = (
        "SELECT node, source FROM local_tensor WHERE is_input AND node IN (SELECT value FROM "
        "json_each(?))"
    )
    return dict(reader.query(asked, (json_list(nodes),)))


# What stands before and after a stage.


class PlainNode(NamedTuple):
    """An operation without its texts: a graph of 100,000 nodes is compared without reading
    those.
    """

    id: int
    is_view: bool
    is_backward: bool


def plain_operations(reader: SessionReader, graphs: Iterable[int]) -> list[PlainNode]:
    """Return the operations of these graphs, in the order of the graphs."""
    operations = []
    for graph in graphs:
        rows = reader.query(
            f"SELECT id, is_view, is_backward FROM node WHERE graph=? AND {IS_CALL} ORDER "
            "BY position",
            (graph,),
        )
        operations += [
            PlainNode(number, bool(view), bool(backward)) for number, view, backward in rows
        ]
    return operations


class NodeOrigin(NamedTuple):
    """Operation ``child`` of a later graph is, or came from, operation ``parent`` of an earlier
    one.
    """

    child: int
    parent: int
    is_copy: bool
    """Whether every link on the way says that it is the same node, or a copy."""
    differs: bool
    """Whether name, target, arguments, shape or type differ from those of the parent."""


def origins(
    reader: SessionReader, before: Collection[int], after: Collection[int]
) -> list[NodeOrigin]:
    """Return which operations of the graphs ``after`` come from which of the graphs ``before``,
    also through graphs in between, such as an edited one.

    A node that is only known to lie on the same line as several others came from none of them.
    """
    earlier, later = _within_stages(reader, before), _within_stages(reader, after)
    if not earlier or not later:
        return []
    known = (
        "link.how != 'stack_trace' OR (SELECT count(*) FROM link AS other WHERE other.child "
        "= link.child) = 1"
    )
    copy = "link.how IN ('identity', 'name')"
    rows = reader.query(
        f"WITH RECURSIVE up(origin, id, copy) AS (SELECT child, parent, {copy} FROM link WHERE "
        f"({_in(later, 'child')}) AND ({known}) UNION SELECT up.origin, link.parent, up.copy AND "
        f"{copy} FROM up JOIN link ON link.child = up.id WHERE NOT ({_in(earlier, 'up.id')}) AND "
        f"({known})) SELECT up.origin, up.id, max(up.copy), later.name != node.name OR "
        "later.target != node.target OR later.arguments != node.arguments OR later.shape IS NOT "
        "node.shape OR later.dtype != node.dtype FROM up JOIN node AS later ON later.id = "
        f"up.origin AND later.op LIKE 'call_%' JOIN node ON node.id = up.id AND {IS_CALL} WHERE "
        f"{_in(earlier, 'up.id')} GROUP BY 1, 2 ORDER BY 1, 2"
    )
    return [
        NodeOrigin(child, parent, bool(is_copy), bool(differs))
        for child, parent, is_copy, differs in rows
    ]


def left_out(reader: SessionReader, graphs: Collection[int]) -> dict[int, LeftOutReason]:
    """Return, by its id, why AOTAutograd's graph may have no node for an operation of these
    graphs.
    """
    ranges = _within_stages(reader, graphs)
    if not ranges:
        return {}
    return dict(reader.query(f"SELECT node, reason FROM left_out WHERE {_in(ranges, 'node')}"))


def _within_stages(reader: SessionReader, graphs: Collection[int]) -> list[tuple[int, int]]:
    with_nodes = [graph for graph in reader.by_ids(model.Graph, graphs) if graph.node_count]
    return [(graph.first_node, graph.first_node + graph.node_count) for graph in with_nodes]


def _in(ranges: list[tuple[int, int]], column: str) -> str:
    """Return a condition; the ranges are whole numbers, and may be more than SQLite's limit of
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
    lines: set[tuple[int, int]] = set()
    for graph in graphs:
        lines |= set(
            reader.query(
                f"SELECT DISTINCT file, line FROM node WHERE graph=? AND file AND {IS_CALL}",
                (graph,),
            )
        )
    return len(lines)
