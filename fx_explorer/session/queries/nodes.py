"""This module has the queries about nodes: data of nodes with given ids, searches, a node's inputs
and users, and the modules of nodes.

What is asked of given ids runs on every move of the cursor, so it is answered inside SQLite.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.session.queries.sql import IS_CALL, IS_COUNTED, among, computed_nodes
from fx_explorer.session.reader import SessionReader, json_list


def operation_names(
    reader: SessionReader, nodes: Iterable[int], stage: model.Stage | None = None
) -> list[str]:
    """Return the names of those nodes that are operations (of this stage), each once, in the order
    of the ids.
    """
    graphs = "SELECT id FROM graph"
    values: list[object] = [json_list(nodes)]
    if stage:
        graphs = "SELECT id FROM graph WHERE stage=?"
        values.append(stage)
    # SQLite keeps to the order of a CROSS JOIN: the wanted nodes first, each found by its id.
    return reader.column(
        "SELECT DISTINCT node.name FROM json_each(?) AS wanted CROSS JOIN node ON node.id = "
        f"wanted.value WHERE node.op LIKE 'call_%' AND node.graph IN ({graphs})",
        *values,
    )


MOST_COUNTED = 20_000
"""Maximum number of nodes whose lines are counted: counting those of a larger session would keep
the screen waiting.
"""

_OF_DYNAMO = (
    "SELECT id FROM node WHERE graph IN (SELECT id FROM graph WHERE stage='dynamo') AND file AND "
    f"{IS_CALL} LIMIT {MOST_COUNTED}"
)


def operations_by_source_line(reader: SessionReader) -> dict[int, dict[int, int]]:
    """Return id of a SourceFile → line (from 1) → how many operations of Dynamo's graphs are
    written on it, of the first ``MOST_COUNTED`` operations.
    """
    rows = reader.query(
        f"SELECT file, line, count(*) FROM node WHERE id IN ({_OF_DYNAMO}) GROUP BY file, line"
    )
    lines: dict[int, dict[int, int]] = {}
    for file, line, count in rows:
        lines.setdefault(file, {})[line] = count
    return lines


def operations_on_line(reader: SessionReader, file: int, line: int) -> list[int]:
    """Return the operations of Dynamo's graphs that are written on a line of a SourceFile."""
    return reader.column(
        "SELECT node.id FROM node JOIN graph ON graph.id = node.graph WHERE graph.stage='dynamo' "
        f"AND node.file=? AND node.line=? AND {IS_CALL} ORDER BY node.id LIMIT {MOST_COUNTED}",
        file,
        line,
    )


def stacks_by_source_line(reader: SessionReader, file: int) -> dict[int, int]:
    """Return line (from 1) of a SourceFile → how many stacks of operations pass through it, of
    those of the first ``MOST_COUNTED`` operations.
    """
    return dict(
        reader.query(
            "SELECT line, count(DISTINCT stack) FROM stack_line WHERE file=? AND stack IN "
            f"(SELECT stack FROM node WHERE id IN ({_OF_DYNAMO})) GROUP BY line",
            (file,),
        )
    )


def targets_of_nodes(reader: SessionReader, nodes: Iterable[int]) -> dict[int, tuple[int, str]]:
    """Return node → (graph, target)."""
    rows = reader.query(
        "SELECT node.id, node.graph, node.target FROM json_each(?) AS wanted CROSS JOIN node ON "
        "node.id = wanted.value",
        (json_list(nodes),),
    )
    return {node: (graph, target) for node, graph, target in rows}


def operation_counts(
    reader: SessionReader, nodes: Iterable[int]
) -> dict[tuple[model.Stage, model.Direction], int]:
    """Return how many of the nodes are operations, by the stage and direction of their graph."""
    rows = reader.query(
        "SELECT graph.stage, graph.direction, count(*) FROM json_each(?) AS wanted JOIN node ON "
        "node.id = wanted.value JOIN graph ON graph.id = node.graph WHERE node.op LIKE 'call_%' "
        "GROUP BY 1, 2",
        (json_list(nodes),),
    )
    return {(stage, direction): count for stage, direction, count in rows}


