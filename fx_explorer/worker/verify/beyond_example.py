"""What no call of a comparison is like, because all of them are made as the example is: the types of
its inputs, what has a gradient in it, and the mode that its modules are in.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType, FunctionType

import torch

from fx_explorer.worker.target.target import Target

OTHER_TYPES = "inputs of other types or dtypes or autocast"
GRADIENTS = "gradients"
GRADIENTS_OF_INPUTS = "gradients of inputs"
TRAINING = "training mode"
EVALUATION = "evaluation mode"


def never_tried(target: Target, goes_backward: bool) -> list[str]:
    """Return in words the kinds of calls that a user may make and the comparison never does."""
    return [*_inputs(target, goes_backward), *_modes(target)]


def _inputs(target: Target, goes_backward: bool) -> Iterator[str]:
    arguments = target.arguments
    if arguments.args or arguments.keywords:
        yield OTHER_TYPES
    if not goes_backward and any(map(_can_have_gradient, target.differentiable())):
        yield GRADIENTS
    elif any(_can_have_gradient(one) and not one.requires_grad for one in arguments.tensors()):
        yield GRADIENTS_OF_INPUTS


def _can_have_gradient(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _modes(target: Target) -> Iterator[str]:
    """Yield the mode that no module is called in although it would make a difference there."""
    owner = target.callable if isinstance(target.callable, torch.nn.Module) else getattr(target.callable, "__self__", None)
    modules = owner.modules() if isinstance(owner, torch.nn.Module) else ()
    modes = {module.training for module in modules if asks_for_its_mode(type(module))}
    if modes == {False}:
        yield TRAINING
    elif modes == {True}:
        yield EVALUATION


def asks_for_its_mode(kind: type) -> bool:
    """Return whether a method of this class, or of a class that it inherits from, looks at
    ``self.training``.
    """
    classes = kind.__mro__[: kind.__mro__.index(torch.nn.Module)]
    methods = (method for one in classes for method in vars(one).values() if isinstance(method, FunctionType))
    return any(_names_training(method.__code__) for method in methods)


def _names_training(code: CodeType) -> bool:
    return "training" in code.co_names or any(_names_training(one) for one in code.co_consts if isinstance(one, CodeType))
