"""This module plans the calls of a comparison that differ from the example in more than their
values: with gradients, or in the other training mode. It also names the kinds of calls that are not
made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CodeType, FunctionType

import torch

from fx_explorer.program.fresh_inputs import PlannedCall, calls, copied
from fx_explorer.program.inputs import Arguments, with_grad
from fx_explorer.program.target import Target

OTHER_TYPES = "inputs of other types or dtypes or autocast"
GRADIENTS = "gradients"

Way = tuple[str, bool, bool | None]
"""A way of calling: a phrase for how it differs from the example; whether the inputs need
gradients; the training mode that modules are put into, None for their own. These are plain values,
which another process can read.
"""

_VALUES = (
    "the example inputs",
    "the example inputs negated",
    "the example inputs as zeros",
    "the example inputs with a NaN",
    "the example inputs with infinities",
    "random inputs (seed 1)",
)
"""Descriptions of the calls that are repeated in each of these ways: with these values, branches
that depend on a value are taken both ways.
"""


def ways_beyond(target: Target, may_have_gradients: bool) -> list[Way]:
    """Return the ways of calling, beyond the example, that a comparison tries. The original
    decides: all programs of a comparison have to make the same calls.
    """
    lacks = may_have_gradients and any(
        _can_have_gradient(tensor) and not tensor.requires_grad
        for tensor in target.arguments.tensors()
    )
    ways: list[Way] = [("gradients of inputs", True, None)] if lacks else []
    mode = _mode(target)
    if mode is not None:
        other_mode = "evaluation mode" if mode else "training mode"
        ways.append((other_mode, lacks, not mode))
    return ways


def planned_calls(arguments: Arguments, ways: Sequence[Way]) -> Iterator[PlannedCall]:
    """Yield all calls of a comparison: with the example's values and others, then in each of
    ``ways``.
    """
    usual = list(calls(arguments))
    yield from usual
    for words, needs_gradients, training in ways:
        for call in usual:
            if call.words in _VALUES:
                given = copied(
                    call.arguments
                )  # a call may change its inputs, and gradients add up in them
                given = given.changed(with_grad) if needs_gradients else given
                yield PlannedCall(
                    f"{call.words}, {words}", given, unlike_example=words, training=training
                )


def never_tried(target: Target, may_have_gradients: bool) -> Iterator[str]:
    """Yield phrases for the kinds of calls that a user may make but a comparison does not."""
    if target.arguments.args or target.arguments.keywords:
        yield OTHER_TYPES
    if not may_have_gradients and any(map(_can_have_gradient, target.differentiable())):
        yield GRADIENTS


def _can_have_gradient(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _mode(target: Target) -> bool | None:
    """Return the mode of those modules that use ``self.training``; None when there are none, or
    when both modes occur.
    """
    modules = target.network.modules() if target.network else ()
    modes = {module.training for module in modules if asks_for_its_mode(type(module))}
    return modes.pop() if len(modes) == 1 else None


def asks_for_its_mode(kind: type) -> bool:
    """Return whether a method of this class, or of a class that it inherits from, looks at
    ``self.training``.
    """
    classes = kind.__mro__[: kind.__mro__.index(torch.nn.Module)]
    for each_class in classes:
        for method in vars(each_class).values():
            if isinstance(method, FunctionType) and _names_training(method.__code__):
                return True
    return False


def _names_training(code: CodeType) -> bool:
    return "training" in code.co_names or any(
        _names_training(co_const) for co_const in code.co_consts if isinstance(co_const, CodeType)
    )
