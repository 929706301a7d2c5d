"""The arguments of a call with another batch."""

from __future__ import annotations

from collections.abc import Callable

import torch

from fx_explorer.errors import TargetError
from fx_explorer.program.inputs import Arguments


def with_twice_the_batch(arguments: Arguments) -> Arguments:
    """Return the arguments with every tensor repeated whose first size is that of the first tensor.
    Raises TargetError when there is none.
    """
    return _with_another_batch(
        arguments, lambda tensor: torch.cat((tensor.detach(), tensor.detach()))
    )


def without_a_batch(arguments: Arguments) -> Arguments:
    """Return the arguments with a batch of size 0."""
    return _with_another_batch(arguments, lambda tensor: tensor.detach()[:0])


def _with_another_batch(
    arguments: Arguments, change: Callable[[torch.Tensor], torch.Tensor]
) -> Arguments:
    batch = next((tensor.shape[0] for tensor in arguments.tensors() if tensor.dim()), 0)
    if not batch:
        raise TargetError(
            "The example inputs have no tensor with a batch to double. Give other inputs "
            "as an expression."
        )

    def changed(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.dim() or tensor.shape[0] != batch:
            return tensor
        return change(tensor).requires_grad_(tensor.requires_grad)

    return arguments.changed(changed)
