"""This module finds the operations of a graph for which AOTAutograd's trace has no node, and the
reason: from the result of each call, and from the nodes that were added during it.

Hooks: ``Interpreter.run_node`` (torch/fx/interpreter.py), which calls each node of Dynamo's graph,
and of those nested in it, while AOTAutograd traces it; and ``Graph.eliminate_dead_code``
(torch/fx/graph.py), which AOTAutograd calls on what it has traced.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from fx_explorer.capture.recording.compilation_state import Segment
from fx_explorer.capture.recording.fx_graphs import CALLS, subgraph_names
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import LeftOut

_WHAT = "what AOTAutograd left out"

_CALLS_SEEN = "fx_explorer_calls_seen"
"""Attribute of a graph that is being traced. It holds the calls of the original graph that were run
during the trace.
"""


class _CallsSeen(NamedTuple):
    segment: Segment
    made: dict[int, list[torch.fx.Node]]
    """Row of each call → the nodes that were added while it ran."""


@contextlib.contextmanager
def left_out_hooks(recording: Recording) -> Iterator[None]:
    """Record, inside the block, which operations AOTAutograd leaves out of its trace."""
    seen = functools.partial(_seen_calls, recording)
    cleaned = functools.partial(_seen_removals, recording)
    with (
        patched(torch.fx.Interpreter, "run_node", seen),
        patched(torch.fx.Graph, "eliminate_dead_code", cleaned),
    ):
        yield


def left_out_rows(segment: Segment) -> list[LeftOut]:
    """Return a row for each node of Dynamo's graph that AOTAutograd left out, with the reason."""
    return [LeftOut(row, reason) for row, reason in segment.left_out.items()]


def _seen_calls(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run_node(interpreter: Any, n: torch.fx.Node) -> Any:
        # It runs for thousands of nodes, and in Inductor too: what is not traced costs little.
        graph = graph_being_traced() if n.op in CALLS else None
        if graph is None:
            return original(interpreter, n)
        last = last_node(graph)
        result = original(interpreter, n)
        try:
            _note_call(recording, interpreter, n, result, nodes_made_since(graph, last))
        except Exception as error:  # noqa: BLE001 - stored: no fault of the compile's
            recording.add_fault(_WHAT, "joint", error)
        return result

    return run_node


def graph_being_traced() -> torch.fx.Graph | None:
    """Return the graph that operations are traced into; None outside of a trace."""
    return getattr(getattr(get_proxy_mode(), "tracer", None), "graph", None)


def last_node(graph: torch.fx.Graph | None) -> torch.fx.Node | None:
    """Return the node that was added last; None without a graph, or for an empty one."""
    if graph is None:
        return None
    return next(iter(reversed(graph.nodes)), None)


def nodes_made_since(
    graph: torch.fx.Graph | None, last: torch.fx.Node | None
) -> list[torch.fx.Node] | None:
    """Return the nodes that were added after ``last``; None where that cannot be known."""
    if graph is None:
        return None
    made: list[torch.fx.Node] = []
    for node in reversed(graph.nodes):
        if node is last:
            return made
        made.append(node)
    return made if last is None else None


def _note_call(
    recording: Recording,
    interpreter: Any,
    node: torch.fx.Node,
    result: object,
    made: list[torch.fx.Node] | None,
) -> None:
    """Note the result of a call. Only nodes with rows are noted: those of the traced graph and of
    the graphs nested in it.
    """
    is_compiling = recording.here.segment is not None or recording.compilation_name()
    if made is None or not is_compiling:
        return
    segment = recording.segment()
    if segment.traced is None or segment.subgraph:
        return
    recorded = segment.traced.find(interpreter.module)
    row = recorded.ids.get(node) if recorded else None
    if row is None:
        return
    if not made:
        if result is None:
            segment.left_out[row] = "empty"
        elif _returned_its_inputs(interpreter, node, result):
            segment.left_out[row] = "unchanged"
        return
    if subgraph_names(node):
        segment.left_out[row] = "inlined"
    traced = made[0].graph
    if not hasattr(traced, _CALLS_SEEN):
        setattr(traced, _CALLS_SEEN, _CallsSeen(segment, {}))
    getattr(traced, _CALLS_SEEN).made[row] = made


def _returned_its_inputs(interpreter: Any, node: torch.fx.Node, result: object) -> bool:
    """Return whether all tensors in a call's result were among its inputs. A method whose name ends
    in ``_`` may have changed a property without an operation (``requires_grad_``).
    """
    if str(node.target).endswith("_"):
        return False
    given: list[object] = []
    for input_node in node.all_input_nodes:
        given += _values_in(interpreter.env.get(input_node))
    returned = _values_in(result)
    for value in returned:
        is_given = any(value is other for other in given)
        if not isinstance(value, torch.Tensor) or not is_given:
            return False
    return bool(returned)


def _values_in(value: object) -> list[object]:
    if isinstance(value, tuple | list):
        return list(value)
    return [value]


def _seen_removals(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def eliminate_dead_code(graph: torch.fx.Graph, *args: Any, **kwargs: Any) -> Any:
        seen: _CallsSeen | None = getattr(graph, _CALLS_SEEN, None)
        if seen is None:
            return original(graph, *args, **kwargs)
        rows_before = [row for row, made in seen.made.items() if not _are_gone(made)]
        result = original(graph, *args, **kwargs)
        with recording.noting(_WHAT, "joint"):
            for row in rows_before:
                if _are_gone(seen.made[row]):
                    seen.segment.left_out[row] = "unused"
        return result

    return eliminate_dead_code


def _are_gone(nodes: list[torch.fx.Node]) -> bool:
    return all(getattr(node, "_erased", False) for node in nodes)
