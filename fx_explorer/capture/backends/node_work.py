"""This module counts the work of one node, in any graph: operations by torch's own formulas, and
the bytes of its input and output tensors.

Nodes of AOTAutograd are counted as Inductor counts them (capture/torch_flops.py). A function of
torch in a graph of Dynamo's is run with fake tensors of its sizes, made for that: those of the
graph are the compiler's, and may be changed by a call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from fx_explorer.capture.recording.fx_graphs import computes_nothing, node_value, target_name
from fx_explorer.capture.torch_compat.private_names import (
    DispatchKey,
    FakeTensorMode,
    HigherOrderOperator,
    OpOverload,
    TorchDispatchMode,
    tree_leaves,
    tree_map,
)
from fx_explorer.capture.torch_flops import flops_of_call, formulas, is_countable, same_operations

UNKNOWN = -1

MOST_COUNTED = 2_000
"""Maximum number of calls per graph that are run to count their operations: each takes half a
millisecond, and layers that are alike are counted once.
"""

_LARGEST = 2**53
"""The largest number that a session can store."""


@dataclass(frozen=True, slots=True)
class NodeCost:
    flops: int = UNKNOWN
    read_bytes: int = UNKNOWN
    written_bytes: int = UNKNOWN
    result_bytes: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class CallRun:
    """Result of running a call on fake tensors: its operations, and whether it computes at all."""

    flops: int = UNKNOWN
    computes: bool = True
    """Whether it called any operator other than views: ``x.view`` does not, nor ``reshape`` or
    ``contiguous`` of a tensor that has that layout already.
    """


def work_of(graph: torch.fx.Graph) -> dict[torch.fx.Node, NodeCost]:
    """Return the work of every node but the output, in order."""
    counter = _WorkCounter()
    return {node: counter.of(node) for node in graph.nodes if node.op != "output"}


class _WorkCounter:
    """Counts the work of the nodes of one graph."""

    def __init__(self) -> None:
        self._counted: dict[object, CallRun] = {}

    def of(self, node: torch.fx.Node) -> NodeCost:
        result = _bytes_of([node])
        if computes_nothing(node, target_name(node)):
            return NodeCost(0, 0, 0, result)
        run = self._run(node)
        if not run.computes:
            return NodeCost(0, 0, 0, result)
        return NodeCost(run.flops, _bytes_of(node.all_input_nodes), result, result)

    def _run(self, node: torch.fx.Node) -> CallRun:
        if isinstance(node.target, OpOverload) and not _is_made_of_others(node.target):
            if not is_countable(node.target):
                return CallRun(UNKNOWN)
            return CallRun(min(flops_of_call(node), _LARGEST))
        if not _may_be_run(node):
            return CallRun()
        key = (node.op, *(same_operations(node) or (node,)))
        if key not in self._counted and len(self._counted) < MOST_COUNTED:
            self._counted[key] = _run_of(node)
        return self._counted.get(key, CallRun())


def _is_made_of_others(operator: OpOverload) -> bool:
    """Return whether torch implements this operator by other operators, such as ``aten.linear``."""
    return bool(operator.has_kernel_for_dispatch_key(DispatchKey.CompositeImplicitAutograd))


_TORCHS = ("torch", "_operator", "builtins", "math")


def _may_be_run(node: torch.fx.Node) -> bool:
    """Return whether the call is an operator of torch's that takes or returns tensors, so that it
    may be run: not code of the program's, nor a switch of some mode.
    """
    if node.op not in ("call_function", "call_method"):
        return False
    if isinstance(node.target, HigherOrderOperator):
        return False
    operands = (node, *node.all_input_nodes)
    if not any(isinstance(node_value(operand), torch.Tensor) for operand in operands):
        return False
    if node.op == "call_method" or isinstance(node.target, OpOverload):
        return True
    return str(getattr(node.target, "__module__", "")).partition(".")[0] in _TORCHS


def _run_of(node: torch.fx.Node) -> CallRun:
    """Return torch's work when a call is run with fake tensors; unknown where it cannot be run with
    them.
    """
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            arguments, keywords = torch.fx.map_arg((node.args, node.kwargs), _fake_of)
            with _flop_counter() as counter, _Operators() as called:
                if node.op == "call_method":
                    getattr(arguments[0], str(node.target))(*arguments[1:], **keywords)
                else:
                    node.target(*arguments, **keywords)
            flops = UNKNOWN
            if called.is_countable:
                flops = min(int(counter.get_total_flops()), _LARGEST)
            return CallRun(flops, called.computes)
    # torch refuses calls with fake tensors in many ways; -1 says so.
    except Exception:  # noqa: BLE001
        return CallRun()


def _flop_counter() -> FlopCounterMode:
    return FlopCounterMode(display=False, custom_mapping=formulas())


class _Operators(TorchDispatchMode):
    """Records whether a call runs any operator that is not a view, and whether all its operators
    can be counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.computes = False
        self.is_countable = True

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        is_view = getattr(function, "is_view", False) or function in _ALIASES
        # Questions about a tensor (``prim.device``) come here, too.
        leaves = tree_leaves(result)
        has_tensors = any(isinstance(leaf, torch.Tensor) for leaf in leaves)
        self.computes = self.computes or (has_tensors and not is_view)
        if isinstance(function, OpOverload) and has_tensors:
            self.is_countable = self.is_countable and is_countable(function)
        return result


_ALIASES = (torch.ops.aten._unsafe_view.default, torch.ops.aten.lift_fresh.default)
"""Operators that return memory that they were given, without being marked as views."""


def _fake_of(node: torch.fx.Node) -> Any:
    """Return a new value like the node's, with the sizes of this call."""
    return tree_map(_fake, node_value(node))


def _fake(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        shape = [_number(size) for size in value.shape]
        strides = [_number(stride) for stride in value.stride()]
        return torch.empty_strided(shape, strides, dtype=value.dtype, device=value.device)
    if isinstance(value, torch.SymInt):
        return _number(value)
    return value


class _NoNumber(Exception):
    """A size is only known when the program runs."""


def _number(size: Any) -> int:
    """Return the value of a size in this call. ``int()`` of a symbol would specialize it, and
    change the compiled code.
    """
    number = size.node.hint if isinstance(size, torch.SymInt) else size
    if number is None:
        raise _NoNumber
    return int(number)


def _bytes_of(nodes: list[torch.fx.Node]) -> int:
    values = [node_value(node) for node in nodes]
    for node, value in zip(nodes, values, strict=True):
        if value is None and node.op != "get_attr":
            return UNKNOWN
    size_bytes = 0
    try:
        for leaf in tree_leaves(values):
            if isinstance(leaf, torch.Tensor):
                size_bytes += math.prod(map(_number, leaf.shape)) * leaf.element_size()
    except _NoNumber:
        return UNKNOWN
    return min(size_bytes, _LARGEST)