def between_devices(reader: SessionReader, targets: Iterable[str]) -> list[tuple[int, int]]:
    """Return (node, argument) for the nodes that call one of these operators with an argument on
    another device than their result.
    """
    rows = reader.query(
        "SELECT node.id, min(given.id) FROM node JOIN edge ON edge.consumer = node.id JOIN node AS "
        "given ON given.id = edge.producer WHERE node.target IN (SELECT value FROM json_each(?)) "
        "AND node.device != '' AND given.device != '' AND node.device != given.device "
        "GROUP BY node.id ORDER BY node.id",
        (json_list(targets),),
    )
    return [(node, given) for node, given in rows]


def compilations_of_nodes(reader: SessionReader, nodes: Iterable[int]) -> set[int]:
    """Return the ids of the compilations that the nodes belong to."""
    ids = reader.column(
        "SELECT DISTINCT graph.compilation FROM json_each(?) AS wanted CROSS JOIN node ON node.id "
        "= wanted.value JOIN graph ON graph.id = node.graph WHERE graph.compilation",
        json_list(nodes),
    )
    return set(ids)


def user_stacks(reader: SessionReader, nodes: Iterable[int]) -> list[tuple[model.Frame, ...]]:
    """Return the distinct user stacks of the nodes, each outermost frame first."""
    stacks = (
        "SELECT DISTINCT node.stack FROM json_each(?) JOIN node ON node.id = json_each.value "
        "WHERE node.stack"
    )
    ids = reader.column(stacks, json_list(nodes))
    return [stack.frames for stack in reader.by_ids(model.Stack, ids)]


def stacks_of_nodes(reader: SessionReader) -> dict[int, int]:
    """Return node → its Stack, for each node of a session that has one."""
    return dict(reader.query("SELECT id, stack FROM node WHERE stack"))


def returned_nodes(reader: SessionReader, nodes: Iterable[int]) -> set[int]:
    """Return the nodes that their graph returns."""
    ids = reader.column(
        "SELECT edge.producer FROM json_each(?) AS wanted JOIN edge ON edge.producer = "
        "wanted.value JOIN node ON node.id = edge.consumer WHERE node.op = 'output'",
        json_list(nodes),
    )
    return set(ids)


def users_of_inputs(reader: SessionReader, nodes: Iterable[int]) -> set[int]:
    """Return the ids of the nodes that use any of ``nodes``, for those that are placeholders."""
    ids = reader.column(
        "SELECT edge.consumer FROM json_each(?) AS wanted JOIN edge ON edge.producer = "
        "wanted.value JOIN node ON node.id = edge.producer WHERE node.op = 'placeholder'",
        json_list(nodes),
    )
    return set(ids)


def first_operation(reader: SessionReader, graph: int) -> int:
    """Return the row of the first operation that a generated kernel computes; else of the first one
    with a user line.
    """
    rows = reader.query(
        "SELECT node.position FROM kernel JOIN line_node ON line_node.artifact = kernel.artifact "
        "JOIN node ON node.id = line_node.node WHERE node.graph=? AND node.line ORDER BY 1 LIMIT 1",
        (graph,),
    ) or reader.query(
        "SELECT position FROM node WHERE graph=? AND op LIKE 'call_%' ORDER BY NOT (NOT "
        "is_view AND line), position LIMIT 1",
        (graph,),
    )
    return int(rows[0][0]) if rows else 0


def first_operation_on(reader: SessionReader, graph: int, rows: Iterable[int]) -> int | None:
    """Return the first of some rows of a graph that is an operation; None without one."""
    ((first,),) = reader.query(
        "SELECT min(position) FROM json_each(?) AS wanted CROSS JOIN node ON node.graph=? AND "
        "node.position = wanted.value WHERE node.op LIKE 'call_%'",
        (json_list(rows), graph),
    )
    if first is None:
        return None
    return int(first)


