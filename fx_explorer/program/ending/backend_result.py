"""Explain in one sentence that a backend returned nothing that can be called.

torch says only that "compiler_fn did not return callable" (torch/_dynamo/output_graph.py,
``OutputGraph._call_user_compiler``); which function that was, and what it returned, is in the
variables of that frame.
"""

from __future__ import annotations

import inspect
import traceback
import types
from typing import Any

from fx_explorer.capture.backends.declared import functions_of

_TORCHS_WORDS = "compiler_fn did not return callable"
_COMPILER, _RESULT = "compiler_fn", "compiled_fn"
"""The variables of torch's frame."""


def not_callable(failed: BaseException) -> str:
    """Return which backend returned what, for a BackendCompilerFailed; empty where it failed in
    another way.
    """
    error = getattr(failed, "inner_exception", None)
    if not isinstance(error, AssertionError) or _TORCHS_WORDS not in str(error):
        return ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        found = frame.f_locals
        if _COMPILER in found and _RESULT in found and not callable(found[_RESULT]):
            return (
                f"the backend {_name_and_place(found[_COMPILER])} returned "
                f"{_described(found[_RESULT])}. "
                "A backend must return a callable that takes the graph's inputs and "
                "returns a tuple or a list of its "
                "outputs; return gm.forward to run the graph as it is. It returned that"
            )
    return ""


def _name_and_place(backend: Any) -> str:
    """Return ``mine (mine.py:3)``: its function beneath what torch put around it."""
    functions = list(functions_of(backend))
    code = next(filter(None, map(_code_of, reversed(functions))), None)
    if code is None:
        return str(getattr(backend, "__name__", None) or type(backend).__name__)
    return (
        f"{code.co_qualname if hasattr(code, 'co_qualname') else code.co_name} "
        f"({code.co_filename}:{code.co_firstlineno})"
    )


def _code_of(function: Any) -> types.CodeType | None:
    """Return the code of a function or method, or of what calls an object; None for what is not
    Python's, or is torch's.
    """
    if not inspect.isroutine(function):
        function = inspect.getattr_static(type(function), "__call__", None)
    function = getattr(function, "__func__", function)
    if str(getattr(function, "__module__", "")).partition(".")[0] in (
        "torch",
        __name__.partition(".")[0],
    ):
        return None
    code = getattr(function, "__code__", None)
    return code if isinstance(code, types.CodeType) else None


def _described(returned: object) -> str:
    if returned is None:
        return "None (a function without a return statement does)"
    kind = type(returned)
    return f"an object of type {kind.__qualname__}, which cannot be called"
