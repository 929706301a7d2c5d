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
from pathlib import Path
from typing import Any, NamedTuple

import torch

from fx_explorer.capture.recording.function_names import compile_call
from fx_explorer.capture.recording.rows.callers import CallSite

INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages, in any place."""

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
        self.places: dict[str, CallSite] = {}
        """Function or module class → where it was first given to torch.compile."""

    def note(self, given: object, place: CallSite) -> None:
        try:
            reference = weakref.ref(given)
        except (
            TypeError
        ):  # an object that cannot be referred to weakly; it is called by its own name
            return
        self._known[id(given)] = (
            reference,
            GivenCallable(name_of(given, place), place.file, place.line),
        )

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
    """Return ``net (Sequential)`` if a variable of the user's was given, else ``Sequential``: a
    framework's variable (``submodule.compile()``) tells the user nothing.
    """
    own, variable = own_name(given), ""
    if place.file and not INSTALLED.intersection(Path(place.file).parts):
        variable = _variable(linecache.getline(place.file, place.line))
    return f"{variable} ({own})" if variable and variable != own else own


def own_name(given: object) -> str:
    """Return ``Sequential``, ``partial(scaled)`` or ``Model.run``."""
    if isinstance(given, functools.partial):
        return f"partial({own_name(given.func)})"
    owner = getattr(given, "__self__", None)
    if (
        isinstance(owner, torch.nn.Module) and getattr(given, "__name__", "") == "_call_impl"
    ):  # module.compile()
        return own_name(owner)
    if isinstance(given, torch.nn.Module):
        return type(given).__qualname__
    return str(getattr(given, "__qualname__", type(given).__qualname__))


def _variable(line: str) -> str:
    """Return ``net`` for ``fast = torch.compile(net, …)`` and for ``net.compile()``; empty for an
    expression, several lines, or several calls in one.
    """
    try:
        tree = ast.parse(line.strip())
    except SyntaxError:
        return ""
    subjects = [
        _subject(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _called(node) == "compile"
    ]
    if len(subjects) == 1 and isinstance(subjects[0], ast.Name | ast.Attribute):
        return ast.unparse(subjects[0])
    return ""


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _subject(call: ast.Call) -> ast.expr | None:
    """Return what is compiled: the first argument of ``torch.compile``, else what the method is
    called of.
    """
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func) != "torch.compile":
        return call.func.value
    return call.args[0] if call.args else None