def nodes_beginning(reader: SessionReader, beginning: str, limit: int) -> list[int]:
    """Return the ids of nodes whose name begins so, the shortest names first. An index finds
    them.
    """
    # A range of the index; a LIKE would be a scan, and take ``_`` for any letter.
    begins = "SELECT id FROM node WHERE name>=? AND name<? ORDER BY length(name), id LIMIT ?"
    return reader.column(begins, beginning, beginning + "\uffff", limit)


def nodes_containing(reader: SessionReader, words: Collection[str], limit: int) -> list[int]:
    """Return the ids of nodes with all words in their name, target or module. It scans once, and
    stops when it has enough.
    """
    return _nodes_with(reader, "name || ' ' || target || ' ' || module", words, limit)


def nodes_taking(reader: SessionReader, words: Collection[str], limit: int) -> list[int]:
    """Return the ids of nodes with all words in their target and arguments: ``to float16``."""
    return _nodes_with(reader, "target || ' ' || arguments", words, limit)


def _nodes_with(reader: SessionReader, text: str, words: Collection[str], limit: int) -> list[int]:
    condition = " AND ".join([f"({text}) LIKE ? ESCAPE '\\'"] * len(words))
    return reader.column(
        f"SELECT id FROM node WHERE {condition} LIMIT ?", *map(_like, words), limit
    )


def _like(word: str) -> str:
    escaped = word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def squeezes(reader: SessionReader) -> list[tuple[str, int, str, str]]:
    """Return the calls of ``squeeze`` in Dynamo's graphs on tensors that have a size without a
    value, in graph order: file, line, arguments, and the shape of the tensor in JSON.
    """
    return reader.query(
        "SELECT coalesce(source_file.path, ''), node.line, node.arguments, given.shape FROM node "
        "JOIN graph ON graph.id = node.graph AND graph.stage = 'dynamo' JOIN node AS given ON "
        "given.graph = node.graph AND (node.arguments = given.name OR substr(node.arguments, 1, "
        "length(given.name) + 1) = given.name || ',') LEFT JOIN source_file ON source_file.id = "
        "node.file WHERE node.op IN ('call_method', 'call_function') AND given.shape LIKE '%u%' "
        "AND (node.target IN ('squeeze', 'squeeze_') OR node.target LIKE '%.squeeze') ORDER BY "
        "node.id"
    )


# What a node is made from and what uses it, and in which kernels nodes end.


def neighbours_of(reader: SessionReader, nodes: Iterable[int], side: int) -> list[int]:
    """Return the arguments of these nodes (``side`` -1) or their users (1), each once, in the order
    of the graph.
    """
    if side < 0:
        given, wanted = ("consumer", "producer")
    else:
        given, wanted = ("producer", "consumer")
    asked = (
        f"SELECT DISTINCT edge.{wanted} FROM json_each(?) AS wanted CROSS JOIN edge ON "
        f"edge.{given} = wanted.value ORDER BY 1"
    )
    return reader.column(asked, json_list(nodes))


