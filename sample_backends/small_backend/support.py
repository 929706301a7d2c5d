"""What the backend supports, as torch's own ``OperatorSupportBase``, and in a sentence why not."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.fx.passes.operator_support import OperatorSupportBase

from sample_backends.small_backend.operators import OPERATORS
from sample_backends.small_backend.program import MAX_RANK, Layout


class SmallSupport(OperatorSupportBase):
    """An operator of the registry on plain float32 tensors on the CPU, of sizes that are known."""

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return not self.reason(submodules, node)

    def reason(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> str:
        """Return why PyTorch has to run this node; empty where the backend can."""
        if node.op == "get_attr":
            return _reason_for_constant(node)
        if node.op != "call_function":
            return "it is no operator"
        if node.target is operator.getitem:
            is_ours = isinstance(node.args[0], Node) and self.is_node_supported(
                submodules, node.args[0]
            )
            return "" if is_ours else "it takes an item of what PyTorch computes"
        if node.target not in OPERATORS:
            return "it is not in the registry"
        for value in [
            *_values_of(node),
            *(value for given in node.all_input_nodes for value in _values_of(given)),
        ]:
            if why := _reason_for_value(value):
                return why
        if not OPERATORS[node.target].is_view and not all(
            Layout.of(value).is_dense for value in _values_of(node)
        ):
            return "its result has gaps in memory"
        return OPERATORS[node.target].refuses(node)


def _values_of(node: Node) -> Iterator[Any]:
    """Yield the tensors that the node stands for; what the compiler recorded of them is enough."""
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):
        yield from (item for item in value if item is not None)  # a gradient that nobody asked for
    else:
        yield value


def _reason_for_value(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return "it takes or gives what is no tensor"
    if value.device.type != "cpu":
        return f"a tensor is on {value.device.type}, not on the CPU"
    if value.dtype != torch.float32:
        return f"a tensor is of {str(value.dtype).removeprefix('torch.')}, not of float32"
    if value.layout != torch.strided:
        return f"a tensor is {str(value.layout).removeprefix('torch.')}"
    if value.dim() > MAX_RANK:
        return f"a tensor has {value.dim()} dimensions, more than {MAX_RANK}"
    if any(
        not isinstance(number, int)
        for number in (*value.shape, *value.stride(), value.storage_offset())
    ):
        return "a size is not known before the call"
    if value.numel() == 0:
        return "a tensor has no elements"
    return ""


def _reason_for_constant(node: Node) -> str:
    module = node.graph.owning_module
    constant = getattr(module, str(node.target), None)
    if type(constant) is not torch.Tensor:
        return "it is no constant tensor"
    return _reason_for_value(constant)
