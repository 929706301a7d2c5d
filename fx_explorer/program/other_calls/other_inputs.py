"""Other inputs for the target that was called, made and prepared as ``--inputs`` would be."""

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
from fx_explorer.program.other_calls.other_sizes import with_twice_the_batch
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
        """Mark what the request wants marked, on the inputs that ``target`` is called with."""
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
