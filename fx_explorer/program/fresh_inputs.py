"""This module makes inputs other than the example's: from an expression, with another batch size,
and more of the same shapes and types, to compare a changed program with the original.

A change may hold for the example inputs alone. Negated, larger and smaller inputs, NaN and the
largest integers make a branch that depends on a tensor's content go the other way, and show what
overflows.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from fx_explorer.errors import TargetError
from fx_explorer.model import TWICE_THE_BATCH, CaptureRequest
from fx_explorer.program.calling import prepared
from fx_explorer.program.inputs import Arguments, as_arguments
from fx_explorer.program.place import TargetPlace
from fx_explorer.program.target import OfferingModule, Target

THESE = "the other inputs"


@dataclass(frozen=True)
class CalledTarget:
    """The target as ``CalledProgram`` (capture/recording/live_guards.py) describes it."""

    target: Target
    place: TargetPlace
    request: CaptureRequest

    @property
    def callable(self) -> Callable[..., Any]:
        return self.target.callable

    def inputs(self, expression: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return (args, kwargs) of an expression; for an empty one, the example inputs with twice
        the batch.

        Raises TargetError when it is no expression or names what is not there, and whatever the
        expression raises.
        """
        ready, _ = prepared(
            replace(self.target, arguments=self._arguments(expression)), self.request
        )
        return ready.arguments.args, ready.arguments.keywords

    def _arguments(self, expression: str) -> Arguments:
        if not expression.strip():
            return with_twice_the_batch(self.target.arguments)
        offer = OfferingModule(
            str(self.target.scope.get("__name__", "")),
            dict(self.target.scope),
            self.place,
            self.request,
            _silent,
        )
        return as_arguments(offer.evaluate(expression, THESE), THESE)

    def mark(self, target: Target) -> None:
        """Mark as dynamic the sizes of the inputs of ``target`` that differ in the request's other
        inputs.
        """
        other = self.request.mark_against
        if not other:
            return
        expression = "" if other == TWICE_THE_BATCH else other
        mark_differing(target.arguments, self._arguments(expression))


