"""This module lists the collectives of the graphs in use: operator, process group, order, bytes,
the user's line, and what runs between its start and the wait for its result.

What runs between is what may overlap with the communication. Inductor's generated code has the
order in which it is run; where there is none, the graph's order is said to be that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.words import counted, listed, size
from fx_explorer.instruments.memory.sizes import UnknownSize, shape_bytes
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.session.file_names import in_file
from fx_explorer.session.queries.kernels import CallInOrder, calls_in_order, nodes_of_calls
from fx_explorer.session.queries.nodes import communication_nodes

_NAMESPACES = ("_c10d_functional", "c10d_functional", "_c10d_functional_autograd", "_dtensor")

WAIT = "wait_tensor"

_GROUP = re.compile(r"'(?P<name>[^']{1,100})'\s*$")
"""Matches the name of the group at the end of a collective's arguments."""

_LATEST_STAGES: tuple[tuple[model.Stage, ...], ...] = (
    ("post_grad",),
    ("forward", "backward"),
    ("dynamo",),
)
"""The stages whose graphs are looked at, best first."""


@dataclass(frozen=True, slots=True)
class Between:
    """What runs between a collective's start and the wait for it."""

    names: tuple[str, ...]
    """Kernels and library calls; operators where no code was generated."""
    is_of_code: bool
    """Whether it is the order of generated code, and not that of the graph."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective of a graph."""

    node: model.Node
    compilation: str
    function: str
    direction: model.Direction
    operator: str
    """``all_gather_into_tensor``."""
    order: int
    """Its position among the collectives of its graph, from 1."""
    group: str
    """torch's name of the process group."""
    group_size: int
    """Number of ranks; -1 where it is not known."""
    group_description: str
    size_bytes: int
    """Bytes of the larger one of its input and its result on a rank; -1 where not known."""
    wait: model.Node | None
    """The node that waits for it; None where none does in this graph."""
    between: Between | None
    """What runs meanwhile; None without a wait."""
    redistribution: model.Redistribution | None
    """The redistribution of a DTensor that it is a part of."""
    file: str = ""
    line: int = 0

    @property
    def at(self) -> str:
        return in_file(self.file, self.line) if self.line else ""

    @property
    def group_text(self) -> str:
        """Return ``mesh_tp (2 ranks)``, or ``3 (2 ranks)``."""
        name = self.group_description or self.group or "not known"
        if self.group_size < 0:
            return name
        return f"{name} ({counted(self.group_size, 'rank')})"


@answered_once
def collectives(reader: SessionReader) -> tuple[Collective, ...]:
    """Return the collectives of the graphs in use, in their order."""
    return tuple(_Search(reader).all())


def is_collective(target: str) -> bool:
    """Return whether an operator is a collective that starts a communication."""
    namespace, _, name = target.removeprefix("torch.ops.").partition(".")
    name = name.partition(".")[0]
    return namespace in _NAMESPACES and not name.startswith(WAIT)


def operator_name(target: str) -> str:
    """Return ``all_reduce`` for ``_c10d_functional.all_reduce_.default``."""
    name = target.removeprefix("torch.ops.").split(".")[1]
    return name.rstrip("_")


class _Search:
    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._groups = {row.name: row for row in reader.rows(model.ProcessGroup)}
        self._redistributions = _redistributions_by_node(reader)

    def all(self) -> Iterator[Collective]:
        used = graphs_in_use(self._reader)
        graphs = [
            graph
            for graph in self._reader.rows(model.Graph)
            if (used is None or graph.id in used) and graph.compilation
        ]
        of_compilation: dict[int, list[model.Graph]] = {}
        for graph in graphs:
            of_compilation.setdefault(graph.compilation, []).append(graph)
        for compilation, members in of_compilation.items():
            owner = self._reader.get(model.Compilation, compilation)
            if owner.status == "restarted":
                continue
            for graph in _latest(members):
                yield from self._of_graph(graph, owner)

    def _of_graph(self, graph: model.Graph, owner: model.Compilation) -> Iterator[Collective]:
        named = self._reader.by_ids(model.Node, communication_nodes(self._reader, graph.id))
        starts = [node for node in named if is_collective(node.target)]
        starts.sort(key=lambda node: node.position)
        for order, node in enumerate(starts, 1):
            wait = self._wait(node)
            match = _GROUP.search(node.arguments)
            group = match["name"] if match else ""
            row = self._groups.get(group)
            path = self._reader.get(model.SourceFile, node.file).path if node.file else ""
            yield Collective(
                node=node,
                compilation=owner.name,
                function=owner.function,
                direction=graph.direction,
                operator=operator_name(node.target),
                order=order,
                group=group,
                group_size=row.size if row else -1,
                group_description=row.description if row else "",
                size_bytes=self._bytes(node),
                wait=wait,
                between=self._between(graph, owner, node, wait) if wait else None,
                redistribution=self._redistribution(node),
                file=path,
                line=node.line if path else 0,
            )

    def _wait(self, start: model.Node) -> model.Node | None:
        """Return the node that waits for a collective, or for one of its results."""
        pending = [start.id]
        for node in pending:
            for user in self._reader.by_ids(model.Node, self._reader.users(node)):
                if WAIT in user.target:
                    return user
                if user.target == "operator.getitem":
                    pending.append(user.id)
        return None

    def _bytes(self, node: model.Node) -> int:
        sizes = [_tensor_bytes(node)]
        producers = self._reader.by_ids(model.Node, self._reader.producers(node.id))
        given = [_tensor_bytes(producer) for producer in producers]
        sizes.append(sum(given) if given and min(given) >= 0 else -1)
        return max(sizes)

    def _between(
        self, graph: model.Graph, owner: model.Compilation, start: model.Node, wait: model.Node
    ) -> Between:
        names = _calls_between(self._reader, owner.name, start, wait)
        if names is not None:
            return Between(tuple(names), True)
        nodes = self._reader.nodes(graph, start.position + 1, wait.position)
        computing = [
            node.name
            for node in nodes
            if node.op == "call_function"
            and not node.is_view
            and not is_collective(node.target)
            and WAIT not in node.target
        ]
        return Between(tuple(computing), False)

    def _redistribution(self, node: model.Node) -> model.Redistribution | None:
        """Return the redistribution that a node, or the node that it was made from, is part of."""
        current = node.id
        for _ in range(_MOST_STAGES):
            if current in self._redistributions:
                return self._redistributions[current]
            parents = self._reader.parents([current])
            if not parents:
                return None
            current = parents[0].parent
        return None


