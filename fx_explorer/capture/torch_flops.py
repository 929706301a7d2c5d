"""Operations of a node, counted by torch's own formulas: FlopCounterMode
(torch/utils/flop_counter.py), which knows matrix multiplications, convolutions and attention.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch


def flops_of(nodes: Iterable[torch.fx.Node]) -> int:
    return sum(flops_of_call(node) for node in nodes if node.op == "call_function")


def flops_of_call(node: torch.fx.Node) -> int:
    """Return the operations of one call, 0 for an operator that torch has no formula for.

    Calls of the same operation on the same sizes are counted once: torch runs each with fake
    tensors for it (``count_flops_fx``, torch/_inductor/fx_utils.py), and the layers of a model are
    alike.
    """
    from torch._inductor.fx_utils import count_flops_fx

    key = same_operations(node)
    if key is None:
        return _hint(count_flops_fx(node))
    if key not in _counted:
        _counted[key] = _hint(count_flops_fx(node))
    return _counted[key]


_counted: dict[tuple[object, ...], int] = {}
"""Operation, sizes and constants → operations done."""


def same_operations(node: torch.fx.Node) -> tuple[object, ...] | None:
    """Return what two calls that do as many operations have alike; None where a size varies."""
    inputs = node.all_input_nodes
    values = [one.meta.get("val") for one in inputs]
    sizes = [
        (tuple(value.shape), value.dtype) for value in values if isinstance(value, torch.Tensor)
    ]
    if len(sizes) < len(values) or not all(
        type(size) is int for shape, _ in sizes for size in shape
    ):
        return None
    return node.target, tuple(sizes), repr(torch.fx.map_arg((node.args, node.kwargs), inputs.index))


def _hint(number: int | torch.SymInt | None) -> int:
    """Return a size as a number. One that varies counts as what it was: ``int()`` of it would fix
    it, and change what is generated.
    """
    return int((number.node.hint if isinstance(number, torch.SymInt) else number) or 0)
