"""Other inputs of the same shapes and types as the example inputs, to call a program with that is being verified.

A change may hold for the example inputs alone: the negated, larger and smaller ones make a branch that depends on a tensor's
content go the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from fx_explorer.worker.inputs import Arguments

SEEDS = (1, 2, 3)

_CHANGES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "the example inputs negated": lambda tensor: -tensor,
    "the example inputs, 100 times as large": lambda tensor: tensor * 100,
    "the example inputs as zeros": lambda tensor: tensor * 0,
}
"""For floating-point tensors: an index must stay in its range."""


def fresh_inputs(arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    """(what they are, in words; the inputs), the same ones in every process. The first are the example inputs themselves."""
    yield "the example inputs", copied(arguments)
    if not any(True for _ in arguments.tensors()):
        return
    if any(tensor.is_floating_point() for tensor in arguments.tensors()):
        for words, change in _CHANGES.items():
            yield words, arguments.changed(lambda tensor, change=change: _float(tensor, change))  # type: ignore[misc]
    for seed in SEEDS:
        generator = torch.Generator().manual_seed(seed)
        yield f"random inputs (seed {seed})", arguments.changed(lambda tensor, using=generator: _random(tensor, using))  # type: ignore[misc]


def copied(arguments: Arguments) -> Arguments:
    """The same values in tensors of their own: a call may change its inputs."""
    return arguments.changed(lambda tensor: _like(tensor, tensor))


def _float(tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return _like(change(tensor.detach()) if tensor.is_floating_point() else tensor, tensor)


def _random(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Drawn on the CPU, so that every device gets the same; integers stay within the range of the example's."""
    if tensor.layout != torch.strided or tensor.numel() == 0:
        return _like(tensor, tensor)
    if tensor.is_floating_point() or tensor.is_complex():
        drawn = torch.randn(tensor.shape, generator=generator, dtype=torch.promote_types(tensor.dtype, torch.float32))
    elif tensor.dtype == torch.bool:
        drawn = torch.randint(0, 2, tensor.shape, generator=generator)
    else:
        low, high = _range(tensor)
        drawn = torch.randint(low, high + 1, tensor.shape, generator=generator)
    return _like(drawn.to(tensor), tensor)


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """A single number may be a count that a branch depends on: it varies more than the example shows."""
    low, high = int(tensor.min()), int(tensor.max())
    return (min(low, 0), 2 * max(high, 1)) if tensor.numel() == 1 else (low, high)


def _like(value: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """``value`` as a new tensor with the strides of ``tensor``, that requires grad where ``tensor`` does."""
    if value.layout == torch.strided and tensor.layout == torch.strided and value.stride() != tensor.stride():
        value = torch.empty_like(tensor, requires_grad=False).copy_(value)
    made = value.detach().clone()
    return made.requires_grad_() if tensor.requires_grad else made