@dataclass(frozen=True)
class Script:
    """Makes inputs for a script that has run, whose example inputs are not known."""

    place: TargetPlace
    request: CaptureRequest

    @property
    def callable(self) -> None:
        return None

    def inputs(self, expression: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return (args, kwargs) of an expression. Raises as ``CalledTarget.inputs`` does."""
        if not expression.strip():
            raise TargetError(
                "A script has no example inputs to double. Give inputs as an expression, using "
                "names from the script."
            )
        offer = OfferingModule(
            "__main__", dict(vars(sys.modules["__main__"])), self.place, self.request, _silent
        )
        arguments = as_arguments(offer.evaluate(expression, THESE), THESE)
        return arguments.args, arguments.keywords


def mark_differing(first: Arguments, other: Arguments) -> None:
    """Call ``mark_dynamic`` for each dimension of ``first`` that has another size in
    ``other``.
    """
    from fx_explorer.capture.torch_compat.private_names import mark_dynamic

    for one, another in zip(first.tensors(), other.tensors(), strict=False):
        if one.dim() == another.dim():
            for dimension, (size, other_size) in enumerate(
                zip(one.shape, another.shape, strict=True)
            ):
                if size != other_size:
                    mark_dynamic(one, dimension)


def _silent(activity: str) -> None:
    """Ignore the activity. For callers that report the making of inputs themselves."""


# Another batch.


def with_twice_the_batch(arguments: Arguments) -> Arguments:
    """Return the arguments with every tensor repeated whose first size is that of the first tensor.
    Raises TargetError without one.
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


SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class PlannedCall:
    """One call that both compared programs make."""

    words: str
    """The inputs, in words."""
    arguments: Arguments
    goes_on: bool = False
    """Whether the call begins with the state after the call before, instead of the first state."""
    has_other_sizes: bool = False
    unlike_example: str = ""
    """Describes how the call differs from the example apart from its values: gradients, a mode."""
    training: bool | None = None
    """The training mode for all modules; None leaves each in its own."""

    @property
    def compiled_anew_for(self) -> str:
        """Return the reason for a possible recompile by this call; empty without one."""
        if not self.unlike_example and self.has_other_sizes:
            return "other sizes"
        return self.unlike_example


Change = Callable[[torch.Tensor], torch.Tensor]


def _first_elements(*values: float) -> Change:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        changed = tensor.clone(memory_format=torch.contiguous_format)
        count = min(len(values), tensor.numel())
        changed.view(-1)[:count] = torch.tensor(
            values[:count], dtype=tensor.dtype, device=tensor.device
        )
        return changed

    return change


_OF_FLOATS: dict[str, Change] = {
    "the example inputs negated": lambda tensor: -tensor,
    "the example inputs, 100 times as large": lambda tensor: tensor * 100,
    "the example inputs, a million times as large": lambda tensor: tensor * 1e6,
    "the example inputs negated, a million times as large": lambda tensor: tensor * -1e6,
    "the same large number in all places": lambda tensor: torch.full_like(
        tensor, _large_number(tensor.dtype)
    ),
    "the example inputs with a NaN": _first_elements(float("nan")),
    "the example inputs with infinities": _first_elements(float("inf"), float("-inf")),
}
"""Changes for floating-point tensors only, because an index must stay in its range.

One large number in all places shows a sum that is made in another order: the difference of two of
them is 0, and a small term that is added to it is lost in the other order.
"""


def _large_number(dtype: torch.dtype) -> float:
    """Return a number far beyond those that the dtype can distinguish from the next integer. Its
    square does not overflow in float32.
    """
    return min(1e10, torch.finfo(dtype).max / 8)


_OF_ALL: dict[str, Change] = {
    "the example inputs as zeros": torch.zeros_like,
    "the example inputs as ones": torch.ones_like,
    "zeros but for one element": lambda tensor: _first_elements(1)(torch.zeros_like(tensor)),
    "the smallest element in all places but one": lambda tensor: _all_but_one(
        tensor, torch.amin, torch.amax
    ),
    "the largest element in all places but one": lambda tensor: _all_but_one(
        tensor, torch.amax, torch.amin
    ),
}
"""Changes for all tensors. With the last three a condition chooses a single element: a graph for
any size may treat that size like the others.
"""


def _all_but_one(tensor: torch.Tensor, common: Change, single: Change) -> torch.Tensor:
    """Return a copy of the tensor changed by ``common``, with its first element changed by
    ``single``. A comparison that distinguishes elements of the example then separates the first one
    from the others, at any threshold.
    """
    if tensor.layout != torch.strided or tensor.numel() == 0 or tensor.is_complex():
        return tensor
    # Not every dtype has a minimum in torch.
    widest = torch.float64 if tensor.is_floating_point() else torch.int64
    wide = tensor.to(widest)
    changed = torch.empty_like(tensor, memory_format=torch.contiguous_format).copy_(common(wide))
    changed.view(-1)[:1] = single(wide)
    return changed


LARGEST = "the largest and smallest integers"

ALL_LARGE = "large integers"

_LARGE_BITS = 40
"""Number of bits of a large integer: a sum of a few such numbers still fits into 64 bits, but its
square does not.
"""

ALL_HALF = "the same integer in all places, so large that a sum of two overflows the dtype"

MODERATE = "integers that sum to hundreds"

_MODERATE = 100
"""A moderate integer: used as an exponent it overflows 64 bits, but a Python loop that counts so
far still ends at once.
"""

_OF_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "flags the other way": lambda value: not value if isinstance(value, bool) else value,
    "numbers one larger": lambda value: value if isinstance(value, bool) else value + 1,
    "numbers negated": lambda value: value if isinstance(value, bool) else -value,
    "numbers as zeros": lambda value: value if isinstance(value, bool) else type(value)(0),
    "integers of 2**62": lambda value: 2**62 if type(value) is int else value,
}
"""Changes for Python's numbers and flags among the arguments."""


def calls(arguments: Arguments) -> Iterator[PlannedCall]:
    """Yield the calls that both programs make. They are the same in every process.

    The first has the example inputs themselves; those with other sizes come last.
    """
    yield PlannedCall("the example inputs", copied(arguments))
    yield from (PlannedCall(words, given) for words, given in _other_content(arguments))
    yield PlannedCall(
        "the example inputs again, in the state after the previous call",
        copied(arguments),
        goes_on=True,
    )
    yield PlannedCall(
        "the example inputs a third time, in the same way", copied(arguments), goes_on=True
    )
    yield from (
        PlannedCall(words, given, has_other_sizes=True) for words, given in _other_sizes(arguments)
    )


