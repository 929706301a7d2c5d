"""This module turns example inputs, from a file or an expression, into arguments of a call, on the
right device.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from typing import Any

import torch

from fx_explorer.errors import TargetError


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments that the target is called with."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] | None = None
    origin: str = ""
    """Origin of the arguments, in words: ``example_inputs``, ``--inputs``,
    ``fx_explorer_target()``.
    """

    @property
    def keywords(self) -> dict[str, Any]:
        return self.kwargs or {}

    def tensors(self) -> Iterator[torch.Tensor]:
        return tensors((self.args, self.keywords))

    def describe(self) -> str:
        """Return shapes and types, for messages: ``(f32[4, 8], labels=i64[4])``."""
        shown = [_short(value) for value in self.args]
        shown += [f"{name}={_short(value)}" for name, value in self.keywords.items()]
        return f"({', '.join(shown)})"

    def advice(self) -> str:
        """Return a remedy if a call with these arguments has failed and the user may have meant
        others; empty without a sign of that.
        """
        if self.origin not in OFFERED or self.keywords:
            return ""
        match self.args:
            case (tuple() | list(), dict()):
                return (
                    "a tuple and a dict are passed as two arguments; to pass the tuple's elements "
                    "by position and the dict by name, let fx_explorer_target() return (callable, "
                    "args, kwargs)"
                )
            case (None,):
                return "None is passed as the only argument; a function must return the inputs"
            case (str(),):
                return (
                    "a string is passed as the only argument; write the inputs without quotes "
                    "around them"
                )
            case (tuple() | list() as inner,):
                kind = type(inner).__name__
                return (
                    f"the {kind} inside is passed as the only argument; to pass its elements as "
                    "arguments, leave out the brackets around it"
                )
            case (value,) if _holds_others(value):
                return (
                    f"the {type(value).__name__} itself is passed as the only argument; write "
                    "tuple(…) around it to pass its elements as arguments, next(iter(…)) to pass "
                    "the first of them"
                )
        if self.args and all(type(value) is int for value in self.args):
            return "numbers are passed as numbers; write torch.randn(…) for a tensor of that size"
        return ""

    def changed(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Arguments:
        """Return the arguments with ``change`` applied to every tensor. A tensor that is passed
        twice stays a single tensor.
        """
        changed: dict[int, torch.Tensor] = {}

        def change_once(tensor: torch.Tensor) -> torch.Tensor:
            if id(tensor) not in changed:
                changed[id(tensor)] = change(tensor)
            return changed[id(tensor)]

        args = tuple(_map_tensors(value, change_once) for value in self.args)
        return Arguments(
            args, {k: _map_tensors(v, change_once) for k, v in self.keywords.items()}, self.origin
        )

    def with_numbers(self, change: Callable[[Any], Any]) -> Arguments | None:
        """Return the arguments with ``change`` applied to every Python number and flag; None if
        that changes nothing.
        """
        changed = tuple(_map_numbers(value, change) for value in self.args)
        keywords = {name: _map_numbers(value, change) for name, value in self.keywords.items()}
        numbers = (list(_numbers((self.args, self.keywords))), list(_numbers((changed, keywords))))
        if numbers[0] != numbers[1]:
            return Arguments(changed, keywords, self.origin)
        return None


OFFERED = ("example_inputs", "get_inputs()", "--inputs")
"""Sources of inputs that are read by the rules of ``as_arguments``."""


def as_arguments(inputs: object, origin: str) -> Arguments:
    """Make arguments from the user's inputs.

    A tuple or list is positional, a dict (or Hugging Face's BatchEncoding) goes by name, a function
    is called for them, and anything else is the one argument.
    """
    # A module can be called, too, and is meant as the argument.
    if callable(inputs) and not isinstance(inputs, torch.nn.Module):
        missing = required_parameters(inputs)
        if missing:
            raise TargetError(
                f"{origin} is a function that takes {', '.join(missing)}, but it is called "
                "without arguments: give its result, or a function without arguments."
            )
        inputs = inputs()
    if isinstance(inputs, tuple | list):
        return Arguments(tuple(inputs), origin=origin)
    if isinstance(inputs, Mapping):
        if not all(isinstance(name, str) for name in inputs):
            raise TargetError(
                f"{origin} is a dict whose keys are not all strings, so it cannot be passed by "
                "name. If it is the only argument, wrap it: a tuple of one element."
            )
        return Arguments(kwargs=dict(inputs), origin=origin)
    return Arguments((inputs,), origin=origin)


def required_parameters(function: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters without a default; empty if the signature is unknown."""
    called = function.forward if isinstance(function, torch.nn.Module) else function
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return []
    names = []
    for parameter in parameters:
        is_variadic = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        if parameter.default is parameter.empty and not is_variadic:
            names.append(parameter.name)
    return names


def tensors(value: object) -> Iterator[torch.Tensor]:
    """Yield every tensor in nested tuples, lists, dicts and dataclasses (a model's output), in
    order.
    """
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from tensors(inner)
    elif isinstance(value, tuple | list | set | frozenset):
        for inner in value:
            yield from tensors(inner)
    elif is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__"):
        for inner in vars(value).values():
            yield from tensors(inner)


def moved(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return the tensor on ``device``. A tensor that requires grad stays a leaf, so that it
    receives a gradient.
    """
    if tensor.is_leaf:
        return tensor.detach().to(device).requires_grad_(tensor.requires_grad)
    return tensor.to(device)


def with_grad(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy that requires grad, if the dtype allows it."""
    if tensor.requires_grad or not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    return tensor.detach().clone().requires_grad_()


def _map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return a value with each tensor in it changed, also in containers and dataclasses. The value
    itself is not changed.
    """
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, dict):
        changed = copy.copy(
            value
        )  # building it again would fail: a defaultdict takes other arguments
        changed.update((name, _map_tensors(inner, change)) for name, inner in value.items())
        return changed
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_map_tensors(inner, change) for inner in value))
    if isinstance(value, tuple | list):
        return type(value)(_map_tensors(inner, change) for inner in value)
    if is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__"):
        copied = copy.copy(value)
        vars(copied).update(
            (name, _map_tensors(inner, change)) for name, inner in vars(value).items()
        )
        return copied
    return value


def _map_numbers(value: Any, change: Callable[[Any], Any]) -> Any:
    if type(value) in (bool, int, float):
        return change(value)
    if type(value) is dict:
        return {name: _map_numbers(inner, change) for name, inner in value.items()}
    if type(value) in (tuple, list):
        return type(value)(_map_numbers(inner, change) for inner in value)
    return value


def _numbers(value: object) -> Iterator[bool | int | float]:
    """Yield the numbers in Python's own containers. Numbers in other objects may not be
    arguments.
    """
    if type(value) in (bool, int, float):
        yield value  # type: ignore[misc]
    elif type(value) is dict:
        for inner in value.values():
            yield from _numbers(inner)
    elif type(value) in (tuple, list):
        for inner in value:  # type: ignore[attr-defined]
            yield from _numbers(inner)


def _holds_others(value: object) -> bool:
    """Return whether the value is probably a collection of arguments: a generator, a view of a
    dict, a set, a data set or its loader.
    """
    if isinstance(value, torch.Tensor | torch.nn.Module | Mapping) or hasattr(value, "__array__"):
        return False
    return hasattr(value, "__iter__") or hasattr(value, "__getitem__")


def _short(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}[{', '.join(map(str, value.shape))}]"
    return type(value).__name__
