"""The callables that the user gave to torch.compile, where torch puts a function of its own around
them.

A callable whose code is not compiled by itself (a module of torch's or a library's, a
``functools.partial``) is called from ``inner`` of ``wrap_inline``
(torch/_dynamo/external_utils.py). That is the function Dynamo sees; its name says nothing.
"""

from __future__ import annotations

import ast
import functools
import linecache
import sys
import weakref
from typing import Any, NamedTuple

import torch

from fx_explorer.capture.recording.function_names import compile_call
from fx_explorer.capture.recording.rows.callers import CallSite

WRAPPER = "wrap_inline.<locals>.inner"


def is_wrapper(file: str, function: str) -> bool:
    """Return whether this is torch's function. torch's records have its short name, its code object
    the long one.
    """
    return file.endswith("external_utils.py") and function in ("inner", WRAPPER)


class GivenCallable(NamedTuple):
    """A callable as the user knows it, and the line that gave it to torch.compile."""

    name: str
    file: str
    line: int


class GivenCallables:
    """Knows the callables that torch.compile was called with. None of them is kept alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, GivenCallable]] = {}

    def note(self, given: object, place: CallSite) -> None:
        try:
            reference = weakref.ref(given)
        except TypeError:  # an object that cannot be referred to weakly; it is called by its own name
            return
        self._known[id(given)] = reference, GivenCallable(name_of(given, place), place.file, place.line)

    def of(self, given: object) -> GivenCallable:
        reference, found = self._known.get(id(given), (None, None))
        # The id may be that of an object that came later.
        if found is not None and reference is not None and reference() is given:
            return found
        return GivenCallable(own_name(given), "", 0)


def being_compiled() -> object | None:
    """Return the callable inside torch's function while Dynamo compiles that; None where it cannot
    be told.
    """
    found: object | None = dict(compile_call(sys._getframe(1)).get("locals") or {}).get("fn")
    return found


def name_of(given: object, place: CallSite) -> str:
    """Return ``net (Sequential)`` if a variable was given, else ``Sequential``."""
    own, variable = own_name(given), _variable(linecache.getline(place.file, place.line)) if place.file else ""
    return f"{variable} ({own})" if variable and variable != own else own


def own_name(given: object) -> str:
    """Return ``Sequential``, ``partial(scaled)`` or ``Model.run``."""
    if isinstance(given, functools.partial):
        return f"partial({own_name(given.func)})"
    owner = getattr(given, "__self__", None)
    if isinstance(owner, torch.nn.Module) and getattr(given, "__name__", "") == "_call_impl":  # module.compile()
        return own_name(owner)
    if isinstance(given, torch.nn.Module):
        return type(given).__qualname__
    return str(getattr(given, "__qualname__", type(given).__qualname__))


def _variable(line: str) -> str:
    """Return ``net`` for ``fast = torch.compile(net, …)`` and for ``net.compile()``; empty for an
    expression or several lines.
    """
    try:
        tree = ast.parse(line.strip())
    except SyntaxError:
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
            of_torch = isinstance(node.func, ast.Name) or ast.unparse(node.func) == "torch.compile"
            subject = (node.args[0] if node.args else None) if of_torch else getattr(node.func, "value", None)
            if name == "compile" and isinstance(subject, ast.Name | ast.Attribute):
                return ast.unparse(subject)
    return ""
