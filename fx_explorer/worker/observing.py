"""One call of a program, and everything it did that can be seen from outside, as plain values that another process can read."""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass
from types import FunctionType, ModuleType
from typing import Any

import torch

from fx_explorer.worker.inputs import Arguments
from fx_explorer.worker.loss import find_loss
from fx_explorer.worker.printed import printed
from fx_explorer.worker.target import Target

_PLAIN = (torch.Tensor, int, float, complex, bool, str, type(None))


@dataclass
class Observation:
    """``values``: kind (``output``, ``gradient``, ``state``, ``input``, ``global``, ``environment``) → name → value."""

    call: str
    values: dict[str, dict[str, Any]] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    """Lines on stdout, and messages of the program's loggers."""
    raised: str = ""
    """Type of the exception; empty when it returned."""

    def plain(self) -> dict[str, Any]:
        return {"call": self.call, "values": self.values, "printed": self.printed, "raised": self.raised}


def seed(number: int) -> None:
    """Every source of random numbers a model is likely to use."""
    torch.manual_seed(number)
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number)


class Observer:
    """Calls one program again and again, each time from the same state."""

    def __init__(self, target: Target, train: bool, grad: bool, modules: list[ModuleType]) -> None:
        """``modules``: the user's own, whose globals are looked at."""
        self.target = target
        self._train = train
        self._grad = grad
        self._modules = modules
        self._networks = _networks(target, modules)
        self._environment = dict(os.environ)
        self._calls = 0
        self.state_at_first = {name: tensor.clone() for name, tensor in self.state().items()}
        """What every call begins with."""

    def state(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers, also those that a state_dict leaves out."""
        return {
            f"{prefix}{name}": tensor.detach()
            for prefix, network in self._networks.items()
            for name, tensor in [*network.named_parameters(), *network.named_buffers()]
        }

    def set_state(self, state: Mapping[str, torch.Tensor]) -> None:
        """For what both have; what one lacks shows in the comparison."""
        self.state_at_first = {name: state.get(name, tensor) for name, tensor in self.state_at_first.items()}

    def first(self, function: Callable[..., Any], call: str, arguments: Arguments) -> Observation:
        """Call and look. What it raises goes on to the caller."""
        seen = Observation(call)
        self._restore()
        with printed(seen.printed):
            self._call(function, arguments, seen)
        self._take_down(seen, arguments)
        return seen

    def again(self, function: Callable[..., Any], call: str, arguments: Arguments) -> Observation:
        """The same; what it raises is one of the things seen."""
        seen = Observation(call)
        self._restore()
        try:
            with printed(seen.printed):
                self._call(function, arguments, seen)
        except Exception as error:  # noqa: BLE001 - the program may raise anything; both have to raise the same
            return Observation(call, printed=seen.printed, raised=type(error).__name__)
        self._take_down(seen, arguments)
        return seen

    def leave_out(self) -> None:
        """A call that is not made here: the ones behind it have the seeds they would have had."""
        self._calls += 1

    def _restore(self) -> None:
        """A seed of its own for each call: a random number that was drawn once and kept must not look right."""
        self._calls += 1
        seed(self._calls)
        for _, parameter in self._parameters():
            parameter.grad = None
        with torch.no_grad():
            for name, tensor in self.state().items():
                if name in self.state_at_first and tensor.shape == self.state_at_first[name].shape:
                    tensor.copy_(self.state_at_first[name])

    def _call(self, function: Callable[..., Any], arguments: Arguments, seen: Observation) -> None:
        with contextlib.nullcontext() if self._grad else torch.no_grad():
            output = function(*arguments.args, **arguments.keywords)
        seen.values["output"] = {name: own(value) for name, value in leaves(output, "the output")}
        loss = find_loss(output) if self._train else None
        if loss is not None:
            loss.backward()

    def _take_down(self, seen: Observation, arguments: Arguments) -> None:
        inputs = dict(_inputs(arguments))
        held = {**dict(self._parameters()), **inputs}
        leaves = {name: value for name, value in held.items() if isinstance(value, torch.Tensor) and value.is_leaf}
        seen.values["gradient"] = {
            f"the gradient of {name}": own(leaf.grad) for name, leaf in leaves.items() if leaf.requires_grad
        }
        seen.values["input"] = {f"{name} after the call": own(value) for name, value in inputs.items()}
        seen.values["state"] = {name: own(value) for name, value in [*self.state().items(), *self._attributes()]}
        seen.values["global"] = {name: own(value) for module in self._modules for name, value in _globals(module)}
        seen.values["environment"] = {
            f"os.environ[{name!r}]": value for name, value in os.environ.items() if self._environment.get(name) != value
        }

    def _parameters(self) -> Iterator[tuple[str, torch.Tensor]]:
        for prefix, network in self._networks.items():
            yield from ((f"{prefix}{name}", parameter) for name, parameter in network.named_parameters())

    def _attributes(self) -> Iterator[tuple[str, Any]]:
        """What the modules keep as plain Python: counters, flags, lists of them."""
        for prefix, network in self._networks.items():
            for path, module in network.named_modules():
                for key, held in vars(module).items():
                    yield from _plain(held, f"{prefix}{path}.{key}".lstrip(".")) if not key.startswith("_") else ()


def _networks(target: Target, modules: list[ModuleType]) -> dict[str, torch.nn.Module]:
    """Prefix of its names → a network that is called: the target, or what a function may find among its globals."""
    called = target.callable
    owner = called if isinstance(called, torch.nn.Module) else getattr(called, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return {"": owner}
    found = ((name, value) for module in modules for name, value in list(vars(module).items()))
    return {f"{name}.": value for name, value in found if isinstance(value, torch.nn.Module)}


def _inputs(arguments: Arguments) -> Iterator[tuple[str, Any]]:
    for name, value in [*enumerate(arguments.args, 1), *arguments.keywords.items()]:
        yield from leaves(value, f"input {name}")


def _globals(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(module).items()):
        if not name.startswith("_"):
            yield from _plain(value, f"global {name}")
            if getattr(value, "__module__", "") == module.__name__ and isinstance(value, type | FunctionType):
                for key, held in list(vars(value).items()):
                    yield from _plain(held, f"{name}.{key}") if not key.startswith("_") else ()


def _plain(value: object, name: str) -> Iterator[tuple[str, Any]]:
    """What is data; nothing of an object that we do not know."""
    if isinstance(value, (*_PLAIN, list, tuple, dict)):
        yield from ((leaf, found) for leaf, found in leaves(value, name) if isinstance(found, _PLAIN))


def leaves(value: object, name: str) -> Iterator[tuple[str, Any]]:
    """Everything in nested containers, with its path."""
    if isinstance(value, _PLAIN):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from leaves(inner, f"{name}[{key!r}]")
    elif isinstance(value, tuple | list):
        yield f"the length of {name}", len(value)
        for position, inner in enumerate(value):
            yield from leaves(inner, f"{name}[{position}]")
    elif is_dataclass(value) and not isinstance(value, type) and hasattr(value, "__dict__"):
        for key, inner in vars(value).items():
            yield from leaves(inner, f"{name}.{key}")
    else:
        yield name, value


def own(value: Any) -> Any:
    """A copy that nobody else can change, on the CPU; of an object that we do not know, its type."""
    if not isinstance(value, _PLAIN):
        return f"a {type(value).__qualname__}"
    if not isinstance(value, torch.Tensor):
        return _exactly(value)
    copied = value.detach().clone()
    if copied.layout != torch.strided:
        copied = copied.to_dense()
    return copied.resolve_conj().resolve_neg().cpu()


def _exactly(value: Any) -> Any:
    """A plain value of Python's own types: NumPy's numbers and members of an Enum are subclasses of them."""
    kinds: tuple[type[Any], ...] = (bool, int, float, complex, str)
    return next((kind(value) for kind in kinds if isinstance(value, kind)), None)
