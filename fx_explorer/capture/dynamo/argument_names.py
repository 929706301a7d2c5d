"""What a function calls the arguments that a decorator around it takes with ``*args``.

Dynamo compiles the decorator's function, and names its first argument ``L['args'][0]``. Which name the user's own function has
for it is seen when Dynamo inlines that one, and binds what it is called with to its parameters.

Hook: ``UserFunctionVariable.bind_args`` (torch/_dynamo/variables/functions.py).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable
from typing import Any

from torch._dynamo.variables.functions import UserFunctionVariable

from fx_explorer.capture.recording.function_names import inner_function
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import name_of


def argument_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Keep the names with the compilation, when the function is inlined that a decorator was put around."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def bind_args(self: Any, parent: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
            bound: dict[str, Any] = original(self, parent, *args, **kwargs)
            root = parent.output.root_tx
            if root.f_code.co_flags & inspect.CO_VARARGS:
                with recording.noting("the names of arguments", "dynamo"):
                    if self.fn.__qualname__ == inner_function(root.f_code, root.f_locals):
                        _keep(recording, _variable_of_arguments(root.f_code), bound)
            return bound

        return bind_args

    return patched(UserFunctionVariable, "bind_args", make)


def _variable_of_arguments(code: types.CodeType) -> str:
    """Return the name of the variable that holds the arguments without a name: ``args``."""
    return code.co_varnames[code.co_argcount + code.co_kwonlyargcount]


def _keep(recording: Recording, variable: str, bound: dict[str, Any]) -> None:
    name = recording.compilation_name()
    recording.compilation_id(name)
    known = recording.row(name).argument_names or {}
    named = {
        source: parameter for parameter, value in bound.items() if (source := _source(value)).startswith(f"L['{variable}'][")
    }
    # The outermost function that names an argument is the one that the program calls.
    if not named.keys() <= known.keys():
        recording.change_compilation(name, argument_names={**named, **known})


def _source(value: Any) -> str:
    source = getattr(value, "source", None)
    return "" if source is None else name_of(source)
