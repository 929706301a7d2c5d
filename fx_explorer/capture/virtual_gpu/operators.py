"""This module makes a build of torch without CUDA choose and describe some operators as a build
with CUDA does.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from fx_explorer.capture.torch_compat.private_names import (
    no_dispatch,
    tree_leaves,
    tree_map_only,
    tree_unflatten,
)
from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu import shim
from fx_explorer.model import Gpu

RECURRENT = [
    "lstm.input",
    "lstm.data",
    "gru.input",
    "gru.data",
    "rnn_tanh.input",
    "rnn_tanh.data",
    "rnn_relu.input",
    "rnn_relu.data",
]
"""On a GPU cuDNN runs these. Here they run as Python decomposes them: Dynamo leaves them to run
between graphs, so only their shapes matter.
"""

_libraries: list[Any] = []
"""Keeps the libraries alive, because their implementations are removed with them."""


def add_operators(gpu: Gpu) -> None:
    """Register operators for a GPU that is not present: attention, recurrent layers and their fused
    cells.
    """
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)
    if gpu.vendor == "nvidia":
        shim.use_cudnn()
    attention = Attention(gpu)
    for key in ("AutogradCUDA", "CUDA"):
        library.impl("scaled_dot_product_attention", attention, key)
    for name in RECURRENT:
        for key in ("AutogradCUDA", "CUDA"):
            library.impl(name, _decomposed(name), key)
    _ask_the_cpu()
    # This is for CUDA only, and has no description for fake tensors: where there is a GPU,
    # FakeTensorMode runs it.
    library.impl("_thnn_fused_gru_cell", fused_gru_cell, "Meta")
    library.impl("_thnn_fused_gru_cell_backward", fused_gru_cell_backward, "Meta")


def _decomposed(name: str) -> Any:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload)
    return operator.py_kernels[torch._C.DispatchKey.CompositeImplicitAutograd]


def _ask_the_cpu() -> None:
    """Run on the CPU the operators that FakeTensorMode runs on zeros, to learn the output's shape
    where no rule describes it.

    Hook: ``run_fallback_kernel`` (torch/_subclasses/fake_tensor.py).
    """
    original = require("torch._subclasses.fake_tensor", "run_fallback_kernel")

    @functools.wraps(original)
    def run_fallback_kernel(
        mode: Any, func: Any, flat_args: Sequence[Any], spec: Any, error: Exception
    ) -> Any:
        tensors = [argument for argument in flat_args if isinstance(argument, torch.Tensor)]
        if not any(tensor.device.type == "cuda" for tensor in tensors):
            return original(mode, func, flat_args, spec, error)
        with no_dispatch():
            zeros = list(flat_args)
            for position, argument in enumerate(flat_args):
                if mode.is_our_fake(argument):
                    zeros[position] = _zeros(argument)
            args, kwargs = tree_unflatten(zeros, spec)
            output = func(*args, **kwargs)
        given = {zero.untyped_storage()._cdata for zero in zeros if isinstance(zero, torch.Tensor)}
        made = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
        # What comes of zeros is no view of the fake input, so an operator that returns one is
        # refused, as torch does.
        if any(tensor.untyped_storage()._cdata in given for tensor in made):
            raise error
        with mode:
            return tree_map_only(torch.Tensor, _like_on_gpu, output)

    module = sys.modules["torch._subclasses.fake_tensor"]
    module.run_fallback_kernel = run_fallback_kernel  # type: ignore[attr-defined]


def _zeros(fake: Any) -> torch.Tensor:
    device = fake.fake_device
    if device.type == "cuda":
        device = "cpu"
    return torch.zeros_like(fake, device=device)


def _like_on_gpu(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="cuda")


def fused_gru_cell(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hidden: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(hidden), hidden.new_empty((hidden.shape[0], 5 * hidden.shape[1]))


def fused_gru_cell_backward(
    grad: torch.Tensor, workspace: torch.Tensor, has_bias: bool
) -> tuple[torch.Tensor | None, ...]:
    batch, hidden = grad.shape
    if has_bias:
        bias = (grad.new_empty(3 * hidden), grad.new_empty(3 * hidden))
    else:
        bias = (None, None)
    gates = grad.new_empty((batch, 3 * hidden)), grad.new_empty((batch, 3 * hidden))
    return (*gates, torch.empty_like(grad), *bias)


# The kernel that ``scaled_dot_product_attention`` becomes on the GPU.

Backend = Literal["cudnn", "flash", "efficient", "math"]

CUDNN_HEAD, CUDNN_HEAD_ON_HOPPER, FLASH_HEAD = 128, 256, 256
"""Largest sizes of a head that cuDNN accepts, that cuDNN accepts on Hopper, and that flash
attention accepts.
"""

LOWEST = {"cudnn": -65504.0}
"""Value added at masked positions, by backend; otherwise minus infinity."""

_ALIGNMENT = 8
"""Alignment of flash attention's heads, and of the rows of efficient attention's masks."""


class Attention:
    """Implements the operator ``aten::scaled_dot_product_attention`` for one GPU.

    A build without CUDA has no kernel to choose from, and would silently decompose attention. This
    follows ``scaled_dot_product_attention`` (aten/src/ATen/native/transformers/attention.cpp),
    which prepares the inputs for the kernel, and ``select_sdp_backend``
    (…/transformers/cuda/sdp_utils.cpp), which chooses it: cuDNN on Hopper and Blackwell, then
    flash, then efficient attention, unless one cannot take the inputs or is switched off
    (``torch.nn.attention.sdpa_kernel``).
    """

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

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
        """Compute attention by the implementation that torch would choose on this GPU."""
        asked = AttentionArguments(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        backend = chosen(asked, self._gpu)
        mask = _additive(attn_mask, query.dtype, LOWEST.get(backend, float("-inf")))
        if backend == "flash":
            return _flash(asked, scale)
        if backend == "math":
            math = torch.ops.aten._scaled_dot_product_attention_math
            return math(
                query,
                key,
                value,
                mask,
                dropout_p,
                is_causal,
                None,
                scale=scale,
                enable_gqa=enable_gqa,
            )[0]
        saves = torch.is_grad_enabled() and asked.needs_gradient
        if backend == "cudnn":
            fused = torch.ops.aten._scaled_dot_product_cudnn_attention
            return fused(query, key, value, mask, saves, dropout_p, is_causal, False, scale=scale)[
                0
            ]
        if mask is None:
            mask = None
        else:
            mask = _aligned(mask).expand(*query.shape[:3], key.shape[2])
        fused = torch.ops.aten._scaled_dot_product_efficient_attention
        return fused(query, key, value, mask, saves, dropout_p, is_causal, scale=scale)[0]


@dataclass(frozen=True, slots=True)
class AttentionArguments:
    """The arguments of attention by which torch chooses a kernel."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    mask: torch.Tensor | None
    dropout: float
    is_causal: bool
    grouped: bool

    @property
    def inputs(self) -> tuple[torch.Tensor, ...]:
        return self.query, self.key, self.value

    @property
    def needs_gradient(self) -> bool:
        return any(tensor.requires_grad for tensor in self.inputs)

    @property
    def is_half(self) -> bool:
        return self.query.dtype in (torch.float16, torch.bfloat16)


