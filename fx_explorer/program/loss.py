"""A scalar to call ``backward()`` on, from whatever a model returns."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from fx_explorer.program.inputs import tensors


def find_loss(output: object) -> torch.Tensor | None:
    """Return the output's ``loss`` (attribute or key) if there is one, else the sum of its floating
    tensors that have a gradient.

    Returns None when nothing in the output has a gradient.
    """
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(own, torch.Tensor) and own.requires_grad:
        return own if own.dim() == 0 else own.sum()
    total: torch.Tensor | None = None
    for tensor in tensors(output):
        if tensor.requires_grad:
            part = _sum(tensor)
            total = part if total is None else total + part.to(total.device)
    return total


def _sum(tensor: torch.Tensor) -> torch.Tensor:
    """Return the sum of all elements, with real and imaginary parts of a complex tensor alike."""
    return torch.view_as_real(tensor).sum() if tensor.is_complex() else tensor.sum()
