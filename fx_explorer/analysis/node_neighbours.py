"""This module finds the neighbourhood of a node: its inputs and users up to two steps away, with
the edges between these nodes and the kernels that compute them.

A node may have a thousand users. Of each side and step only some are returned, and how many more
there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fx_explorer import model
from fx_explorer.analysis.input_names import user_names_of_nodes
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.nodes import (
    edges_among,
    kernels_by_node,
    neighbours_of,
    operation_counts_of,
)

HOPS = 2
SHOWN_AT_A_STEP = 10
"""Nodes of one side and step that are returned, unless more are requested."""

Step = int
"""Number of steps from the node: negative towards its inputs, positive towards its users."""


@dataclass(frozen=True)
class Neighbourhood:
    """A node with the nodes within two steps of it, their edges and their kernels."""

    centre: model.Node
    nodes: Mapping[int, model.Node]
    """Nodes by id, including the centre."""
    steps: Mapping[int, Step]
    """Distance of each node, by the shortest path."""
    edges: Sequence[tuple[int, int]]
    """(producer, consumer) for all edges between these nodes."""
    more: Mapping[Step, int]
    """Number of further nodes at a step."""
    kernels: Mapping[int, model.Kernel] = field(default_factory=dict)
    """Node → the kernel that computes it; nodes without a known kernel are left out."""
    sizes: Mapping[int, int] = field(default_factory=dict)
    """How many operations a kernel computes in all, by kernel."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Node → the user's name."""


def neighbourhood(
    reader: SessionReader, node: int, shown: Mapping[Step, int] | None = None
) -> Neighbourhood:
    """Find the neighbourhood of a node. ``shown`` has the number of nodes of a step, if it differs
    from SHOWN_AT_A_STEP.
    """
    limits = shown or {}
    steps: dict[int, Step] = {node: 0}
    more: dict[Step, int] = {}
    for side in (-1, 1):
        nearest = [node]
        for distance in range(1, HOPS + 1):
            step = side * distance
            nodes_at_step = [
                number for number in neighbours_of(reader, nearest, side) if number not in steps
            ]
            limit = limits.get(step, SHOWN_AT_A_STEP)
            nearest = nodes_at_step[:limit]
            steps.update(dict.fromkeys(nearest, step))
            if len(nodes_at_step) > limit:
                more[step] = len(nodes_at_step) - limit
    nodes = {row.id: row for row in reader.by_ids(model.Node, steps)}
    graph = reader.get(model.Graph, nodes[node].graph)
    kernels, sizes = _kernels(reader, list(nodes), graph)
    return Neighbourhood(
        nodes[node],
        nodes,
        {number: step for number, step in steps.items() if number in nodes},
        edges_among(reader, nodes),
        more,
        kernels,
        sizes,
        user_names_of_nodes(reader, {number: row.name for number, row in nodes.items()}),
    )


def _kernels(
    reader: SessionReader, nodes: Sequence[int], graph: model.Graph
) -> tuple[dict[int, model.Kernel], dict[int, int]]:
    """Return the kernel of each node, and how many operations each of these kernels computes. Among
    several kernels of a node, it is the one that computes most of the other nodes too, to show what
    the node is fused with.
    """
    of_nodes = kernels_by_node(reader, nodes, graph.direction)
    shared: Counter[int] = Counter()
    for kernels in of_nodes.values():
        shared.update(kernels)

    def most_shared(kernels: Iterable[int]) -> int:
        return min(kernels, key=lambda kernel: (-shared[kernel], kernel))

    chosen = {node: most_shared(kernels) for node, kernels in of_nodes.items()}
    rows = {kernel.id: kernel for kernel in reader.by_ids(model.Kernel, set(chosen.values()))}
    kernel_rows = {node: rows[kernel] for node, kernel in chosen.items()}
    return kernel_rows, operation_counts_of(reader, rows)
