"""Example inputs at another size: another batch, or another size of dimensions that the user names.

A larger size repeats the example's content, so that an index stays in its range.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fx_explorer.errors import TargetError
from fx_explorer.model import InputDim, InputSize
from fx_explorer.program.inputs import Arguments, tensors
from fx_explorer.program.target import Target


def with_sizes(target: Target, sizes: Sequence[InputSize]) -> tuple[Target, list[str]]:
    """Return the target with inputs of these sizes, and which dimensions each of them is, in words.
    Raises TargetError for a dimension that is not there.
    """
    named, parts = named_inputs(target), []
    changes: dict[int, dict[int, int]] = {}
    for size in sizes:
        dims = size.dims or batch_dims(named)
        for dim in dims:
            for tensor in _tensors_of(dim, named):
                already = changes.setdefault(id(tensor), {}).setdefault(dim.dim, size.value)
                if already != size.value:
                    raise TargetError(
                        f"dimension {dim.dim} of {dim.input} would be {already:,} and "
                        f"{size.value:,} at once"
                    )
        parts.append(f"{size.name} is dimension {_in_words(dims)}")
    arguments = target.arguments.changed(
        lambda tensor: resized(tensor, changes.get(id(tensor), {}))
    )
    return target.with_arguments(arguments), parts


def named_inputs(target: Target) -> dict[str, Any]:
    """Return the arguments by the names of the parameters; by position where there is no name."""
    names = _parameter_names(target.callable)
    arguments: Arguments = target.arguments
    by_position = {
        names[i] if i < len(names) else str(i): value for i, value in enumerate(arguments.args)
    }
    return {**by_position, **arguments.keywords}


def batch_dims(named: dict[str, Any]) -> tuple[InputDim, ...]:
    """Return dimension 0 of every input whose first size is that of the first tensor. Raises
    TargetError when no input has a tensor with dimensions.
    """
    first = next(
        (tensor for value in named.values() for tensor in tensors(value) if tensor.dim()), None
    )
    if first is None:
        raise TargetError(
            "no input is a tensor with dimensions, so there is no batch to change. Leave "
            "--batch out."
        )
    batch = first.shape[0]
    return tuple(
        InputDim(name, 0)
        for name, value in named.items()
        if any(tensor.dim() and tensor.shape[0] == batch for tensor in tensors(value))
    )


def resized(tensor: torch.Tensor, sizes: dict[int, int]) -> torch.Tensor:
    """Return the tensor with other sizes, by dimension; its content is repeated or cut off."""
    changed = tensor.detach()
    for dim, size in sizes.items():
        rows = torch.arange(size, device=tensor.device) % tensor.shape[dim]
        changed = changed.index_select(dim, rows)
    return changed.requires_grad_(tensor.requires_grad) if sizes else tensor


def _tensors_of(dim: InputDim, named: dict[str, Any]) -> list[torch.Tensor]:
    """Return the tensors of the input that have this dimension, of the size that the first has
    there. Raises TargetError for an input or dimension that is not there.
    """
    if dim.input.isdecimal() and int(dim.input) < len(named):
        position = list(named)[int(dim.input)]
    else:
        position = dim.input
    if position not in named:
        raise TargetError(
            f"there is no input {dim.input!r}: the inputs are "
            f"{', '.join(named) or 'none'}. Choose one with --size."
        )
    found = [tensor for tensor in tensors(named[position]) if tensor.dim() > dim.dim]
    if not found:
        raise TargetError(
            f"{dim.input} has no tensor with a dimension {dim.dim}: {_shapes(named[position])}"
        )
    size = found[0].shape[dim.dim]
    if not size:
        raise TargetError(
            f"dimension {dim.dim} of {dim.input} is 0 in the example: there is no content to repeat"
        )
    return [tensor for tensor in found if tensor.shape[dim.dim] == size]


def _shapes(value: object) -> str:
    return ", ".join(str(list(tensor.shape)) for tensor in tensors(value)) or "it is no tensor"


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]


def _in_words(dims: Sequence[InputDim]) -> str:
    by_dim: dict[int, list[str]] = {}
    for dim in dims:
        by_dim.setdefault(dim.dim, []).append(dim.input)
    return ", ".join(f"{dim} of {' and '.join(names)}" for dim, names in by_dim.items())
