"""The registry: every ATen operator that the backend can do, and how each becomes instructions.

An operator is a function that emits instructions, registered under its ATen overloads. What the
registry lacks is left to PyTorch, so a new backend begins with one entry and grows.
"""

from __future__ import annotations

import operator as python_operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from sample_backends.small_backend.lowering import nests

if TYPE_CHECKING:
    from sample_backends.small_backend.lowering.lowering import Lowering

aten = torch.ops.aten


@dataclass(frozen=True)
class Operator:
    lower: Callable[[Lowering, Node], None]
    refuses: Callable[[Node], str]
    """Why it cannot do this call of the operator; empty where it can."""
    is_view: bool = False
    """It computes nothing: its result is another look at its input's memory."""


OPERATORS: dict[Any, Operator] = {}


def _never(node: Node) -> str:
    return ""


def argument(node: Node, name: str) -> Any:
    """Return an argument by its name in the operator's schema, wherever it was given; else its default."""
    for place, declared in enumerate(node.target._schema.arguments):
        if declared.name == name:
            if place < len(node.args) and not declared.kwarg_only:
                return node.args[place]
            return node.kwargs.get(
                name, declared.default_value if declared.has_default_value() else None
            )
    raise LookupError(f"{node.target} has no argument {name}")


def is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _register(*targets: Any, refuses: Callable[[Node], str] = _never) -> Callable[..., Any]:
    def decorate(lower: Callable[[Lowering, Node], None]) -> Callable[[Lowering, Node], None]:
        OPERATORS.update(dict.fromkeys(targets, Operator(lower, refuses)))
        return lower

    return decorate


# --- each element by itself ---------------------------------------------------------------------


def _elementwise(
    kernel: str, inputs: tuple[str, ...], *targets: Any, scalar: str = "", **checks: Any
) -> None:
    """Register a kernel of one or two tensors; ``scalar`` is the argument that becomes its number."""

    def lower(lowering: Lowering, node: Node) -> None:
        number = float(argument(node, scalar)) if scalar else 0.0
        nests.elementwise(
            lowering, kernel, node, [argument(node, name) for name in inputs], (number, 0.0)
        )

    _register(*targets, **checks)(lower)


def _lower_gelu(lowering: Lowering, node: Node) -> None:
    suffix = "_tanh" if argument(node, "approximate") == "tanh" else ""
    names = ("grad_output", "self") if node.target is aten.gelu_backward.default else ("self",)
    kernel = f"gelu{suffix}_backward" if len(names) == 2 else f"gelu{suffix}"
    nests.elementwise(lowering, kernel, node, [argument(node, name) for name in names])


_elementwise("relu", ("self",), aten.relu.default)
_elementwise("copy", ("self",), aten.clone.default, aten.lift_fresh_copy.default)
_elementwise(
    "threshold_backward",
    ("grad_output", "self"),
    aten.threshold_backward.default,
    scalar="threshold",
)
_register(aten.gelu.default, aten.gelu_backward.default)(_lower_gelu)


def _refuse_arithmetic(node: Node) -> str:
    first, second = argument(node, "self"), argument(node, "other")
    if not isinstance(first, Node):
        return "its first operand is no tensor"
    if not isinstance(second, Node) and not is_number(second):
        return f"its second operand is neither a tensor nor a number but {second}"
    alpha = argument(node, "alpha") if node.target in _WITH_ALPHA else 1
    return "" if is_number(alpha) else f"alpha is no number but {alpha}"


_WITH_ALPHA = (aten.add.Tensor, aten.sub.Tensor, aten.add.Scalar, aten.sub.Scalar)


def _arithmetic(kernel: str, sign: float, *targets: Any) -> None:
    def lower(lowering: Lowering, node: Node) -> None:
        alpha = sign * float(argument(node, "alpha")) if node.target in _WITH_ALPHA else 1.0
        first, second = argument(node, "self"), argument(node, "other")
        number = 0.0 if isinstance(second, Node) else float(second)
        nests.elementwise(
            lowering,
            kernel,
            node,
            [first, second if isinstance(second, Node) else None],
            (alpha, number),
        )

    _register(*targets, refuses=_refuse_arithmetic)(lower)


