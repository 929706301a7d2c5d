"""The cut: torch's own partitioner finds the largest segments of supported nodes that can run without a stop.

What the partitioner does not know is that some nodes must stay in order though no value passes
between them: random numbers, and writes into memory. No segment reaches across one.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner, Partition

from sample_backends.small_backend.operators import OPERATORS
from sample_backends.small_backend.support import SmallSupport

PREFIX = "segment_"


def partitioned(graph_module: GraphModule, support: SmallSupport) -> GraphModule:
    """Return a copy in which every segment is one call of a submodule: ``segment_0``, ``segment_1``, …"""
    copy = _copy(graph_module)
    ages = _ages(copy.graph)
    partitioner = CapabilityBasedPartitioner(copy, support, allows_single_node_partition=True)
    found = [
        part
        for proposed in partitioner.propose_partitions()
        for part in _by_age(proposed.nodes, ages)
    ]
    parts = [part for part in map(_tied_to_work, found) if part]
    places = {node: place for place, node in enumerate(copy.graph.nodes)}
    parts.sort(key=lambda part: min(places[node] for node in part))
    return partitioner.fuse_partitions(
        [Partition(number, part) for number, part in enumerate(parts)], prefix=PREFIX
    )


def _copy(graph_module: GraphModule) -> GraphModule:
    """Copy the graph only: the caller's stays as it is, and the constants are shared."""
    graph, copies = Graph(), dict[Node, Node]()
    graph.output(graph.graph_copy(graph_module.graph, copies))
    copy = GraphModule(graph_module, graph)
    for original, copied in copies.items():
        copied.meta = dict(original.meta)
    return copy


def _ages(graph: Graph) -> dict[Node, int]:
    """How many nodes that must stay in order come before each node. An item is as old as what it is taken from."""
    ages: dict[Node, int] = {}
    age = 0
    for node in graph.nodes:
        is_item = node.target is operator.getitem and isinstance(node.args[0], Node)
        ages[node] = ages[node.args[0]] if is_item else age
        age += has_order(node)
    return ages


def has_order(node: Node) -> bool:
    """Whether the node may draw random numbers or write into memory. What we do not know may."""
    if node.op != "call_function" or node.target is operator.getitem:
        return node.op == "call_module"
    if not isinstance(node.target, torch._ops.OpOverload):
        return getattr(node.target, "__module__", None) not in (
            "_operator",
            "math",
        )  # arithmetic on sizes is harmless
    return torch.Tag.nondeterministic_seeded in node.target.tags or node.target._schema.is_mutable


def _by_age(nodes: Iterable[Node], ages: dict[Node, int]) -> list[list[Node]]:
    parts: dict[int, list[Node]] = {}
    for node in nodes:
        parts.setdefault(ages[node], []).append(node)
    return list(parts.values())


def _tied_to_work(nodes: list[Node]) -> list[Node]:
    """Leave out views that nothing computed here needs or makes: they would only hold up what they look at."""
    members, tied = set(nodes), set[Node]()
    ahead = [
        node for node in nodes if node.op == "call_function" and not OPERATORS[node.target].is_view
    ]
    while ahead:
        node = ahead.pop()
        if node in members and node not in tied:
            tied.add(node)
            ahead += [*node.all_input_nodes, *node.users]
    return [node for node in nodes if node in tied]


def segments_of(cut: GraphModule) -> dict[str, GraphModule]:
    """Return the segments of a graph that ``partitioned`` returned, in the order in which they run."""
    return {
        str(node.target): getattr(cut, node.target)
        for node in cut.graph.nodes
        if node.op == "call_module" and node.target.startswith(PREFIX)
    }
