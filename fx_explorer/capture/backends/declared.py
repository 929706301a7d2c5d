"""What a backend declares that it supports: its ``operator_support``.

That is an attribute of the backend function, or of the compiler that it gives to AOTAutograd, or a
name at the top level of their file. It may be an OperatorSupport of torch's
(torch/fx/passes/operator_support.py), a function of a node, or a registry: a set, a list or a dict
of operators or of their names.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from fx_explorer.capture.backends.registry import Registry
from fx_explorer.capture.backends.users_backend import users_backend
from fx_explorer.capture.recording.rows.error_lines import one_line

NAME = "operator_support"

Ask = Callable[[Mapping[str, torch.nn.Module], torch.fx.Node], object]


@dataclass(frozen=True)
class Declared:
    """A backend's own answer to what it supports."""

    source: str
    """What it is: ``operator_support of mine.py, a registry of 12 names``."""
    ask: Ask | None
    """Says whether a node is supported; None where what was declared cannot be asked."""
    reason: Ask | None = None
    """Says in words why an operator is not supported; None where the backend does not say."""
    oddities: tuple[str, ...] = ()
    """Sentences on what cannot be meant."""


def declared_by(backend: Any) -> Declared | None:
    """Return what a backend declares; None where it declares nothing."""
    for function in functions_of(backend):
        found = getattr(function, NAME, None)
        if _can_be_meant(found):
            return _declared(found, f"{NAME} of {_name(function)}")
        found = _of_file(function)
        if _can_be_meant(found):
            return _declared(found, f"{NAME} of {_file(function)}")
    return None


def _can_be_meant(found: object) -> bool:
    """Return whether it may be an answer, and not torch's module of that name, which files import."""
    return found is not None and not isinstance(found, types.ModuleType)


def functions_of(backend: Any) -> Iterator[Any]:
    """Yield the function that the user wrote, beneath what torch put around it, and the compilers
    that it gives to AOTAutograd.
    """
    seen: list[int] = []
    pending = [users_backend(backend)]
    while pending:
        one = pending.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.append(id(one))
        yield one
        # Dynamo's and torch.compile's wrappers, functools.partial and functools.wraps.
        pending += [vars(one).get(name) for name in _INNER] if hasattr(one, "__dict__") else []
        if isinstance(one, functools.partial):
            pending.append(one.func)
        arguments = getattr(one, "kwargs", None)
        if type(one).__name__ == "AotAutograd" and isinstance(arguments, dict):
            pending += [arguments.get("fw_compiler"), arguments.get("inference_compiler")]


_INNER = ("_torchdynamo_orig_backend", "compiler_fn", "__wrapped__")


def _of_file(function: Any) -> Any:
    """Return what the file of a function has under the name; None for files of torch itself."""
    if str(getattr(function, "__module__", "")).partition(".")[0] == "torch":
        return None
    return getattr(function, "__globals__", {}).get(NAME)


def _name(function: Any) -> str:
    if type(function).__name__ == "AotAutograd":
        return "the backend"
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _file(function: Any) -> str:
    return str(function.__globals__.get("__file__", function.__module__)).rpartition("/")[2]


def _declared(found: Any, where: str) -> Declared:
    if isinstance(found, type):
        try:
            found = found()
        except Exception as error:  # noqa: BLE001  (the backend's own code)
            return _cannot_be_asked(
                where, f"{where} cannot be made: {one_line(f'{type(error).__name__}: {error}')}."
            )
    reason = getattr(found, "reason", None)
    reason = reason if callable(reason) else None
    if callable(getattr(found, "is_node_supported", None)):
        return Declared(f"{where}, {_described(found)}", found.is_node_supported, reason)
    if isinstance(found, Collection) and not isinstance(found, str | bytes):
        registry = Registry(found)
        what = f"a registry of {len(registry)} {'entry' if len(registry) == 1 else 'entries'}"
        return Declared(f"{where}, {what}", registry.has, reason, tuple(registry.oddities()))
    if callable(found):
        return Declared(f"{where}, a function", _of_a_node(found), reason)
    what = "neither an OperatorSupport nor a function nor a registry"
    return _cannot_be_asked(where, f"{where} is of type {type(found).__name__}, which is {what}.")


def _cannot_be_asked(where: str, why: str) -> Declared:
    return Declared(where, None, None, (why,))


def _described(found: Any) -> str:
    return f"an object of its class {type(found).__qualname__}"


def _of_a_node(function: Callable[..., object]) -> Ask:
    """Return a function of (submodules, node), as torch has them, for one that may take the node
    alone.
    """
    try:
        taken = [
            one
            for one in inspect.signature(function).parameters.values()
            if one.default is one.empty
        ]
    except (TypeError, ValueError):  # of C
        return lambda submodules, node: function(node)
    positional = [
        one for one in taken if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    return function if len(positional) > 1 else lambda submodules, node: function(node)
