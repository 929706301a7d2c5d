"""This helper returns gradients by parameter name."""

from __future__ import annotations

from collections.abc import Callable

import torch


def gradients(model: torch.nn.Module, run: Callable[[], torch.Tensor]) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    run().square().sum().backward()
    found = {
        name: parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }
    model.zero_grad(set_to_none=True)
    return found