_MOST_STAGES = 6
"""Number of graphs between Inductor's last one and the one that AOTAutograd traced, at most."""


def _latest(graphs: Sequence[model.Graph]) -> list[model.Graph]:
    """Return the graphs of the latest stage that has any, without those nested in others twice."""
    for stages in _LATEST_STAGES:
        latest = [graph for graph in graphs if graph.stage in stages]
        if latest:
            return sorted(latest, key=lambda graph: model.DIRECTIONS.index(graph.direction))
    return []


def _redistributions_by_node(reader: SessionReader) -> dict[int, model.Redistribution]:
    by_node = {}
    for row in reader.rows(model.Redistribution):
        for node in row.nodes:
            by_node[node] = row
    return by_node


def _tensor_bytes(node: model.Node) -> int:
    if node.shape is None:
        return -1
    try:
        return shape_bytes(node.dtype, node.shape, {})
    except UnknownSize:
        return -1


@answered_once
def _calls(reader: SessionReader) -> tuple[tuple[CallInOrder, frozenset[int]], ...]:
    """Return every call of generated code in order, with the nodes that it computes."""
    of_call: dict[tuple[int, int], list[int]] = {}
    for kernel, number, nodes in nodes_of_calls(reader):
        of_call[kernel, number] = nodes
    calls = []
    for call in calls_in_order(reader):
        nodes = of_call.get((call.kernel, call.call)) or of_call.get((call.kernel, 0), [])
        calls.append((call, frozenset(nodes)))
    return tuple(calls)


def _calls_between(
    reader: SessionReader, compilation: str, start: model.Node, wait: model.Node
) -> list[str] | None:
    """Return the kernels and library calls between two nodes in generated code; None where it does
    not have both.
    """
    names: list[str] = []
    has_started = False
    for call, nodes in _calls(reader):
        if call.compilation != compilation:
            continue
        if not is_communication_call(call.name):
            names.append(call.name)
        elif WAIT in call.name:
            if has_started and wait.id in nodes:
                return names
        # Inductor may say of the start that it is from the node that waits for it.
        elif operator_name(call.name) == operator_name(start.target) and (
            nodes & {start.id, wait.id}
        ):
            names, has_started = [], True
    return None


def is_communication_call(name: str) -> bool:
    """Return whether a library call starts a collective or waits for one."""
    return any(namespace in name for namespace in _NAMESPACES)


def is_communication(node: model.Node) -> bool:
    """Return whether a node starts a collective or waits for one."""
    return node.op == "call_function" and is_communication_call(node.target)


def describe_between(collective: Collective) -> str:
    """Return what runs while the collective does, in words."""
    if collective.wait is None:
        return "this graph does not wait for it"
    between = collective.between
    if between is None or not between.names:
        return "nothing: the graph waits for it at once"
    return listed(between.names, 3)


def describe_collective(collective: Collective) -> str:
    """Return all about a collective in a sentence or two."""
    amount = size(collective.size_bytes) if collective.size_bytes >= 0 else "bytes not known"
    text = f"{collective.operator} over {collective.group_text}, {amount}"
    if collective.at:
        text += f", from {collective.at}"
    text += f". Between its start and the wait: {describe_between(collective)}."
    if collective.between is not None and not collective.between.is_of_code:
        text += " This is the order of the graph; no code was generated for it here."
    if collective.redistribution is not None:
        text += f" It is part of {describe_redistribution(collective.redistribution)}."
    return text


def describe_redistribution(row: model.Redistribution) -> str:
    """Return ``a redistribution of f32[8, 8] on dp=2, tp=2: Shard(0) → Replicate()``."""
    whole = f"{row.dtype}[{', '.join(row.shape)}]" if row.shape else "a DTensor"
    return f"a redistribution of {whole} on {row.mesh}: {row.before} → {row.after}"


def needs_collective(reader: SessionReader, row: model.Redistribution) -> bool:
    """Return whether a redistribution was traced with a collective. A pass may have merged that
    with an equal one since.
    """
    nodes = reader.by_ids(model.Node, row.nodes)
    return any(is_collective(node.target) for node in nodes if node.op == "call_function")


def redistributions(
    reader: SessionReader,
) -> list[tuple[model.Redistribution, list[Collective]]]:
    """Return each redistribution of the graphs in use, with those of its collectives that the last
    graph still has.
    """
    used = graphs_in_use(reader)
    by_row: dict[int, list[Collective]] = {}
    for collective in collectives(reader):
        if collective.redistribution is not None:
            by_row.setdefault(collective.redistribution.id, []).append(collective)
    every = reader.rows(model.Redistribution)
    rows = [row for row in every if used is None or row.graph in used]
    return [(row, by_row.get(row.id, [])) for row in rows]
