"""This module finds the user's names of functions that Dynamo compiles, and of the callables that
the user gave to torch.compile.

Of a function that a decorator put around another, the name is that of the inner one, which is the
user's. Dynamo is given the code object of the outer function and its variables, and no function.
That the inner one is what the decorator was made for shows in the place where the user's program
has it: the method of that name leads, by ``__wrapped__``, to the code that is compiled.

A callable whose code is not compiled by itself (a module of torch's or a library's, a
``functools.partial``) is called from ``inner`` of ``wrap_inline``
(torch/_dynamo/external_utils.py). That is the function Dynamo sees; its name says nothing.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import sys
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, NamedTuple

import torch
from torch import nn

from fx_explorer.capture.recording.sources import CallSite

_LOCALS = ".<locals>."

MOST_WRAPPED = 20
"""Maximum number of decorators that are looked through; a chain of ``__wrapped__`` may have no
end.
"""

_WRAPPER = "wrap_inline"
"""Name of torch's wrapper for callables that it does not compile directly
(torch/_dynamo/external_utils.py).
"""


def qualified_name(code: CodeType) -> str:
    """Return ``Net.forward``; before Python 3.11, ``forward``."""
    return getattr(code, "co_qualname", code.co_name)


def name_of_compiled(code: CodeType) -> str:
    """Return the name of the function that Dynamo compiles: ``Net.forward``, and ``Net.forward
    (no_grad)`` for the wrapper of the decorator ``no_grad``. A class that wraps the methods of its
    subclasses (``Base.__init_subclass__``) is named alone.
    """
    name = qualified_name(code)
    if not code.co_freevars or _LOCALS not in name:
        return name
    inner = inner_function(code, _variables(sys._getframe(1), code))
    around = name.split(_LOCALS[:-1])[0]
    around = around.removesuffix(".__init_subclass__").removesuffix(".__set_name__")
    if not inner:
        return name
    if around == _WRAPPER:
        return inner
    return f"{inner} ({around})"


def inner_function(code: CodeType, variables: Mapping[str, Any]) -> str:
    """Return the qualified name of the function inside the wrapper with this ``code``, from its
    ``variables``; empty where it is not known.
    """
    for name in code.co_freevars:
        function = variables.get(name)
        if not isinstance(function, FunctionType | MethodType):
            continue
        for outer in _where_it_stands(function, code, variables):
            if _leads_to(outer, code):
                return function.__qualname__
    return ""


def function_within(called: object) -> str:
    """Return the qualified name of the user's function that a call of ``called`` runs, without its
    decorators: the function of a ``partial``, the ``forward`` of a module, a ``__call__``; empty if
    it is not a Python function. No code of the user's is run for this.
    """
    for _ in range(MOST_WRAPPED):
        inner = _one_less(called)
        if inner is None:
            break
        called = inner
    if isinstance(called, FunctionType):
        return called.__qualname__
    return ""


def forward_of_call(code: CodeType, variables: Mapping[str, Any]) -> FunctionType | None:
    """Return the user's function that torch's code for module calls runs: the ``forward`` of the
    module in ``variables``, without its decorators. None for other code.
    """
    if code not in (nn.Module._call_impl.__code__, nn.Module._wrapped_call_impl.__code__):
        return None
    called = inspect.getattr_static(variables.get("self"), "forward", None)
    for _ in range(MOST_WRAPPED):
        inner = _one_less(called)
        if inner is None:
            break
        called = inner
    if isinstance(called, FunctionType):
        return called
    return None


def _one_less(called: object) -> object:
    """Return the callable that ``called`` wraps; None if it wraps none."""
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
    method = "forward" if isinstance(called, nn.Module) else "__call__"
    return inspect.getattr_static(type(called), method, None)


def _where_it_stands(
    function: FunctionType | MethodType, code: CodeType, variables: Mapping[str, Any]
) -> Iterator[object]:
    """Yield the program's objects under the name of ``function``: in its object and classes, and in
    its module. No code of the user's is run for this.
    """
    name = function.__name__
    for owner in (getattr(function, "__self__", None), _first_argument(code, variables)):
        if owner is not None:
            yield inspect.getattr_static(owner, name, None)
            for kind in type(owner).__mro__:
                yield vars(kind).get(name)
    value: object = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        value = inspect.getattr_static(value, part, None)
    yield value


def _first_argument(code: CodeType, variables: Mapping[str, Any]) -> object:
    if code.co_argcount:
        return variables.get(code.co_varnames[0])
    if code.co_flags & inspect.CO_VARARGS:
        given = variables.get(code.co_varnames[code.co_kwonlyargcount])
        if isinstance(given, tuple) and given:
            return given[0]
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
    """Return the variables with which Dynamo compiles ``code``; empty if it does not compile it."""
    call = compile_call(frame)
    if call.get("code") is not code:
        return {}
    return dict(call.get("locals") or {})


def compile_call(frame: FrameType | None) -> Mapping[str, Any]:
    """Return the variables of Dynamo's ``_compile`` on the stack of ``frame``: ``code`` and
    ``locals``, for which torch has no hook; empty if it is not running.
    """
    while frame is not None:
        if frame.f_code.co_name == "_compile" and frame.f_code.co_filename.endswith(
            "convert_frame.py"
        ):
            return frame.f_locals
        frame = frame.f_back
    return {}


# The callables that the user gave to torch.compile.


INSTALLED = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages, in any place."""

WRAPPER = "wrap_inline.<locals>.inner"


def is_wrapper(file: str, function: str) -> bool:
    """Return whether this is torch's wrapper function. torch's records have its short name, its
    code object the long one.
    """
    return file.endswith("external_utils.py") and function in ("inner", WRAPPER)


class GivenCallable(NamedTuple):
    """A callable by the user's name, and the line that gave it to torch.compile."""

    name: str
    file: str
    line: int


class GivenCallables:
    """Remembers the callables that torch.compile was called with, without keeping them alive."""

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
        reference, known = self._known.get(id(given), (None, None))
        # The id may be that of an object that came later.
        if known is not None and reference is not None and reference() is given:
            return known
        return GivenCallable(own_name(given), "", 0)


def being_compiled() -> object | None:
    """Return the callable inside torch's wrapper while Dynamo compiles the wrapper; None where it
    is not known.
    """
    variables = dict(compile_call(sys._getframe(1)).get("locals") or {})
    function: object | None = variables.get("fn")
    return function


def name_of(given: object, place: CallSite) -> str:
    """Return ``net (Sequential)`` if a variable of the user's was compiled, else ``Sequential``: a
    variable in a framework's code (``submodule.compile()``) tells the user nothing.
    """
    name, variable = own_name(given), ""
    if place.file and not INSTALLED.intersection(Path(place.file).parts):
        variable = _variable(linecache.getline(place.file, place.line))
    if not variable or variable == name:
        return name
    return f"{variable} ({name})"


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
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    subjects = [_subject(call) for call in calls if _called(call) == "compile"]
    if len(subjects) == 1 and isinstance(subjects[0], ast.Name | ast.Attribute):
        return ast.unparse(subjects[0])
    return ""


def _called(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    if isinstance(call.func, ast.Name):
        return call.func.id
    return ""


def _subject(call: ast.Call) -> ast.expr | None:
    """Return the compiled expression: the first argument of ``torch.compile``, else the object
    whose method is called.
    """
    if isinstance(call.func, ast.Attribute) and ast.unparse(call.func) != "torch.compile":
        return call.func.value
    return call.args[0] if call.args else None
