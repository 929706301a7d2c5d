"""Operators that a build of torch without CUDA chooses or describes otherwise than one with
CUDA.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree
from torch.utils._mode_utils import no_dispatch

from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu import shim
from fx_explorer.capture.virtual_gpu.emulation.attention import Attention
from fx_explorer.model import Gpu

RECURRENT = [
    f"{name}.{given}"
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    for given in ("input", "data")
]
"""On a GPU cuDNN runs these. Here they run as Python decomposes them: Dynamo leaves them to run
between graphs, so only their shapes matter.
"""

_libraries: list[Any] = []
"""The libraries are kept, because an implementation goes when its library does."""


def add_operators(gpu: Gpu) -> None:
    """Register operators for a GPU that is not there: attention, recurrent layers and their fused
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
    """Run on the CPU what FakeTensorMode runs on zeros, to learn the output's shape of an operator
    that nobody described.

    Hook: ``run_fallback_kernel`` (torch/_subclasses/fake_tensor.py).
    """
    original = require("torch._subclasses.fake_tensor", "run_fallback_kernel")

    @functools.wraps(original)
    def run_fallback_kernel(
        mode: Any, func: Any, flat_args: Sequence[Any], spec: Any, error: Exception
    ) -> Any:
        if not any(
            isinstance(one, torch.Tensor) and one.device.type == "cuda" for one in flat_args
        ):
            return original(mode, func, flat_args, spec, error)
        with no_dispatch():
            zeros = [_zeros(one) if mode.is_our_fake(one) else one for one in flat_args]
            args, kwargs = _pytree.tree_unflatten(zeros, spec)
            output = func(*args, **kwargs)
        given = {one.untyped_storage()._cdata for one in zeros if isinstance(one, torch.Tensor)}
        made = [one for one in _pytree.tree_leaves(output) if isinstance(one, torch.Tensor)]
        # What comes of zeros is no view of the fake input, so an operator that returns one is
        # refused, as torch does.
        if any(one.untyped_storage()._cdata in given for one in made):
            raise error
        with mode:
            return _pytree.tree_map_only(torch.Tensor, _like_on_gpu, output)

    sys.modules["torch._subclasses.fake_tensor"].run_fallback_kernel = run_fallback_kernel  # type: ignore[attr-defined]


def _zeros(fake: Any) -> torch.Tensor:
    return torch.zeros_like(
        fake, device="cpu" if fake.fake_device.type == "cuda" else fake.fake_device
    )


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
    bias = (grad.new_empty(3 * hidden), grad.new_empty(3 * hidden)) if has_bias else (None, None)
    gates = grad.new_empty((batch, 3 * hidden)), grad.new_empty((batch, 3 * hidden))
    return (*gates, torch.empty_like(grad), *bias)