def users_by_node(reader: SessionReader, nodes: Iterable[int]) -> dict[int, list[int]]:
    """Return node → the nodes that take it as an argument, in the order of the graph."""
    uses = reader.query(
        "SELECT DISTINCT edge.producer, edge.consumer FROM json_each(?) AS wanted "
        "CROSS JOIN edge ON edge.producer = wanted.value ORDER BY 2",
        (json_list(nodes),),
    )
    users: dict[int, list[int]] = {}
    for producer, consumer in uses:
        users.setdefault(producer, []).append(consumer)
    return users


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
    """Return node → the kernels that compute it, or the later nodes that come from it: those of
    ``direction``, if given.
    """
    condition = "(? = '' OR kernel.direction = ?)"
    rows = reader.query(
        "WITH RECURSIVE reached(origin, id) AS (SELECT value, value FROM json_each(?) UNION SELECT "
        "reached.origin, link.child FROM reached JOIN link ON link.parent = reached.id) SELECT "
        "reached.origin, kernel.id FROM reached JOIN line_node ON line_node.node = reached.id "
        f"CROSS JOIN kernel ON kernel.artifact = line_node.artifact WHERE {condition} UNION SELECT "
        "reached.origin, kernel.id FROM reached JOIN line_node ON line_node.node = reached.id "
        "CROSS JOIN kernel ON kernel.output_code = line_node.artifact AND kernel.first_line = "
        f"line_node.line WHERE NOT kernel.artifact AND {condition} ORDER BY 1, 2",
        (json_list(nodes), *[direction] * 4),
    )
    kernels: dict[int, list[int]] = {}
    for node, kernel in rows:
        kernels.setdefault(node, []).append(kernel)
    return kernels


def operation_counts_of(reader: SessionReader, kernels: Iterable[int]) -> dict[int, int]:
    """Return how many nodes each of these kernels computes, by its id."""
    wanted = json_list(kernels)
    return dict(
        reader.query(
            "SELECT kernel.id, count(DISTINCT line_node.node) FROM json_each(?) AS wanted JOIN "
            "kernel ON kernel.id = wanted.value JOIN line_node ON line_node.artifact = "
            "kernel.artifact WHERE kernel.artifact GROUP BY 1 UNION SELECT kernel.id, "
            "count(DISTINCT line_node.node) FROM json_each(?) AS wanted JOIN kernel ON kernel.id = "
            "wanted.value JOIN line_node ON line_node.artifact = kernel.output_code AND "
            "line_node.line = kernel.first_line WHERE NOT kernel.artifact GROUP BY 1",
            (wanted, wanted),
        )
    )


# Modules: which nodes, kernels and graphs are of which of the user's.


class ModuleNodes(NamedTuple):
    """Nodes of one compilation that share their module, its type, and whether a user's line is
    known.
    """

    compilation: int
    module: str
    """Path of the innermost module; empty for none."""
    module_type: str
    is_of_user: bool
    """Whether a line of the user's is known."""
    node_count: int


def captured_by_module(reader: SessionReader, graphs: Collection[int] | None) -> list[ModuleNodes]:
    """Return the operations of the graphs (None: of all) that Dynamo passed to the backend, with
    those of nested graphs, in the order of each module's first operation.
    """
    rows = reader.query(
        "SELECT graph.compilation, node.module, node.module_type, node.line > 0, count(*) FROM "
        f"node JOIN graph ON graph.id = node.graph WHERE graph.stage='dynamo' AND {IS_CALL} AND "
        f"{IS_COUNTED} AND {among(graphs, 'graph.id')} GROUP BY 1, 2, 3, 4 ORDER BY min(node.id)"
    )
    return [ModuleNodes(*row) for row in rows]


def types_of_called_modules(reader: SessionReader) -> dict[int, str]:
    """Return the type of the module that a function calls, by the id of the compilation: its path
    begins with the module, so that of the module itself is empty.
    """
    return dict(
        reader.query(
            "SELECT graph.compilation, min(node.module_type) FROM node JOIN graph ON graph.id = "
            "node.graph WHERE graph.stage='dynamo' AND node.module='' AND node.module_type!='' "
            "GROUP BY 1"
        )
    )


class ComputedNode(NamedTuple):
    """A node that a kernel computes in one of its calls; ``call`` is 0 if it does in every call."""

    kernel: int
    call: int
    module: str
    module_type: str
    is_of_user: bool


