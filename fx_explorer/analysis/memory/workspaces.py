"""What a library call may take of memory while it works, where no GPU was there to be asked.

Bounds, not predictions: which algorithm a library takes is its own affair. Each is the most that was
seen on an H100 (torch 2.11), told as a formula of the shapes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fx_explorer.analysis.memory.sizes import item_bytes

ATTENTION_BLOCK = 64
"""Rows and columns of the blocks in which an attention's backward adds up its gradients
(aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h, ``kBlockSizeI``).
"""


LEAST_CHANNELS = 8
"""Channels that a convolution on tensor cores works on at once (cuDNN developer guide, "Tensor Core
Operations")."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor that a library call is given or returns."""

    shape: tuple[int, ...]
    dtype: str
    device: str

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * item_bytes(self.dtype)


def most_workspace(operator: str, operands: Sequence[Operand], result: Operand | None) -> int:
    """Return the most bytes that a call of an operator (``convolution_backward``) is taken to need at
    work; 0 where it needs none that is worth telling.
    """
    if operator in _CONVOLUTIONS:
        needed = _CONVOLUTIONS[operator]
        if len(operands) >= needed:
            return _of_convolution(operator, operands, result)
    if operator in _ATTENTION_BACKWARD and len(operands) >= 4:
        return _of_attention_backward(operands)
    return 0


_CONVOLUTIONS: Mapping[str, int] = {
    "convolution": 2,
    "cudnn_convolution": 2,
    "mkldnn_convolution": 2,
    "_convolution_pointwise": 2,
    "convolution_backward": 3,
}
"""Operator → how many tensors it takes at least."""

_ATTENTION_BACKWARD = (
    "_scaled_dot_product_efficient_attention_backward",
    "_scaled_dot_product_flash_attention_backward",
    "_scaled_dot_product_cudnn_attention_backward",
)


def _of_convolution(operator: str, operands: Sequence[Operand], result: Operand | None) -> int:
    """Return twice the input unfolded by the kernel (im2col) on a GPU: the backward of a 3 × 3
    convolution took that. Few channels are filled up to eight, as tensor cores need them. On the CPU,
    oneDNN copies into layouts of its own what it takes and returns.
    """
    if operator == "convolution_backward":
        wide, image, weight = operands[:3]
    else:
        image, weight = operands[:2]
        wide = result or image
    if image.device == "cpu":
        return sum(one.size_bytes for one in (wide, image, weight))
    positions = math.prod((wide.shape[0], *wide.shape[2:]))
    channels = max(image.shape[1], LEAST_CHANNELS)
    unfolded = positions * channels * math.prod(weight.shape[2:])
    return max(2 * unfolded * item_bytes(image.dtype), wide.size_bytes + image.size_bytes)


def _of_attention_backward(operands: Sequence[Operand]) -> int:
    """Return the gradients of the queries, and in half precision those of keys and values, in float32
    blocks; and two numbers for each row of queries.
    """
    query, key, value = operands[1:4]
    if query.device == "cpu" or len(query.shape) != 4:
        return 0
    sizes = [_in_blocks(query), 2 * 4 * math.prod(query.shape[:3])]
    if item_bytes(query.dtype) < 4:
        sizes += [_in_blocks(key), _in_blocks(value)]
    return sum(sizes)


def _in_blocks(tensor: Operand) -> int:
    *batch, rows, columns = tensor.shape
    return math.prod(batch) * _up(rows) * _up(columns) * 4


def _up(size: int) -> int:
    return -(-size // ATTENTION_BLOCK) * ATTENTION_BLOCK
