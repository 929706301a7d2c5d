"""This module records the loop nests of C++ kernels: nodes of the scheduler that it did not fuse,
and that the code generator writes one after the other into one function.

Some of them share their outer loops (``OuterLoopFusedSchedulerNode``, torch/_inductor/codegen/
cpp.py). Whether those are really written once is known when the code is generated
(``CppScheduling.codegen_outer_loop_node``).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch

from fx_explorer.capture.inductor.kernel_text import origins
from fx_explorer.capture.recording.fx_graphs import computes_nothing, target_name
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched


@dataclass(frozen=True, slots=True)
class NestOfLoops:
    """A node that becomes loops of a C++ kernel; see LoopNest for the fields."""

    name: str
    loops: str
    buffers: frozenset[str]
    nodes: frozenset[str]
    """Names of the post-grad nodes that it computes."""
    outer: Any = None
    """The node whose outer loops it is to share; None without one."""

    @property
    def outer_name(self) -> str:
        return str(self.outer.get_name()) if self.outer is not None else ""

    @property
    def written(self) -> OuterLoops:
        """Return how the outer loops were written."""
        if self.outer is None:
            return NOT_SHARED
        return _outer_loops.get(self.outer, NOT_SHARED)


@dataclass(frozen=True, slots=True)
class OuterLoops:
    """How the outer loops of several nests were written."""

    is_shared: bool
    local_buffers: int = 0


NOT_SHARED = OuterLoops(is_shared=False)

_nests: WeakKeyDictionary[Any, Sequence[NestOfLoops]] = WeakKeyDictionary()
"""Scheduler → the nodes that C++ code is generated for."""

_outer_loops: WeakKeyDictionary[Any, OuterLoops] = WeakKeyDictionary()
"""OuterLoopFusedSchedulerNode → how its outer loops were written."""


@contextlib.contextmanager
def loop_nest_hook(recording: Recording) -> Iterator[None]:
    """Note whether outer loops are shared, for as long as the block lasts."""
    from fx_explorer.capture.torch_compat.private_names import cpp_codegen, inductor_metrics

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def codegen_outer_loop_node(scheduling: Any, node: Any) -> Any:
            counts = inductor_metrics.cpp_outer_loop_fused_inner_counts
            before = len(counts)
            result = original(scheduling, node)
            with recording.noting("how outer loops are written", "schedule"):
                if len(counts) > before:
                    _outer_loops[node] = OuterLoops(True, counts[-1].local_buffer_number)
            return result

        return codegen_outer_loop_node

    scheduling = getattr(cpp_codegen, "CppScheduling", None)
    if not hasattr(scheduling, "codegen_outer_loop_node"):
        yield
        return
    with patched(scheduling, "codegen_outer_loop_node", make):
        yield


def note_nests(scheduler: Any, nodes: Sequence[Any]) -> None:
    """Note the nodes for which C++ code will be generated; of those that share outer loops, each
    one.
    """
    nests: list[NestOfLoops] = []
    for node in nodes:
        if not getattr(node, "group", None) or scheduler.unfusable_node(node):
            continue
        if type(scheduler.get_backend(node.get_device())).__name__ != "CppScheduling":
            continue
        inner = outer_nodes(node)
        nests += [_nest(scheduler, each, node if inner else None) for each in inner or [node]]
    _nests[scheduler] = nests


def nests_in_order(scheduler: Any) -> list[NestOfLoops]:
    """Return the nodes that were noted, in the order in which their code was generated: the
    scheduler may reorder what it has fused.
    """
    order: dict[str, int] = {}
    for position, node in enumerate(scheduler.nodes):
        order.update(dict.fromkeys(node.get_buffer_names(), position))
    nests = _nests.get(scheduler, ())
    return sorted(nests, key=lambda nest: min(order.get(name, 0) for name in nest.buffers))


def outer_nodes(node: Any) -> list[Any]:
    """Return the nodes that share the outer loops of a node; none where it is not of this kind."""
    return list(node.get_outer_nodes()) if hasattr(node, "get_outer_nodes") else []


def _nest(scheduler: Any, node: Any, outer: Any) -> NestOfLoops:
    return NestOfLoops(
        name=node.get_name(),
        loops=loops_of(node),
        buffers=frozenset(node.get_buffer_names()),
        nodes=frozenset(str(computed.name) for computed in computed_of(scheduler, node)),
        outer=outer,
    )


def computed_of(scheduler: Any, node: Any) -> set[torch.fx.Node]:
    """Return the FX nodes that a node of the scheduler computes from what it reads. Among its
    origins are others, too: a copy for another layout has those of the operation that asks for it,
    with all that was computed for that so far.
    """
    nodes = origins([node])
    names = {read.name for read in node.read_writes.reads}
    written = (scheduler.name_to_buf[name].node for name in names if name in scheduler.name_to_buf)
    known = set[torch.fx.Node]()
    for buffer in written:
        known.update(buffer.get_origins() if hasattr(buffer, "get_origins") else buffer.origins)
    computed = set[torch.fx.Node]()
    for origin in _in_order(nodes):
        inputs = origin.all_input_nodes
        if not inputs or any(_is_at_hand(each, nodes, known, names) for each in inputs):
            computed.add(origin)
            known.add(origin)
    return computed or nodes


def _in_order(nodes: set[torch.fx.Node]) -> list[torch.fx.Node]:
    """Return nodes of a graph in its order; those of several graphs one graph after the other."""
    graphs = dict.fromkeys(node.graph for node in nodes)
    return [node for graph in graphs for node in graph.nodes if node in nodes]


def _is_at_hand(
    node: torch.fx.Node,
    nest_origins: set[torch.fx.Node],
    known: set[torch.fx.Node],
    names: set[str],
) -> bool:
    """Return whether the value of a node is known, is an input that is read, or is a view of such a
    value.
    """
    while True:
        if node in known or node.name in names or str(node.target) in names:
            return True
        inputs = node.all_input_nodes
        if node in nest_origins or not inputs or not computes_nothing(node, target_name(node)):
            return False
        node = inputs[0]


def loops_of(node: Any) -> str:
    """Return what a node of the scheduler loops over; empty for a library call."""
    group = getattr(node, "group", None)
    if not group:
        return ""
    return ", ".join(str(part) for part in group[1])
