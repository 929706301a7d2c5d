"""This module counts the operations of a node by torch's own formulas: FlopCounterMode
(torch/utils/flop_counter.py), which knows matrix multiplications, convolutions and attention.

torch has no formula for some operators of that kind. An operator that does the same as one with a
formula (attention on the CPU) gets that formula here. For the others, and for operators that torch
does not define, the number is not known, which is not the same as 0.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from fx_explorer.capture.torch_compat.private_names import OpOverload

_aten = torch.ops.aten

_LIKE = {
    "_scaled_dot_product_flash_attention_for_cpu": "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_flash_attention_for_cpu_backward": (
        "_scaled_dot_product_flash_attention_backward"
    ),
    "_scaled_dot_product_fused_attention_overrideable": "_scaled_dot_product_flash_attention",
    "_scaled_dot_product_fused_attention_overrideable_backward": (
        "_scaled_dot_product_flash_attention_backward"
    ),
    "_int_mm": "mm",
}
"""Operator without a formula → an operator with a formula and the same tensors in the same
positions.
"""

_OF_COUNTED_KIND = (
    "attention", "mm", "addbmm", "mv", "addmv", "linear", "conv", "lstm", "gru", "rnn", "matmul",
    "dot", "vdot",
)  # fmt: skip
"""Words in the names of operators of the kinds that torch counts."""

_TORCHS = (
    "aten",
    "prims",
    "prim",
    "inductor",
    "_inductor_test",
    "c10d",
    "_c10d_functional",
    "debugprims",
)


@functools.cache
def formulas() -> dict[Any, Callable[..., Any]]:
    """Return operator → formula, for ``custom_mapping`` of FlopCounterMode."""
    found: dict[Any, Callable[..., Any]] = {}
    for name, like in _LIKE.items():
        operator, counted = getattr(_aten, name, None), getattr(_aten, like, None)
        if operator is not None and operator not in flop_registry and counted in flop_registry:
            found[operator] = _as_it_is(flop_registry[counted])
    return found


def _as_it_is(formula: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a formula of torch's registry for use in ``custom_mapping``. FlopCounterMode wraps the
    formulas in ``custom_mapping`` unless ``_get_raw`` is set; those of the registry are wrapped
    already.
    """

    @functools.wraps(formula)
    def of_tensors(*args: Any, **kwargs: Any) -> Any:
        return formula(*args, **kwargs)

    of_tensors._get_raw = True  # type: ignore[attr-defined]
    return of_tensors


def is_countable(operator: OpOverload) -> bool:
    """Return whether the number of operations of a call is known: by a formula, or because torch
    does not count this kind of operator (pointwise operators and sums count as nothing).
    """
    packet = operator.overloadpacket
    if packet in flop_registry or packet in formulas():
        return True
    if operator.namespace not in _TORCHS:
        return False
    for word in packet.__name__.strip("_").split("_"):
        for kind in _OF_COUNTED_KIND:
            if word == kind or (len(kind) > 3 and kind in word):
                return False
    return True


def flops_of(nodes: Iterable[torch.fx.Node]) -> int:
    return sum(flops_of_call(node) for node in nodes if node.op == "call_function")


def flops_of_call(node: torch.fx.Node) -> int:
    """Return the operations of one call; 0 for an operator that is not counted or cannot be
    counted.

    Calls of the same operation on the same sizes are counted once: torch runs each with fake
    tensors for it (``count_flops_fx``, torch/_inductor/fx_utils.py), and the layers of a model are
    alike.
    """
    key = same_operations(node)
    if key is None:
        return _hint(_count(node))
    if key not in _counted:
        _counted[key] = _hint(_count(node))
    return _counted[key]


def _count(node: torch.fx.Node) -> int | torch.SymInt | None:
    from fx_explorer.capture.torch_compat.private_names import count_flops_fx

    formula = formulas().get(getattr(node.target, "overloadpacket", None))
    if formula is None:
        return count_flops_fx(node)
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda given: given.meta.get("val"))
    return formula(*args, **kwargs, out_val=node.meta.get("val"))


_counted: dict[tuple[object, ...], int] = {}
"""Operation, sizes and constants → operations done."""


def same_operations(node: torch.fx.Node) -> tuple[object, ...] | None:
    """Return a key that is equal for calls with the same number of operations; None if a size
    varies.
    """
    inputs = node.all_input_nodes
    kinds = []
    for input_node in inputs:
        value = input_node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return None
        if any(type(size) is not int for size in value.shape):
            return None
        kinds.append((tuple(value.shape), value.dtype))
    return node.target, tuple(kinds), repr(torch.fx.map_arg((node.args, node.kwargs), inputs.index))


def _hint(number: int | torch.SymInt | None) -> int:
    """Return a size as a number, or the hint of a symbolic one. ``int()`` of it would specialize
    it, and change the generated code.
    """
    if isinstance(number, torch.SymInt):
        number = number.node.hint
    return int(number or 0)
