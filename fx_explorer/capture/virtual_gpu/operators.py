"""Operators that a build of torch without CUDA does not choose or describe as one with CUDA would."""

from __future__ import annotations

from typing import Any

import torch

from fx_explorer.model import Gpu

CUDNN_HEAD = 128
FLASH_HEAD = 256
"""Largest sizes of a head that these kernels take (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp)."""

_libraries: list[Any] = []
"""An implementation goes when its library does."""


def add_operators(gpu: Gpu) -> None:
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    attention = Attention(gpu)
    for key in ("AutogradCUDA", "CUDA"):
        library.impl("scaled_dot_product_attention", attention, key)
    # CUDA only, and without a description for fake tensors: where there is a GPU, FakeTensorMode runs them.
    library.impl("_thnn_fused_gru_cell", fused_gru_cell, "Meta")
    library.impl("_thnn_fused_gru_cell_backward", fused_gru_cell_backward, "Meta")


class Attention:
    """Which kernel ``scaled_dot_product_attention`` becomes: what ``_fused_sdp_choice`` of a CUDA build answers, by our rules.

    A build without CUDA has no fused one to choose: it would decompose attention without a word.
    """

    def __init__(self, gpu: Gpu) -> None:
        self._prefers_cudnn = gpu.vendor == "nvidia" and gpu.capability[0] in (9, 10)

    def __call__(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        attn_mask: torch.Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> torch.Tensor:
        if enable_gqa:
            repeats = query.shape[-3] // key.shape[-3]
            key, value = key.repeat_interleave(repeats, -3), value.repeat_interleave(repeats, -3)
        mask = _additive(attn_mask, query.dtype)
        inputs = query, key, value
        if query.dim() != 4 or not query.shape[-1] == key.shape[-1] == value.shape[-1]:
            return torch.ops.aten._scaled_dot_product_attention_math(*inputs, mask, dropout_p, is_causal, None, scale=scale)[0]
        is_half = query.dtype in (torch.float16, torch.bfloat16)
        head, has_grad = query.shape[-1], any(one.requires_grad for one in inputs)
        if is_half and self._prefers_cudnn and head % 8 == 0 and head <= CUDNN_HEAD:
            fused = torch.ops.aten._scaled_dot_product_cudnn_attention
            return fused(*inputs, mask, has_grad, dropout_p, is_causal, False, scale=scale)[0]
        if is_half and mask is None and head <= FLASH_HEAD:
            return _flash(inputs, dropout_p, is_causal, scale)
        if mask is not None:
            mask = mask.expand(*query.shape[:3], key.shape[2])
        fused = torch.ops.aten._scaled_dot_product_efficient_attention
        return fused(*inputs, mask, has_grad, dropout_p, is_causal, scale=scale)[0]


def _additive(mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros_like(mask, dtype=dtype).masked_fill(mask.logical_not(), float("-inf"))


def _flash(inputs: tuple[torch.Tensor, ...], dropout_p: float, is_causal: bool, scale: float | None) -> torch.Tensor:
    """Its heads are multiples of eight: others are padded."""
    head = inputs[0].shape[-1]
    scale = head**-0.5 if scale is None else scale
    if missing := -head % 8:
        inputs = tuple(torch.nn.functional.pad(one, (0, missing)) for one in inputs)
    fused = torch.ops.aten._scaled_dot_product_flash_attention
    output: torch.Tensor = fused(*inputs, dropout_p, is_causal, False, scale=scale)[0]
    return output[..., :head] if missing else output


def fused_gru_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hidden: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(hidden), hidden.new_empty((hidden.shape[0], 5 * hidden.shape[1]))


def fused_gru_cell_backward(grad: torch.Tensor, workspace: torch.Tensor, has_bias: bool) -> tuple[torch.Tensor | None, ...]:
    batch, hidden = grad.shape
    bias = (grad.new_empty(3 * hidden), grad.new_empty(3 * hidden)) if has_bias else (None, None)
    gates = grad.new_empty((batch, 3 * hidden)), grad.new_empty((batch, 3 * hidden))
    return (*gates, torch.empty_like(grad), *bias)