def chosen(asked: AttentionArguments, gpu: Gpu) -> Backend:
    """Return the result of ``_fused_sdp_choice`` in a build with CUDA."""
    if any(tensor.dim() != 4 for tensor in asked.inputs):
        return "math"
    if any(tensor.shape[2] == 0 for tensor in asked.inputs):
        return "math"
    if _cudnn(asked, gpu):
        return "cudnn"
    if _flash_takes(asked, gpu):
        return "flash"
    if _efficient_takes(asked, gpu):
        return "efficient"
    return "math"


def _cudnn(asked: AttentionArguments, gpu: Gpu) -> bool:
    """Return whether cuDNN is preferred and takes the inputs (``check_prefer_cudnn_attention``,
    ``can_use_cudnn_attention``).
    """
    if (
        gpu.vendor != "nvidia"
        or gpu.capability not in ((9, 0), (10, 0))
        or not torch._C._get_cudnn_sdp_enabled()
    ):
        return False
    limit = CUDNN_HEAD_ON_HOPPER if gpu.capability == (9, 0) else CUDNN_HEAD
    heads = asked.query.shape[-1], asked.value.shape[-1]
    long_enough = asked.key.shape[2] != 1 and not (asked.query.shape[2] == 1 and asked.dropout)
    return (
        asked.is_half
        and long_enough
        and all(head <= limit and head % 8 == 0 for head in heads)
        and not torch.are_deterministic_algorithms_enabled()
        and _mask_can_be_spread(asked)
        and _heads_match(asked, may_be_grouped=True)
        and _rows_are_dense(asked)
    )


