"""This module gives the target other inputs than the example's: those of an expression, or another
batch of those it has.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
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
        """Return (args, kwargs) of an expression; of an empty one, the example inputs with twice
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
        if other:
            mark_differing(
                target.arguments, self._arguments("" if other == TWICE_THE_BATCH else other)
            )


@dataclass(frozen=True)
class Script:
    """Makes inputs for a script that has run, of which the example inputs are not known."""

    place: TargetPlace
    request: CaptureRequest

    @property
    def callable(self) -> None:
        return None

    def inputs(self, expression: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return (args, kwargs) of an expression. Raises as ``CalledTarget.inputs`` does."""
        if not expression.strip():
            raise TargetError(
                "A script has no example inputs to double. Give inputs as an expression, "
                "in the script's names."
            )
        offer = OfferingModule(
            "__main__", dict(vars(sys.modules["__main__"])), self.place, self.request, _silent
        )
        arguments = as_arguments(offer.evaluate(expression, THESE), THESE)
        return arguments.args, arguments.keywords


def mark_differing(first: Arguments, other: Arguments) -> None:
    """Call ``torch._dynamo.mark_dynamic`` for each dimension of ``first`` that has another size in
    ``other``.
    """
    for one, another in zip(first.tensors(), other.tensors(), strict=False):
        if one.dim() == another.dim():
            for dimension, (size, other_size) in enumerate(
                zip(one.shape, another.shape, strict=True)
            ):
                if size != other_size:
                    torch._dynamo.mark_dynamic(one, dimension)


def _silent(activity: str) -> None:
    """Ignore the activity: whoever asks for inputs tells it."""


# Another batch.


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