def _other_content(arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    """Yield (words, inputs) with the same sizes and another content: special values, large
    integers, random values, other numbers.
    """
    tensors = list(arguments.tensors())
    if any(tensor.is_floating_point() for tensor in tensors):
        for words, change in _OF_FLOATS.items():
            yield words, arguments.changed(partial(_float, change))
    if tensors:
        for words, change in _OF_ALL.items():
            yield words, arguments.changed(partial(_changed, change))
    if any(_is_integer(tensor) for tensor in tensors):
        yield LARGEST, arguments.changed(_largest)
        yield ALL_LARGE, arguments.changed(_all_large)
        yield ALL_HALF, arguments.changed(_all_half)
        yield MODERATE, arguments.changed(_moderate)
    if tensors:
        for seed in SEEDS:
            generator = torch.Generator().manual_seed(seed)
            drawn = arguments.changed(partial(_random, generator))
            yield f"random inputs (seed {seed})", drawn
    for words, changed in _OF_NUMBERS.items():
        given = copied(arguments).with_numbers(changed)
        if given is not None:
            yield words, given


def _other_sizes(arguments: Arguments) -> Iterator[tuple[str, Arguments]]:
    with contextlib.suppress(TargetError):  # there is no batch
        yield "twice the batch", copied(with_twice_the_batch(arguments))
        yield "an empty batch", copied(without_a_batch(arguments))


def copied(arguments: Arguments) -> Arguments:
    """Return copies of the values in new tensors, because a call may change its inputs."""
    return arguments.changed(lambda tensor: _like(tensor, tensor))


def _is_integer(tensor: torch.Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _largest(tensor: torch.Tensor) -> torch.Tensor:
    if not _is_integer(tensor):
        return _like(tensor, tensor)
    of_dtype = torch.iinfo(tensor.dtype)
    return _like(_first_elements(of_dtype.max, of_dtype.min)(tensor.detach()), tensor)


def _all_large(tensor: torch.Tensor) -> torch.Tensor:
    """Return the example's integers moved far from zero, so that they do not cancel each other out
    in a sum as the largest and the smallest would.
    """
    if not _is_integer(tensor):
        return _like(tensor, tensor)
    bits = torch.iinfo(tensor.dtype).bits
    return _like(tensor.detach() + (1 << min(bits - 2, _LARGE_BITS)), tensor)


def _all_half(tensor: torch.Tensor) -> torch.Tensor:
    """Return integers whose sum wraps in a tensor but not in Python."""
    if not _is_integer(tensor):
        return _like(tensor, tensor)
    return _like(torch.full_like(tensor, torch.iinfo(tensor.dtype).max // 2 + 1), tensor)


def _moderate(tensor: torch.Tensor) -> torch.Tensor:
    """Return the example's integers increased: the first by 100, the others so that their sum stays
    below about 1,000.

    A loop that would not end with large integers ends with these. They still show where a Python
    integer differs from one of 64 bits.
    """
    if not _is_integer(tensor) or tensor.numel() == 0:
        return _like(tensor, tensor)
    example = tensor.detach().clone(memory_format=torch.contiguous_format).view(-1)
    moved = example + min(_MODERATE, 9 * _MODERATE // tensor.numel())
    moved[0] = example[0] + _MODERATE
    return _like(moved.view(tensor.shape), tensor)


def _changed(change: Change, tensor: torch.Tensor) -> torch.Tensor:
    return _like(change(tensor.detach()), tensor)


def _float(change: Change, tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return _like(tensor, tensor)
    return _changed(change, tensor)


def _random(generator: torch.Generator, tensor: torch.Tensor) -> torch.Tensor:
    """Return random values. They are drawn on the CPU, so that every device gets the same; integers
    stay within the example's range.
    """
    if tensor.layout != torch.strided or tensor.numel() == 0:
        return _like(tensor, tensor)
    if tensor.is_floating_point() or tensor.is_complex():
        drawn = torch.randn(
            tensor.shape,
            generator=generator,
            dtype=torch.promote_types(tensor.dtype, torch.float32),
        )
    elif tensor.dtype == torch.bool:
        drawn = torch.randint(0, 2, tensor.shape, generator=generator)
    else:
        low, high = _range(tensor)
        drawn = torch.randint(low, high + 1, tensor.shape, generator=generator)
    return _like(drawn.to(tensor), tensor)


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the range to draw from. A single number may be a count that a branch depends on, so it
    varies more than the example shows.
    """
    low, high = int(tensor.min()), int(tensor.max())
    if tensor.numel() == 1:
        return (min(low, 0), 2 * max(high, 1))
    return (low, high)


def _like(value: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    """Return ``value`` as a new tensor with the strides of ``tensor``, requiring grad where
    ``tensor`` does.
    """
    is_strided = all(
        given.layout == torch.strided and not given.is_nested for given in (value, tensor)
    )
    if is_strided and value.shape == tensor.shape and value.stride() != tensor.stride():
        value = torch.empty_like(tensor, requires_grad=False).copy_(value)
    made = value.detach().clone()
    if tensor.requires_grad:
        return made.requires_grad_()
    return made