def computed_by_calls(reader: SessionReader) -> list[ComputedNode]:
    """Return, for every kernel, the modules of the nodes that its calls compute, each once."""
    rows = reader.query(
        "SELECT DISTINCT kernel, call, node.module, node.module_type, node.line > 0 FROM "
        f"{computed_nodes(with_calls=True)} JOIN node ON node.id = computed"
    )
    return [ComputedNode(*row) for row in rows]


def ids_of_calls(reader: SessionReader) -> dict[int, list[int]]:
    """Return the ids of the calls of each kernel, in their order, by the id of the kernel."""
    calls: dict[int, list[int]] = {}
    for kernel, call in reader.query(
        "SELECT kernel, id FROM kernel_call ORDER BY kernel, position, id"
    ):
        calls.setdefault(kernel, []).append(call)
    return calls


def seconds_by_compilation(reader: SessionReader) -> dict[int, float]:
    """Return the seconds of each compilation, by its id. They add up to ``compile_seconds``:
    further variants of a stepped-through compilation are left out.
    """
    spans = (
        "SELECT coalesce(sum(duration_s), 0) FROM span WHERE depth=0 AND "
        "span.compilation=compilation.id"
    )
    return dict(
        reader.query(f"SELECT id, max(duration_s, ({spans})) FROM compilation WHERE variant_of=''")
    )


class InModule(NamedTuple):
    """A choice of nodes: those in a module of some compilations, or below it."""

    compilations: Collection[int]
    module: str
    """Path of the module; empty for any module."""
    of_root: Collection[int] = ()
    """The compilations whose own code belongs to a module."""
    is_outside: bool = False
    """Whether the nodes outside of all modules are meant instead."""


def _condition(wanted: InModule) -> tuple[str, list[object]]:
    compilations = among(wanted.compilations, "graph.compilation")
    of_root = f"(node.line AND {among(wanted.of_root, 'graph.compilation')})"
    outside = f"(node.module='' AND node.module_type='' AND NOT {of_root})"
    if wanted.is_outside:
        return f"{compilations} AND {outside}", []
    if not wanted.module:
        return f"{compilations} AND NOT {outside}", []
    # A range of names, where a LIKE would take ``_`` for any letter: "/" comes after ".".
    inside = "(node.module=? OR (node.module > ? AND node.module < ?))"
    return f"{compilations} AND {inside}", [wanted.module, f"{wanted.module}.", f"{wanted.module}/"]


def nodes_in_module(reader: SessionReader, wanted: InModule) -> list[int]:
    """Return the ids of the nodes, ascending."""
    condition, values = _condition(wanted)
    joined = "FROM node JOIN graph ON graph.id = node.graph"
    return reader.column(f"SELECT node.id {joined} WHERE {condition} ORDER BY node.id", *values)


def rows_in_module(reader: SessionReader, graph: model.Graph, wanted: InModule) -> list[int]:
    """Return the rows of a graph whose nodes are meant, ascending."""
    condition, values = _condition(wanted)
    return reader.column(
        "SELECT node.position FROM graph JOIN node ON node.id >= graph.first_node AND node.id < "
        f"graph.first_node + graph.node_count WHERE graph.id=? AND {condition} ORDER BY node.id",
        graph.id,
        *values,
    )


def first_in_module(reader: SessionReader, wanted: InModule) -> list[int]:
    """Return the id of the first matching operation (else of the first node); empty for none."""
    condition, values = _condition(wanted)
    return reader.column(
        f"SELECT node.id FROM node JOIN graph ON graph.id = node.graph WHERE {condition} ORDER BY "
        "node.op NOT LIKE 'call_%', node.id LIMIT 1",
        *values,
    )


def communication_nodes(reader: SessionReader, graph: int) -> list[int]:
    """Return the nodes of a graph that call an operator for communication between ranks."""
    return reader.column(
        "SELECT id FROM node WHERE graph = ? AND op = 'call_function' AND (target LIKE '%c10d%' "
        "OR target LIKE '_dtensor.%') ORDER BY id",
        graph,
    )
