"""This module finds what to compile and with which inputs, for every form of target that a user can
give.

A file may offer, in this order: ``fx_explorer_target()``; ``model`` or ``get_model()`` with
``example_inputs``; one ``nn.Module`` subclass that can be built without arguments, with
``example_inputs``; a class ``Model`` with ``get_inputs()``, and ``get_init_inputs()`` for what it
is built with, as KernelBench has them. A file that offers none of these is run as a script. What
cannot be resolved is a TargetError that names what was found and the options that would help.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from fx_explorer.errors import TargetError
from fx_explorer.model import CaptureRequest
from fx_explorer.program import loading
from fx_explorer.program.inputs import Arguments, as_arguments, required_parameters
from fx_explorer.program.place import TargetPlace

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Target:
    """A callable, with the arguments to call it with."""

    name: str
    """The callable's name in its file; for a model without a name, its class."""
    callable: Callable[..., Any]
    arguments: Arguments
    scope: Mapping[str, Any] = field(default_factory=dict)
    """Names of the target's module; empty for a target that was given as an object."""

    @property
    def kind(self) -> Literal["module", "function"]:
        if isinstance(self.callable, torch.nn.Module):
            return "module"
        return "function"

    @property
    def network(self) -> torch.nn.Module | None:
        """Return the target's module: the callable itself, or the module whose method it is; None
        for any other callable.
        """
        owner = self.callable if self.kind == "module" else getattr(self.callable, "__self__", None)
        if isinstance(owner, torch.nn.Module):
            return owner
        return None

    def parameters(self) -> list[torch.nn.Parameter]:
        if isinstance(self.callable, torch.nn.Module):
            return list(self.callable.parameters())
        return []

    def differentiable(self) -> Iterator[torch.Tensor]:
        """Yield everything that could get a gradient: parameters and input tensors."""
        yield from self.parameters()
        yield from self.arguments.tensors()

    def with_arguments(self, arguments: Arguments) -> Target:
        return replace(self, arguments=arguments)


def find_target(place: TargetPlace, request: CaptureRequest, say: Say) -> Target:
    """Import the place's file or module and return its target. Raises TargetError, and whatever the
    user's code raises.
    """
    if place.file:
        module = loading.load_file(place.file, request.arguments)
    else:
        module = loading.load_module(place.module, request.arguments)
    return replace(
        OfferingModule(module.__name__, vars(module), place, request, say).target(),
        scope=vars(module),
    )


