"""This module finds the backend that the user asked for, and the name that they know it by.

Inside DistributedDataParallel torch puts a backend of its own in front of the user's: DDPOptimizer
(torch/_dynamo/backends/distributed.py) cuts Dynamo's graph so that gradients can be reduced while
the backward runs, and hands each part, a bucket, to the user's backend.

The name is the one that the backend was asked for by; of one that was given as an object the name
of its function, or of the variable that holds it. torch calls whatever ``aot_autograd`` makes
``compiler_fn`` (torch/_dynamo/backends/common.py), and an object without a name by its ``repr``.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from typing import Any

from fx_explorer.highlight import printable


def users_backend(compiler: Any) -> Any:
    """Return the backend behind DDPOptimizer; any other one as it is."""
    owner = getattr(compiler, "__self__", None)
    if type(owner).__name__ != "DDPOptimizer":
        return compiler
    return getattr(owner, "backend_compile_fn", compiler)


_IN_FILE = re.compile(r"^.+\.py:(?=\w+$)")
"""What is before the function in the name of a backend that is named with its file."""

_NAMELESS = ("", "<lambda>")

_OF_INDUCTOR = ("compile_fx", "compile_fx_inner", "_compile_fx_inner")
"""Functions of torch/_inductor/compile_fx.py that a program gives graphs to."""


def backend_name(compiler: Any) -> str:
    """Return ``inductor`` for torch's own wrapper, the name that the user gave for a registered
    backend or one of a file, else that of the function; empty when none is known.
    """
    compiler = users_backend(compiler)
    inner = getattr(compiler, "_torchdynamo_orig_backend", None)
    if inner is not None and inner is not compiler:
        return backend_name(inner)
    asked_for = getattr(compiler, "compiler_name", None)
    given = getattr(compiler, "compiler_fn", None)
    if asked_for:
        names_of_given: tuple[str | None, ...] = ()
        if given is not None:
            names_of_given = (getattr(given, "__name__", None), _repr_by_torch(given))
        if asked_for not in names_of_given:
            return printable(_IN_FILE.sub("", str(asked_for)))
    name = _name_of_object(compiler if given is None else given)
    if name in _OF_INDUCTOR:
        return "inductor"
    return printable(_IN_FILE.sub("", name))


def _repr_by_torch(given: Any) -> str | None:
    """Return the name that torch.compile takes for a backend without one."""
    if hasattr(given, "__name__"):
        return None
    return str(given)


def _name_of_object(backend: Any) -> str:
    if isinstance(backend, functools.partial):
        return _variable_of(backend, backend.func) or _name_of_object(backend.func)
    if type(backend).__name__ == "AotAutograd":
        inner = backend.kwargs.get("fw_compiler")
        return (
            _registered(backend)
            or _variable_of(backend, inner)
            or _name_of_compiler(inner)
            or "aot_autograd"
        )
    name = str(getattr(backend, "__name__", ""))
    if name in _NAMELESS:
        return _variable_of(backend, backend) or name or type(backend).__name__
    owner = getattr(backend, "__self__", None)  # a method says little without its class
    if owner is not None and not isinstance(owner, type(sys)):
        return f"{type(owner).__name__}.{name}"
    return name


def _name_of_compiler(compiler: Any) -> str:
    """Return the name of what was given to ``aot_autograd``; empty where it has none of its own."""
    name = "" if compiler is None else _name_of_object(compiler)
    if name in _NAMELESS:
        return ""
    return name


def _registered(backend: Any) -> str:
    """Return the name a backend is registered by with torch; empty when it is not."""
    from torch._dynamo.backends import registry

    for name, registered in list(registry._COMPILER_FNS.items()):
        if registered is backend:
            return name
    return ""


def _variable_of(backend: Any, inner: Any) -> str:
    """Return the name of the variable that holds the backend in the file of a function that it is
    made of, or in the script; empty when there is none.
    """
    for scope in _scopes(inner):
        for name, value in list(scope.items()):
            if value is backend:
                return name
    return ""


def _scopes(function: Any) -> Iterator[dict[str, Any]]:
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "fx_explorer_inner", function)
    scope = getattr(function, "__globals__", None)
    if isinstance(scope, dict) and not str(scope.get("__name__")).startswith("torch."):
        yield scope
    script = sys.modules.get("__main__")
    if script is not None:
        yield vars(script)
