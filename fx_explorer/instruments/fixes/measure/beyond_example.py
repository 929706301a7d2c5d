"""Calls that are unlike the example in more than their values: with gradients that it does not
have, and in the other mode of training. What no call is like even so is named.
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
"""What the calls are unlike the example in, in words; whether their inputs need gradients; and the
mode that modules are put into, None for their own. Plain values, for other processes to read.
"""

_VALUES = (
    "the example inputs",
    "the example inputs negated",
    "the example inputs as zeros",
    "the example inputs with a NaN",
    "the example inputs with infinities",
    "random inputs (seed 1)",
)
"""The calls that are made in each of these ways too: the values that take a branch the other way.
"""


def ways_beyond(target: Target, may_have_gradients: bool) -> list[Way]:
    """Return the ways of calling that the example does not show. The original decides: all programs
    of a comparison have to make the same calls.
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
    """Yield all calls of a comparison: with the example's values and others, then in these ways."""
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
    """Yield in words the kinds of calls that a user may make and no comparison does."""
    if target.arguments.args or target.arguments.keywords:
        yield OTHER_TYPES
    if not may_have_gradients and any(map(_can_have_gradient, target.differentiable())):
        yield GRADIENTS


def _can_have_gradient(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _mode(target: Target) -> bool | None:
    """Return the mode of the modules in which it makes a difference; None when there are none, or
    both modes occur.
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
