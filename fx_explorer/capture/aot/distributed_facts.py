"""This module records how DTensors are redistributed while AOTAutograd traces a graph, and the
process groups that a graph's collectives name.

DTensor's operators redistribute their inputs where placements do not fit, and the user does so
explicitly. Both go through ``redistribute_local_tensor``
(torch/distributed/tensor/_redistribute.py), which issues the collectives. It is watched while
AOTAutograd traces, and only in a process that has imported DTensor: nothing of torch's is imported
for it.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from fx_explorer.capture.aot.left_out import graph_being_traced, last_node, nodes_made_since
from fx_explorer.capture.recording.compilation_state import RecordedGraph, Segment
from fx_explorer.capture.recording.fx_graphs import (
    mesh_text,
    placement_text,
    short_dtype,
    sizes,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import OpOverload
from fx_explorer.model.rows.values import ProcessGroup, Redistribution

_WATCHED = "redistribute_local_tensor"

_CALLERS = (
    "torch.distributed.tensor._redistribute",
    "torch.distributed.tensor._dispatch",
    "torch.distributed.tensor._api",
)
"""Modules that have the function under its name."""

COLLECTIVE_NAMESPACES = frozenset(
    {"_c10d_functional", "c10d_functional", "_c10d_functional_autograd", "_dtensor", "symm_mem"}
)
"""Namespaces of operators that take the name of a process group."""


@dataclass(frozen=True)
class SeenRedistribution:
    """A redistribution that was traced, with the nodes that it added to the graph."""

    mesh: str
    before: str
    after: str
    shape: tuple[str, ...]
    dtype: str
    nodes: tuple[str, ...]


@contextlib.contextmanager
def watching_redistributions(recording: Recording) -> Iterator[None]:
    """Keep, inside the block, the redistributions that are traced, for the segment of the graph."""
    make = functools.partial(_watched, recording)
    with contextlib.ExitStack() as stack:
        with recording.noting("redistributions of DTensors", "joint"):
            for name in _CALLERS:
                module = sys.modules.get(name)
                if module is not None and hasattr(module, _WATCHED):
                    stack.enter_context(patched(module, _WATCHED, make))
        yield


def _watched(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def redistribute_local_tensor(
        local_tensor: Any, current_spec: Any, target_spec: Any, *args: Any, **kwargs: Any
    ) -> Any:
        graph, last = None, None
        with recording.noting("a redistribution of a DTensor", "joint"):
            graph = graph_being_traced()
            last = last_node(graph)
        result = original(local_tensor, current_spec, target_spec, *args, **kwargs)
        if graph is not None:
            with recording.noting("a redistribution of a DTensor", "joint"):
                made = nodes_made_since(graph, last) or []
                seen = _seen(current_spec, target_spec, made)
                if seen.before != seen.after:
                    recording.segment().redistributed.append(seen)
        return result

    return redistribute_local_tensor


def _seen(current: Any, target: Any, made: list[torch.fx.Node]) -> SeenRedistribution:
    whole = getattr(current, "tensor_meta", None)
    return SeenRedistribution(
        mesh=mesh_text(current.mesh),
        before=", ".join(map(placement_text, current.placements)),
        after=", ".join(map(placement_text, target.placements)),
        shape=sizes(whole.shape) if whole is not None else (),
        dtype=short_dtype(whole.dtype) if whole is not None else "",
        nodes=tuple(node.name for node in reversed(made)),
    )


def add_redistributions(recording: Recording, segment: Segment, traced: RecordedGraph) -> None:
    """Store what was seen, with the graph that AOTAutograd traced: joint or inference."""
    for seen in segment.redistributed:
        nodes = [traced.by_name[name] for name in seen.nodes if name in traced.by_name]
        row = Redistribution(
            id=0,
            graph=traced.graph.id,
            mesh=seen.mesh,
            before=seen.before,
            after=seen.after,
            shape=seen.shape,
            dtype=seen.dtype,
            nodes=tuple(nodes),
        )
        recording.writer.add(row)
    segment.redistributed.clear()


def add_process_groups(recording: Recording, module: torch.fx.GraphModule) -> None:
    """Store the process groups of a graph's collectives, each once in a session."""
    for node in module.graph.nodes:
        name = group_name(node)
        if name and name not in recording.process_groups:
            recording.process_groups.add(name)
            recording.writer.add(_group_row(name))


def group_name(node: torch.fx.Node) -> str:
    """Return the name of the process group of a collective; empty for another node."""
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace not in COLLECTIVE_NAMESPACES:
        return ""
    for position, argument in enumerate(target._schema.arguments):
        if argument.name != "group_name":
            continue
        given = node.kwargs.get("group_name")
        if given is None and position < len(node.args):
            given = node.args[position]
        return given if isinstance(given, str) else ""
    return ""


def _group_row(name: str) -> ProcessGroup:
    from fx_explorer.capture.torch_compat.private_names import _resolve_process_group

    try:
        group = _resolve_process_group(name)
    except (RuntimeError, ValueError, KeyError):  # it was destroyed, or was never made here
        return ProcessGroup(0, name, -1)
    ranks = tuple(torch.distributed.get_process_group_ranks(group))
    described = str(getattr(group, "group_desc", "") or "")
    return ProcessGroup(0, name, len(ranks), ranks, "" if described == "undefined" else described)