def _flash_takes(asked: AttentionArguments, gpu: Gpu) -> bool:
    """Return whether flash attention takes the inputs (``can_use_flash_attention``)."""
    head = asked.query.shape[-1]
    same_heads = all(tensor.shape[-1] == head for tensor in asked.inputs)
    is_square = asked.query.shape[2] == asked.key.shape[2]
    return (
        torch._C._get_flash_sdp_enabled()
        and asked.is_half
        and asked.mask is None
        and same_heads
        and head <= FLASH_HEAD
        and (gpu.vendor != "nvidia" or gpu.capability >= (8, 0))
        and not _too_wide_for_backward(asked, gpu)
        and (is_square or not asked.is_causal)
        and _heads_match(asked, may_be_grouped=True)
        and _rows_are_dense(asked)
    )


def _efficient_takes(asked: AttentionArguments, gpu: Gpu) -> bool:
    """Return whether efficient attention takes the inputs (``can_use_mem_efficient_attention``)."""
    dtypes = [torch.float16, torch.float32]
    if gpu.vendor != "nvidia" or gpu.capability >= (8, 0):
        dtypes.append(torch.bfloat16)
    alignment = 1
    if gpu.vendor == "nvidia":
        alignment = 8 if asked.is_half else 4
    heads = asked.query.shape[-1], asked.value.shape[-1]
    return (
        torch._C._get_mem_efficient_sdp_enabled()
        and asked.query.dtype in dtypes
        and asked.key.shape[-1] == heads[0]
        and all(head % alignment == 0 for head in heads)
        and _heads_match(asked, may_be_grouped=False)
        and _rows_are_dense(asked)
    )


def _too_wide_for_backward(asked: AttentionArguments, gpu: Gpu) -> bool:
    """Follow ``check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120``."""
    small = gpu.vendor == "nvidia" and (
        (8, 6) <= gpu.capability <= (8, 9) or gpu.capability[0] == 12
    )
    head = asked.query.shape[-1]
    return (
        small and asked.needs_gradient and bool(192 < head <= 224 or (head > 224 and asked.dropout))
    )


def _mask_can_be_spread(asked: AttentionArguments) -> bool:
    """Follow ``check_attn_mask_shape``. A mask with a gradient is left to other backends."""
    mask = asked.mask
    if mask is None:
        return True
    wanted = (*asked.query.shape[:3], asked.key.shape[2])[-mask.dim() :]
    sizes = zip(mask.shape, wanted, strict=False)
    fits = all(size in (1, wanted_size) for size, wanted_size in sizes)
    return not mask.requires_grad and mask.dim() in (2, 4) and fits


def _heads_match(asked: AttentionArguments, *, may_be_grouped: bool) -> bool:
    """Follow ``check_batch_size_and_num_heads_dense``."""
    (batch, heads), *others = [tensor.shape[:2] for tensor in asked.inputs]
    if asked.grouped and may_be_grouped:
        return all(heads % other[1] == 0 for other in others)
    return all(other[0] == batch and other[1] == heads for other in others)


def _rows_are_dense(asked: AttentionArguments) -> bool:
    """Follow ``check_last_dim_stride_equals_1_dense``."""
    tensors = (*asked.inputs, asked.mask)
    return all(tensor is None or tensor.stride(-1) == 1 for tensor in tensors)


def _additive(mask: torch.Tensor | None, dtype: torch.dtype, lowest: float) -> torch.Tensor | None:
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(lowest, dtype=dtype, device=mask.device))


def _aligned(mask: torch.Tensor) -> torch.Tensor:
    """Follow ``preprocess_mask``."""
    if mask.stride(-1) == 1 and all(stride % _ALIGNMENT == 0 for stride in mask.stride()[:-1]):
        return mask
    size = mask.shape[-1]
    # Padded and cut again, so that the rows are aligned and as long as before.
    padded = torch.nn.functional.pad(mask, (0, -size % _ALIGNMENT))
    if padded is mask:
        return padded
    return torch.ops.aten.slice.Tensor(padded, -1, 0, size)


def _flash(asked: AttentionArguments, scale: float | None) -> torch.Tensor:
    """Call flash attention, with heads padded to a multiple of eight."""
    head = asked.query.shape[-1]
    # Of the size before padding: the kernel would take the other.
    scale = 1.0 / head**0.5 if scale is None else scale
    missing = -head % _ALIGNMENT
    inputs = list(asked.inputs)
    if missing:
        inputs = [torch.nn.functional.pad(tensor, (0, missing)) for tensor in inputs]
    fused = torch.ops.aten._scaled_dot_product_flash_attention
    output: torch.Tensor = fused(*inputs, asked.dropout, asked.is_causal, False, scale=scale)[0]
    if not missing:
        return output
    return torch.ops.aten.slice.Tensor(output, -1, 0, head)