class OfferingModule:
    """A module that offers targets and inputs by names."""

    def __init__(
        self,
        module: str,
        names: dict[str, Any],
        place: TargetPlace,
        request: CaptureRequest,
        say: Say,
    ) -> None:
        self.module = module
        self.names = names
        self.place = place
        self.request = request
        self.say = say

    def target(self) -> Target:
        """Return the target of a file: by ``--call``, by the given name, by ``fx_explorer_target``,
        by ``model`` or ``get_model``, else its only class.
        """
        if self.request.call:
            made = self.evaluate(self.request.call, "--call")
            if not callable(made):
                raise TargetError(
                    f"--call {self.request.call!r} gives {_kind(made)}, which cannot be called. "
                    "It must give a model or a function, for example --call 'MyModel(64)'."
                )
            return self.complete(_name_of(made), made)
        if self.place.object:
            return self.named()
        if "fx_explorer_target" in self.names:
            return self.offered_target("fx_explorer_target")
        for name in ("model", "get_model"):
            if name in self.names:
                model = self.callable_of(name, self.names[name])
                return self.complete(_name_of(model), model)
        if "get_inputs" in self.names:
            for name in ("Model", "ModelNew"):
                if name in self.module_classes():
                    return self.complete(name, self.callable_of(name, self.names[name]))
        return self.only_class()

    def named(self) -> Target:
        """Return the target of ``file.py:object``; the object may have dots."""
        name = self.place.object
        if name == "fx_explorer_target" and name in self.names:
            return self.offered_target(name)
        first, *rest = name.split(".")
        try:
            found = functools.reduce(getattr, rest, self.names[first])
        except (KeyError, AttributeError):
            raise TargetError(
                f"{self.place.shown} has no {name!r}. {self.what_is_here()}"
            ) from None
        return self.complete(name, self.callable_of(name, found))

    def offered_target(self, name: str) -> Target:
        """Return the target of ``fx_explorer_target()``, which returns
        ``(callable, args, kwargs)``. kwargs, or both, may be left out.
        """
        self.say(f"calling {name}()")
        answer = self.names[name]()
        parts = answer if isinstance(answer, tuple) else (answer,)
        function, args, kwargs = (*parts, *(None, (), {})[len(parts) :])[:3]
        if len(parts) > 3 or not (
            callable(function) and isinstance(args, tuple | list) and isinstance(kwargs, dict)
        ):
            if isinstance(answer, tuple):
                shown = f"({', '.join(map(_kind, answer))})"
            else:
                shown = _kind(answer)
            raise TargetError(
                f"fx_explorer_target() in {self.place.shown} returned {shown}. "
                "It must return (callable, args, kwargs), where args is a tuple and kwargs a dict."
            )
        if self.request.inputs:
            return self.complete(_name_of(function), function)
        return Target(
            _name_of(function), function, Arguments(tuple(args), dict(kwargs), f"{name}()")
        )

    def only_class(self) -> Target:
        """Return the target of the file's only nn.Module subclass."""
        classes = self.module_classes()
        if len(classes) == 1:
            name = classes[0]
            return self.complete(name, self.callable_of(name, self.names[name]))
        found = "no model" if not classes else f"several models ({', '.join(classes)})"
        advice = f"Say which: {self.place.shown}:{classes[0]}." if classes else self.what_is_here()
        raise TargetError(
            f"{self.place.shown} has {found}, but no model, get_model() or fx_explorer_target(). "
            f"{advice}"
        )

    def module_classes(self) -> list[str]:
        """Return the names of the nn.Module subclasses that the file itself defines."""
        names = []
        for name, value in self.names.items():
            is_module_class = isinstance(value, type) and issubclass(value, torch.nn.Module)
            if is_module_class and value.__module__ == self.module:
                names.append(name)
        return names

    def callable_of(self, name: str, found: Any) -> Callable[..., Any]:
        """Return the thing to call. A class is instantiated, ``get_model`` is called."""
        if isinstance(found, type) and issubclass(found, torch.nn.Module):
            missing = required_parameters(found)
            if "get_init_inputs" in self.names:
                self.say(f"building {name}(*get_init_inputs())")
                args, keywords = _init_inputs(self.names["get_init_inputs"]())
                return found(*args, **keywords)
            if missing:
                raise TargetError(
                    f"{name} in {self.place.shown} cannot be built without arguments: it needs "
                    f"{', '.join(missing)}. Give the arguments with --call "
                    f"'{name}({missing[0]}=…)', or set model = {name}(…) in the file."
                )
            self.say(f"building {name}()")
            found = found()
        elif name == "get_model" and callable(found) and not isinstance(found, torch.nn.Module):
            self.say("calling get_model()")
            found = found()
        elif name == "model" and _may_make_a_model(found):
            self.say("calling model(), which takes no inputs")
            made = found()
            found = made if isinstance(made, torch.nn.Module) else found
        if not callable(found):
            raise TargetError(
                f"{name} in {self.place.shown} is {_kind(found)}, which cannot be called. "
                f"{self.what_is_here()}"
            )
        return found

    def complete(self, name: str, function: Callable[..., Any]) -> Target:
        """Return the target with its inputs: ``--inputs``, else ``example_inputs``, else none if it
        needs none.
        """
        if self.request.inputs:
            inputs = self.evaluate(self.request.inputs, "--inputs")
            return Target(name, function, as_arguments(inputs, "--inputs"))
        if "example_inputs" in self.names:
            return Target(
                name, function, as_arguments(self.names["example_inputs"], "example_inputs")
            )
        if inspect.isfunction(self.names.get("get_inputs")):
            return Target(name, function, as_arguments(self.names["get_inputs"], "get_inputs()"))
        missing = required_parameters(function)
        if missing:
            raise TargetError(
                f"no inputs for {name} of {self.place.shown}, which takes {', '.join(missing)}. "
                "Give them with --inputs, for example --inputs 'torch.randn(2, 8)' (a tuple for "
                "several, a dict to pass by name), or set example_inputs in the file."
            )
        return Target(name, function, Arguments(origin="its defaults"))

    def evaluate(self, expression: str, option: str) -> Any:
        """Return the value of a command-line expression in the module's names. ``torch`` is defined
        even if the module lacks it.
        """
        self.say(f"evaluating {option} {expression!r}")
        try:
            code = compile(expression.strip(), option, "eval", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise TargetError(
                f"{option} {expression!r} is not a Python expression: {error}"
            ) from error
        scope = {"torch": torch, **self.names}
        # A name that is missing in what the expression calls is the program's own error.
        unknown = sorted(
            name for name in code.co_names if name not in scope and not _is_builtin(name)
        )
        try:
            return eval(code, scope)
        except NameError as error:
            if error.name in unknown:
                raise TargetError(
                    f"{option} {expression!r}: {error}. {self.what_is_here()}"
                ) from error
            raise

    def what_is_here(self) -> str:
        """Return one or two sentences that name the file's models and functions, and how to select
        one.
        """
        models = [name for name, value in self.names.items() if isinstance(value, torch.nn.Module)]
        functions = []
        for name, value in self.names.items():
            is_defined_here = inspect.isfunction(value) and value.__module__ == self.module
            if is_defined_here and not name.startswith("_"):
                functions.append(name)
        found = [*models, *self.module_classes(), *functions]
        if not found:
            return (
                f"Nothing in {self.place.shown} can be compiled; to run it unchanged: fx-explorer "
                f"run {self.place.shown}"
            )
        shown = ", ".join(found[:8])
        if len(found) > 8:
            shown += " …"
        return (
            f"It has {shown}; name one of them, for example {self.place.shown}:{found[0]} "
            "--inputs 'torch.randn(2, 8)'."
        )


def _init_inputs(given: Any) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the arguments that a class is built with: a list of them, or a list and a dict by
    name.
    """
    if len(given) == 2 and isinstance(given[0], list | tuple) and isinstance(given[1], dict):
        return given[0], given[1]
    return given, {}


def _may_make_a_model(function: Any) -> bool:
    """Return whether a function called ``model`` may make the model: it can be called without
    arguments, and none of its parameters is annotated as a tensor.
    """
    if not inspect.isfunction(function) or required_parameters(function):
        return False
    parameters = inspect.signature(function).parameters.values()
    annotations = (parameter.annotation for parameter in parameters)
    return not any(kind is torch.Tensor or "Tensor" in str(kind) for kind in annotations)


def _name_of(function: Callable[..., Any]) -> str:
    if isinstance(function, torch.nn.Module):
        return type(function).__name__
    return getattr(function, "__qualname__", type(function).__name__)


def _kind(value: object) -> str:
    if value is None:
        return "None"
    return f"a {type(value).__name__}"


def _is_builtin(name: str) -> bool:
    import builtins

    return hasattr(builtins, name)