_arithmetic("add", 1.0, aten.add.Tensor, aten.add.Scalar)
_arithmetic("add", -1.0, aten.sub.Tensor, aten.sub.Scalar)
_arithmetic("mul", 1.0, aten.mul.Tensor, aten.mul.Scalar)
_arithmetic("div", 1.0, aten.div.Tensor, aten.div.Scalar)


# --- matrix products ----------------------------------------------------------------------------


def _refuse_product(node: Node) -> str:
    if node.target in (aten.mm.default, aten.bmm.default):
        return ""
    alpha, beta = argument(node, "alpha"), argument(node, "beta")
    return (
        ""
        if is_number(alpha) and is_number(beta) and alpha != 0
        else f"alpha is {alpha}, beta is {beta}"
    )


@_register(aten.mm.default, aten.bmm.default, refuses=_refuse_product)
def _lower_product(lowering: Lowering, node: Node) -> None:
    nests.matmul(lowering, node, node.args[0], node.args[1], None, (1.0, 0.0))


@_register(aten.addmm.default, aten.baddbmm.default, refuses=_refuse_product)
def _lower_product_with_bias(lowering: Lowering, node: Node) -> None:
    bias, a, b = node.args[:3]
    alpha, beta = float(argument(node, "alpha")), float(argument(node, "beta"))
    nests.matmul(
        lowering, node, a, b, bias if beta != 0 else None, (alpha, beta)
    )  # beta 0 ignores even a NaN


# --- whole rows ---------------------------------------------------------------------------------


def _refuse_softmax(node: Node) -> str:
    if node.target is aten._softmax.default:
        return "it converts its input" if argument(node, "half_to_float") else ""
    return "" if argument(node, "input_dtype") == torch.float32 else "it converts its input"


@_register(aten._softmax.default, refuses=_refuse_softmax)
def _lower_softmax(lowering: Lowering, node: Node) -> None:
    nests.along(lowering, "softmax", node, [argument(node, "self")], argument(node, "dim"))


@_register(aten._softmax_backward_data.default, refuses=_refuse_softmax)
def _lower_softmax_backward(lowering: Lowering, node: Node) -> None:
    given = [argument(node, "grad_output"), argument(node, "output")]
    nests.along(lowering, "softmax_backward", node, given, argument(node, "dim"))


def _refuse_layer_norm(node: Node) -> str:
    is_dense = all(value is None or value.is_contiguous() for value in node.meta["val"])
    return "" if is_dense else "its result is not contiguous"


@_register(aten.native_layer_norm.default, refuses=_refuse_layer_norm)
def _lower_layer_norm(lowering: Lowering, node: Node) -> None:
    nests.layer_norm(lowering, node, argument(node, "normalized_shape"), argument(node, "eps"))


@_register(aten.native_layer_norm_backward.default, refuses=_refuse_layer_norm)
def _lower_layer_norm_backward(lowering: Lowering, node: Node) -> None:
    nests.layer_norm_backward(lowering, node, argument(node, "normalized_shape"))


def _refuse_sum(node: Node) -> str:
    dtype = argument(node, "dtype")
    return "" if dtype in (None, torch.float32) else f"it sums up in {dtype}"


@_register(aten.sum.default, aten.sum.dim_IntList, refuses=_refuse_sum)
def _lower_sum(lowering: Lowering, node: Node) -> None:
    dims = None if node.target is aten.sum.default else argument(node, "dim")
    nests.summed(lowering, node, argument(node, "self"), dims)


# --- views --------------------------------------------------------------------------------------

VIEWS = (
    *(
        aten.view.default,
        aten._unsafe_view.default,
        aten.t.default,
        aten.transpose.int,
        aten.permute.default,
    ),
    *(
        aten.expand.default,
        aten.unsqueeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.squeeze.default,
    ),
    *(
        aten.slice.Tensor,
        aten.select.int,
        aten.unbind.int,
        aten.split.Tensor,
        aten.split_with_sizes.default,
    ),
    *(aten.detach.default, aten.alias.default),
)

OPERATORS.update(
    {
        target: Operator(lambda lowering, node: lowering.view(node), _never, is_view=True)
        for target in VIEWS
    }
)
OPERATORS[python_operator.getitem] = Operator(
    lambda lowering, node: lowering.item(node), _never, is_view=True
)
