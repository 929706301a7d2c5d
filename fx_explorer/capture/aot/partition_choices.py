"""This module records why a value is saved for the backward, or recomputed there: the partitioner's
decision, in its own figures.

``solve_min_cut`` (torch/_functorch/partitioners.py, read in 2.13) makes a graph of edges ``X_in`` →
``X_out``, as heavy as saving X is, gives what must not be computed again an edge from ``source``,
what the backward needs one to ``sink``, and has networkx find the smallest cut. The graph is read
when the partition is complete, and is not changed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.capture.aot.saved_tensors import known_bytes
from fx_explorer.capture.recording.compilation_state import RecordedGraph, Segment
from fx_explorer.capture.recording.fx_graphs import node_value
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    functorch_config,
    partitioners,
)
from fx_explorer.model import PartitionChoice
from fx_explorer.model.rows.graph import BUDGET, Choice, Ground


@dataclass(frozen=True)
class MinCut:
    """One minimum cut: networkx's graph, and the names of the nodes that are saved according to
    it.
    """

    edges: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(repr=False)
    """Edges of networkx's graph, with their capacities. Not part of the ``repr``, which would take
    seconds for a whole model.
    """

    saved: frozenset[str]
    distances: Mapping[str, int]


def cut_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Keep each cut that the partitioner makes, until the partition is recorded."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def solve_min_cut(joint_graph: torch.fx.Graph, *args: Any, **kwargs: Any) -> Any:
            graphs: list[Any] = []
            with _watched(graphs):
                result = original(joint_graph, *args, **kwargs)
            with recording.noting("why values are saved or recomputed", "forward"):
                if graphs:
                    recording.segment().cuts.append(_cut(joint_graph, graphs[-1], result[0]))
            return result

        return solve_min_cut

    return patched(partitioners, "solve_min_cut", make)


@contextlib.contextmanager
def _watched(graphs: list[Any]) -> Iterator[None]:
    """Note the graph that networkx is asked to cut inside the block. The partitioner looks
    ``minimum_cut`` up when it calls it.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def minimum_cut(graph: Any, *args: Any, **kwargs: Any) -> Any:
            graphs.append(graph)
            return original(graph, *args, **kwargs)

        return minimum_cut

    with patched(importlib.import_module("networkx"), "minimum_cut", make):
        yield


def _cut(joint: torch.fx.Graph, graph: Any, saved: list[torch.fx.Node]) -> MinCut:
    # The distance is an attribute that the partitioner puts on nodes, and that copies of them lack.
    distances = {
        node.name: int(node.dist_from_bw) for node in joint.nodes if hasattr(node, "dist_from_bw")
    }
    return MinCut(graph.adj, frozenset(node.name for node in saved), distances)


def add_partition_choices(
    recording: Recording, segment: Segment, partition: Callable[..., Any]
) -> None:
    """Add a row for each saved value, and for each operation of the forward that the backward
    recomputes. ``partition`` is the function that split the joint graph.
    """
    forward, backward = segment.aot["forward"], segment.aot["backward"]
    saved = {row.name for row in segment.saved.values() if row.kind != "number"}
    again = {node.name for node in backward.ids if node.op == "call_function"}
    cut = _decisive(segment.cuts, saved)
    without = "" if cut else _who_decided(recording, partition)
    rows = []
    for node in forward.ids:
        choice = _choice(node, saved, again)
        if choice:
            rows.append(_row(recording, forward, node, choice, cut or without))
    recording.writer.add_all(rows)
    segment.cuts.clear()
    if cut is not None and not _has_reasons(cut):
        recording.unavailable(
            "why torch rules out that a value is recomputed",
            f"torch {torch.__version__} does not record it when it partitions",
        )


def _who_decided(recording: Recording, partition: Callable[..., Any]) -> str:
    """Return who split a graph without a minimum cut: the memory budget, or the backend and its
    partition function, as ``mine: default_partition``. Empty where torch's own function had nothing
    to search.
    """
    if (
        functorch_config.activation_memory_budget == 0
        and partition is not partitioners.default_partition
    ):
        return BUDGET
    while isinstance(partition, functools.partial):
        partition = partition.func
    backend = recording.of(recording.compilation_name()).backend or recording.request.backend
    if backend == "inductor" or partition is partitioners.min_cut_rematerialization_partition:
        return ""
    return f"{backend}: {getattr(partition, '__name__', None) or type(partition).__name__}"


def _has_reasons(cut: MinCut) -> bool:
    """Return whether this torch notes why something is not to be computed again."""
    ruled_out = cut.edges.get("source", {}).values()
    return not ruled_out or any("reason" in edge for edge in ruled_out)


def _choice(node: torch.fx.Node, saved: set[str], again: set[str]) -> Choice | None:
    if node.name in saved:
        return "saved"
    if node.op == "call_function" and node.name in again:
        return "recomputed"
    return None


def _decisive(cuts: list[MinCut], saved: set[str]) -> MinCut | None:
    """Return the cut that was used: with a memory budget below 1 torch computes several, and takes
    the first that is small enough.
    """
    return max(
        reversed(cuts),
        key=lambda cut: len(cut.saved & saved) - len(cut.saved ^ saved),
        default=None,
    )


def _row(
    recording: Recording,
    forward: RecordedGraph,
    node: torch.fx.Node,
    choice: Choice,
    decided_by: MinCut | str,
) -> PartitionChoice:
    value = node_value(node)
    if isinstance(value, torch.Tensor):
        size_bytes = known_bytes(value.numel() * value.element_size())
    else:
        size_bytes = -1
    cut: MinCut | None = None
    ground: Ground = "no_cut"
    weight: Any = math.inf
    distance = -1
    if isinstance(decided_by, MinCut):
        cut = decided_by
        ground, reason = _ground(_computing(node).name, cut)
        weight = _edge(cut, f"{node.name}_in", f"{node.name}_out").get("capacity", math.inf)
        distance = cut.distances.get(node.name, -1)
    else:
        reason = decided_by
    if not math.isfinite(weight):
        weight = -1.0
    return PartitionChoice(
        id=0,
        compilation=recording.variant_id(),
        node=forward.ids[node],
        name=node.name,
        choice=choice,
        ground=ground,
        reason=reason,
        weight=float(weight),
        distance=distance,
        size_bytes=size_bytes,
    )


def _computing(node: torch.fx.Node) -> torch.fx.Node:
    """Return the operation that computes a value, through a getitem of its results: a rule that
    excludes the operation also applies to the value.
    """
    whole = node.args[0] if node.target is operator.getitem else node
    if isinstance(whole, torch.fx.Node):
        return whole
    return node


def _ground(name: str, cut: MinCut) -> tuple[Ground, str]:
    """Return why the partitioner saves or recomputes a value, with torch's own reason. A rule that
    forbids one of the two takes precedence over the minimum cut.
    """
    ruled_out: tuple[tuple[Ground, Mapping[str, Any]], ...] = (
        ("cannot_recompute", _edge(cut, "source", f"{name}_in")),
        ("must_recompute", _edge(cut, f"{name}_in", "sink")),
        ("cannot_save", _never_saved(_edge(cut, f"{name}_in", f"{name}_out"))),
    )
    for ground, edge in ruled_out:
        if edge:
            return ground, str(edge.get("reason", ""))
    return "cut", ""


def _never_saved(edge: Mapping[str, Any]) -> Mapping[str, Any]:
    if not math.isinf(edge.get("capacity", 0)):
        return {}
    return edge


def _edge(cut: MinCut, begin: str, end: str) -> Mapping[str, Any]:
    return cut.edges.get(begin, {}).get(end, {})
