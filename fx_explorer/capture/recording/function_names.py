"""Names of functions that Dynamo compiles; of one that a decorator put around another, the name of
the inner one, which is the user's.

Dynamo is given the code object of the outer function and its variables, and no function. That the
inner one is what the decorator was made for shows in the place where the user's program has it:
the method of that name leads, by ``__wrapped__``, to the code that is compiled.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from torch import nn

_LOCALS = ".<locals>."

MOST_WRAPPED = 20
"""Decorators that are looked through; a chain of ``__wrapped__`` may have no end."""

_WRAPPER = "wrap_inline"
"""torch's function around what it does not compile by itself (torch/_dynamo/external_utils.py)."""


def qualified_name(code: CodeType) -> str:
    """Return ``Net.forward``; before Python 3.11, ``forward``."""
    return getattr(code, "co_qualname", code.co_name)


def name_of_compiled(code: CodeType) -> str:
    """Return the name of what Dynamo compiles: ``Net.forward``, and ``Net.forward (no_grad)`` for
    the function that the decorator ``no_grad`` put around it. A class that puts one around the
    methods of its subclasses (``Base.__init_subclass__``) is named alone.
    """
    own = qualified_name(code)
    if not code.co_freevars or _LOCALS not in own:
        return own
    inner = inner_function(code, _variables(sys._getframe(1), code))
    around = (
        own.split(_LOCALS[:-1])[0].removesuffix(".__init_subclass__").removesuffix(".__set_name__")
    )
    if around == _WRAPPER:
        return inner or own
    return f"{inner} ({around})" if inner else own


def inner_function(code: CodeType, variables: Mapping[str, Any]) -> str:
    """Return the qualified name of the function that the one with ``code`` was put around, as its
    ``variables`` have it; empty where that cannot be told.
    """
    for name in code.co_freevars:
        function = variables.get(name)
        if isinstance(function, FunctionType | MethodType) and any(
            _leads_to(outer, code) for outer in _where_it_stands(function, code, variables)
        ):
            return function.__qualname__
    return ""


def function_within(called: object) -> str:
    """Return the qualified name of the user's function that is run when ``called`` is: that of a
    ``partial``, the ``forward`` of a module, a ``__call__``, without the decorators around it;
    empty where it is none of Python's. Nothing of the user's is called for it.
    """
    for _ in range(MOST_WRAPPED):
        found = _one_less(called)
        if found is None:
            break
        called = found
    return called.__qualname__ if isinstance(called, FunctionType) else ""


def forward_of_call(code: CodeType, variables: Mapping[str, Any]) -> FunctionType | None:
    """Return the user's function that torch's code for calls of modules runs: the ``forward`` of
    the module in ``variables``, without the decorators around it. None for other code.
    """
    if code not in (nn.Module._call_impl.__code__, nn.Module._wrapped_call_impl.__code__):
        return None
    called = inspect.getattr_static(variables.get("self"), "forward", None)
    for _ in range(MOST_WRAPPED):
        inner = _one_less(called)
        if inner is None:
            break
        called = inner
    return called if isinstance(called, FunctionType) else None


def _one_less(called: object) -> object:
    """Return what is run by ``called``; None where it runs by itself."""
    if isinstance(called, functools.partial):
        return called.func
    if isinstance(called, staticmethod | classmethod):
        return called.__func__
    if isinstance(called, MethodType):
        is_call = called.__func__ in (nn.Module._call_impl, nn.Module._wrapped_call_impl)
        if is_call:
            return inspect.getattr_static(called.__self__, "forward", None)
        return called.__func__
    wrapped = inspect.getattr_static(called, "__wrapped__", None)
    if wrapped is not None or isinstance(called, FunctionType):
        return wrapped
    return inspect.getattr_static(
        type(called), "forward" if isinstance(called, nn.Module) else "__call__", None
    )


def _where_it_stands(
    function: FunctionType | MethodType, code: CodeType, variables: Mapping[str, Any]
) -> Iterator[object]:
    """Yield what the program has under the name of ``function``: in the object and the classes it
    belongs to, and in its module. Nothing of the user's is called for it.
    """
    name = function.__name__
    for owner in (getattr(function, "__self__", None), _first_argument(code, variables)):
        if owner is not None:
            yield inspect.getattr_static(owner, name, None)
            yield from (vars(kind).get(name) for kind in type(owner).__mro__)
    found: object = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = inspect.getattr_static(found, part, None)
    yield found


def _first_argument(code: CodeType, variables: Mapping[str, Any]) -> object:
    if code.co_argcount:
        return variables.get(code.co_varnames[0])
    if code.co_flags & inspect.CO_VARARGS:
        given = variables.get(code.co_varnames[code.co_kwonlyargcount])
        return given[0] if isinstance(given, tuple) and given else None
    return None


def _leads_to(outer: object, code: CodeType) -> bool:
    for _ in range(MOST_WRAPPED):
        if isinstance(outer, staticmethod | classmethod | MethodType):
            outer = outer.__func__
        if not isinstance(outer, FunctionType):
            return False
        if outer.__code__ is code:
            return True
        outer = vars(outer).get("__wrapped__")
    return False


def _variables(frame: FrameType, code: CodeType) -> Mapping[str, Any]:
    """Return the variables that Dynamo compiles ``code`` with; none where it does not."""
    has = compile_call(frame)
    return dict(has.get("locals") or {}) if has.get("code") is code else {}


def compile_call(frame: FrameType | None) -> Mapping[str, Any]:
    """Return what Dynamo's ``_compile`` has that runs in ``frame`` or is one of its callers:
    ``code`` and ``locals``, which torch tells no hook; empty where none runs.
    """
    while frame is not None:
        if frame.f_code.co_name == "_compile" and frame.f_code.co_filename.endswith(
            "convert_frame.py"
        ):
            return frame.f_locals
        frame = frame.f_back
    return {}
