"""A target that leaves Inductor a choice of candidates: a product of matrices with autotuning."""

from __future__ import annotations

import torch
import torch._inductor.config

torch._inductor.config.max_autotune_gemm = True


def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ weight)


example_inputs = (torch.ones(512, 256), torch.ones(256, 512))
