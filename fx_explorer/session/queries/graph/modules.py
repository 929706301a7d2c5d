"""Modules: which nodes, kernels and graphs are of which of the user's."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from fx_explorer import model
from fx_explorer.session.queries.sql import IS_CALL, among, column, computed_nodes
from fx_explorer.session.reader import SessionReader


class ModuleNodes(NamedTuple):
    """Nodes of one compilation that torch says the same of."""

    compilation: int
    module: str
    """Path of the innermost module; empty for none."""
    module_type: str
    is_of_user: bool
    """Whether a line of the user's is known."""
    node_count: int


def captured_by_module(reader: SessionReader, graphs: Collection[int] | None) -> list[ModuleNodes]:
    """Return the operations of the graphs (None: of all) that Dynamo handed to the backend, with
    those of nested graphs, in the order of the first of each.
    """
    found = reader.query(
        "SELECT graph.compilation, node.module, node.module_type, node.line > 0, "
        "count(*) FROM node "
        f"JOIN graph ON graph.id = node.graph WHERE graph.stage='dynamo' AND {IS_CALL} "
        f"AND {among(graphs, 'graph.id')} GROUP BY 1, 2, 3, 4 ORDER BY min(node.id)"
    )
    return [ModuleNodes(*row) for row in found]


def types_of_called_modules(reader: SessionReader) -> dict[int, str]:
    """Return the type of the module that a function calls, by the id of the compilation: its path
    begins with the module, so that of the module itself is empty.
    """
    return dict(
        reader.query(
            "SELECT graph.compilation, min(node.module_type) FROM node JOIN graph ON "
            "graph.id = node.graph "
            "WHERE graph.stage='dynamo' AND node.module='' AND node.module_type!='' GROUP BY 1"
        )
    )


class ComputedNode(NamedTuple):
    """A node that a call of a kernel computes; call 0: every call of it."""

    kernel: int
    call: int
    module: str
    module_type: str
    is_of_user: bool


def computed_by_calls(reader: SessionReader) -> list[ComputedNode]:
    """Return for every kernel the modules of what its calls compute, each once."""
    found = reader.query(
        "SELECT DISTINCT kernel, call, node.module, node.module_type, node.line > 0 FROM "
        f"{computed_nodes(with_calls=True)} "
        "JOIN node ON node.id = computed"
    )
    return [ComputedNode(*row) for row in found]


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
    variants of one that was stepped through are left out.
    """
    spans = (
        "SELECT coalesce(sum(duration_s), 0) FROM span WHERE depth=0 AND "
        "span.compilation=compilation.id"
    )
    return dict(
        reader.query(f"SELECT id, max(duration_s, ({spans})) FROM compilation WHERE variant_of=''")
    )


class InModule(NamedTuple):
    """Which nodes are meant: those in a module of some compilations, or below it."""

    compilations: Collection[int]
    module: str
    """Its path; empty for everything that is in any module."""
    of_root: Collection[int] = ()
    """The compilations whose own code is a module's."""
    is_outside: bool = False
    """Whether those are meant that are in no module instead."""


def _condition(wanted: InModule) -> tuple[str, list[object]]:
    compilations = among(wanted.compilations, "graph.compilation")
    own = f"(node.line AND {among(wanted.of_root, 'graph.compilation')})"
    outside = f"(node.module='' AND node.module_type='' AND NOT {own})"
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
    return column(reader, f"SELECT node.id {joined} WHERE {condition} ORDER BY node.id", *values)


def rows_in_module(reader: SessionReader, graph: model.Graph, wanted: InModule) -> list[int]:
    """Return the rows of a graph whose nodes are meant, ascending."""
    condition, values = _condition(wanted)
    return column(
        reader,
        "SELECT node.position FROM graph JOIN node ON node.id >= graph.first_node "
        "AND node.id < graph.first_node + graph.node_count WHERE graph.id=? AND "
        f"{condition} ORDER BY node.id",
        graph.id,
        *values,
    )


def first_in_module(reader: SessionReader, wanted: InModule) -> list[int]:
    """Return the id of the first operation (else of the first node) that is meant; empty for none."""
    condition, values = _condition(wanted)
    return column(
        reader,
        "SELECT node.id FROM node JOIN graph ON graph.id = node.graph "
        f"WHERE {condition} ORDER BY node.op NOT LIKE 'call_%', node.id LIMIT 1",
        *values,
    )
