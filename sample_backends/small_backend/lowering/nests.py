"""How each kind of operator is a nest of loops: which loops there are, and how every operand walks in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch.fx import Node

from sample_backends.small_backend.program import ABSENT, Operand

if TYPE_CHECKING:
    from sample_backends.small_backend.lowering.lowering import Lowering, Value

Scalars = tuple[float, float]
NONE = (0.0, 0.0)


def elementwise(
    lowering: Lowering,
    kernel: str,
    node: Node,
    inputs: Sequence[Node | None],
    scalars: Scalars = NONE,
) -> None:
    """Each element of the result comes from those at the same place, broadcast. None is an absent operand."""
    (out,) = lowering.outputs(node)
    sizes = out.sizes
    operands = [
        ABSENT if each is None else lowering.value(each).expanded(sizes).operand()
        for each in inputs
    ]
    lowering.emit(kernel, node, sizes, 0, [out.operand(), *operands], scalars)


def along(lowering: Lowering, kernel: str, node: Node, inputs: Sequence[Node], dim: int) -> None:
    """Each row along ``dim`` comes from the rows at the same place."""
    (out,) = lowering.outputs(node)
    values = [out, *(lowering.value(each) for each in inputs)]
    if not out.sizes:  # a scalar is a row of one
        values = [value.looked_at(value.meta.unsqueeze(0)) for value in values]
    turned = [value.looked_at(value.meta.movedim(dim, -1)) for value in values]
    lowering.emit(kernel, node, turned[0].sizes, 1, [value.operand() for value in turned])


def matmul(
    lowering: Lowering, node: Node, a: Node, b: Node, bias: Node | None, scalars: Scalars
) -> None:
    """Matrices, or batches of them. The loops are (batch, m, n, k); the result stays where it is in the loop of k."""
    (out,) = lowering.outputs(node)
    left, right = lowering.value(a), lowering.value(b)
    *batch, m, n = out.sizes
    k = left.sizes[-1]
    *batch_a, of_m, of_k = left.strides
    *batch_b, of_k_in_b, of_n = right.strides
    added = (
        ABSENT
        if bias is None
        else _with_another_loop(lowering.value(bias).expanded(out.sizes).operand())
    )
    operands = [
        _with_another_loop(out.operand()),
        left.operand((*batch_a, of_m, 0, of_k)),
        right.operand((*batch_b, 0, of_n, of_k_in_b)),
        added,
    ]
    lowering.emit("matmul", node, (*batch, m, n, k), 3, operands, scalars)


def _with_another_loop(operand: Operand) -> Operand:
    return Operand(operand.buffer, operand.offset, (*operand.strides, 0))


def summed(lowering: Lowering, node: Node, source: Node, dims: Sequence[int] | None) -> None:
    """The loops that are summed over are the inner ones, in which the result stays where it is."""
    (out,) = lowering.outputs(node)
    value = lowering.value(source)
    rank = len(value.sizes)
    inner = sorted({dim % rank for dim in dims}) if dims and rank else list(range(rank))
    outer = [dim for dim in range(rank) if dim not in inner]
    is_kept = len(out.sizes) == rank  # with keepdim, the result has those dims, too, of size 1
    steps = [out.strides[dim] for dim in outer] if is_kept else list(out.strides)
    order = [*outer, *inner]
    operands = [
        out.operand((*steps, *(0 for _ in inner))),
        value.operand([value.strides[dim] for dim in order]),
    ]
    lowering.emit("sum", node, [value.sizes[dim] for dim in order], len(inner), operands)


def layer_norm(lowering: Lowering, node: Node, normalized: Sequence[int], epsilon: float) -> None:
    source, _, weight, bias = node.args[:4]
    inputs = [lowering.contiguous(node, each) for each in (source, weight, bias)]
    walks = ("row", "number", "number", "row", "all", "all")
    _in_rows(
        lowering,
        "layer_norm",
        node,
        normalized,
        [*lowering.outputs(node), *inputs],
        walks,
        (epsilon, 0.0),
    )


def layer_norm_backward(lowering: Lowering, node: Node, normalized: Sequence[int]) -> None:
    gradient, source, _, mean, scale, weight = node.args[:6]
    inputs = [lowering.contiguous(node, each) for each in (gradient, source, mean, scale, weight)]
    walks = ("row", "all", "all", "row", "row", "number", "number", "all")
    _in_rows(
        lowering, "layer_norm_backward", node, normalized, [*lowering.outputs(node), *inputs], walks
    )


def _in_rows(
    lowering: Lowering,
    kernel: str,
    node: Node,
    normalized: Sequence[int],
    values: Sequence[Value | None],
    walks: Sequence[str],
    scalars: Scalars = NONE,
) -> None:
    """Two loops over contiguous operands. In them an operand has a row each, a number for each row, or the same for all."""
    columns = torch.Size(normalized).numel()
    strides = {"row": (columns, 1), "number": (1, 0), "all": (0, 1)}
    whole = next(
        value
        for value, walk in zip(reversed(values), reversed(walks), strict=True)
        if walk == "row" and value
    )
    operands = [
        value.operand(strides[walk]) if value else ABSENT
        for value, walk in zip(values, walks, strict=True)
    ]
    lowering.emit(kernel, node, (whole.meta.numel() // columns, columns), 1, operands, scalars)
