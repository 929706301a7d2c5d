"""This module runs the graphs of one compiled call node by node: in eager mode, and in float64 as
the judge of both eager mode and compiled code.

torch's own way to the judge is ``cast_to_fp64`` (torch/_dynamo/debug_utils.py), which rewrites the
graph. Here the graph stays: an interpreter widens constants, inputs and the dtypes that are named
in calls. Random operators cannot be repeated in float64, so the judge takes eager's numbers.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from fx_explorer.capture.torch_compat.private_names import tree_map
from fx_explorer.program.explaining import one_line

Values = dict[str, Any]
"""Name of a node → its value."""

BIT_PATTERNS = ("view.dtype", "bitcast")
"""Parts of the names of operators that read the bits of numbers, which have no meaning in float64.
"""


def copied_graph(graph_module: fx.GraphModule) -> fx.GraphModule:
    """Return a copy whose nodes have the same names; parameters and submodules are shared."""
    graph = copy.deepcopy(graph_module.graph)
    return fx.GraphModule(graph_module, graph)


def copied_inputs(inputs: Sequence[Any]) -> list[Any]:
    """Return copies of a graph's inputs, with their strides: a graph may write to its inputs."""
    return [copied(value) for value in inputs]


def copied(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach()
    if type(value) is not torch.Tensor or value.layout != torch.strided:
        return value.clone()
    try:
        made = torch.empty_strided(
            value.shape, value.stride(), dtype=value.dtype, device=value.device
        )
        return made.copy_(value)
    except RuntimeError:  # an expanded tensor, whose elements share memory
        return value.clone()


class EagerInterpreter(fx.Interpreter):
    """Runs a graph in eager mode, and keeps a copy of the value of every node."""

    def __init__(self, graph_module: fx.GraphModule) -> None:
        super().__init__(graph_module, garbage_collect_values=True)
        self.values: Values = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op != "output":
            self.values[n.name] = kept(value)
        return value


class WideInterpreter(fx.Interpreter):
    """Runs a graph in float64."""

    def __init__(self, graph_module: fx.GraphModule, eager: Mapping[str, Any]) -> None:
        """``eager`` are eager's values, for operators that cannot be run in float64."""
        super().__init__(graph_module, garbage_collect_values=True)
        self.values: Values = {}
        self.not_widened: dict[str, str] = {}
        """Operator that cannot be run in float64 → why. Its value is eager's."""
        self._eager = eager

    def run_node(self, n: fx.Node) -> Any:
        if n.op == "output":
            return super().run_node(n)
        value = self._value(n)
        self.values[n.name] = kept(value)
        return value

    def _value(self, n: fx.Node) -> Any:
        if n.op != "call_function":
            return widened(super().run_node(n))
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if not is_repeatable(n):
            return self._of_eager(n)
        try:
            return call_in_float64(n.target, args, kwargs)
        except Exception as error:  # noqa: BLE001 - listed: an operator that has no float64
            self.not_widened.setdefault(str(n.target), one_line(error))
            return self._of_eager(n)

    def _of_eager(self, n: fx.Node) -> Any:
        return widened(copied_tree(self._eager[n.name]))


def call_in_float64(target: Any, args: Any, kwargs: Any) -> Any:
    """Call an operator on values in float64, with float64 in place of the dtypes that it names."""
    return widened(target(*_wide_dtypes(args), **_wide_dtypes(kwargs)))


def eager_values(graph_module: fx.GraphModule, inputs: Sequence[Any]) -> tuple[Values, list[Any]]:
    """Return the value of every node in eager mode, and the outputs."""
    interpreter = EagerInterpreter(graph_module)
    with torch.no_grad():
        outputs = interpreter.run(*copied_inputs(inputs))
    return interpreter.values, as_list(outputs)


def wide_values(
    graph_module: fx.GraphModule,
    inputs: Sequence[Any],
    eager: Mapping[str, Any],
    not_compared: list[str] | None = None,
) -> tuple[Values, list[Any]]:
    """Return the value of every node in float64, and the outputs. ``not_compared`` gets a sentence
    for each operator that cannot be run in float64.
    """
    interpreter = WideInterpreter(graph_module, eager)
    with torch.no_grad():
        outputs = interpreter.run(*[widened(value) for value in copied_inputs(inputs)])
    if not_compared is not None:
        for operator, why in interpreter.not_widened.items():
            not_compared.append(f"Judged by eager mode instead of float64: {operator} ({why}).")
    return interpreter.values, as_list(outputs)


def as_list(outputs: Any) -> list[Any]:
    if isinstance(outputs, list | tuple):
        return list(outputs)
    return [outputs]


def is_repeatable(n: fx.Node) -> bool:
    """Return whether an operator gives the same again, in another precision too: it draws no random
    numbers, and does not read bits.
    """
    tags = getattr(n.target, "tags", ())
    if torch.Tag.nondeterministic_seeded in tags:
        return False
    name = str(n.target)
    is_random = "inductor_random" in name or "inductor_seed" in name or "inductor_randint" in name
    return not is_random and not any(part in name for part in BIT_PATTERNS)


def widened(value: Any) -> Any:
    """Return floating tensors in float64, complex ones in complex128, in any nesting."""
    return tree_map(_widened_tensor, value)


def _widened_tensor(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_floating_point():
        return value.to(torch.float64)
    if value.is_complex():
        return value.to(torch.complex128)
    return value


def _wide_dtypes(arguments: Any) -> Any:
    return tree_map(_wide_dtype, arguments)


def _wide_dtype(value: Any) -> Any:
    if not isinstance(value, torch.dtype):
        return value
    if value.is_floating_point:
        return torch.float64
    if value.is_complex:
        return torch.complex128
    return value


def kept(value: Any) -> Any:
    """Return a copy of a value as it is now, since later nodes may write to it."""
    return copied_tree(value)


def copied_tree(value: Any) -> Any:
    return tree_map(copied, value)
