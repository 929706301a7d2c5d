"""This module finds a function's own names for arguments that a decorator around it receives as
``*args``.

Dynamo compiles the decorator's function, and names its first argument ``L['args'][0]``. Which name
the user's own function has for it is seen when Dynamo inlines that one, and binds what it is called
with to its parameters. torch puts such a function of its own (``wrap_inline``,
torch/_dynamo/external_utils.py) around what Dynamo may not compile by itself: a module whose
``forward`` is decorated by ``torch.no_grad()``, a ``functools.partial``, an object with a
``__call__``.

Hook: ``UserFunctionVariable.bind_args`` (torch/_dynamo/variables/functions.py).
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

from fx_explorer.capture.recording.function_names import (
    forward_of_call,
    function_within,
    inner_function,
)
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    TupleVariable,
    UserFunctionVariable,
    wrap_inline,
)
from fx_explorer.capture.torch_compat.versions import name_of


def argument_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Keep the names with the compilation, when the function is inlined that a decorator was put
    around.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def bind_args(self: Any, parent: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
            bound: dict[str, Any] = original(self, parent, *args, **kwargs)
            root = parent.output.root_tx
            if root.f_code.co_flags & inspect.CO_VARARGS:
                with recording.noting("the names of arguments", "dynamo"):
                    # ``functools.wraps`` gives what a decorator makes the same name.
                    if self.fn.__qualname__ == _users_function(root) and "__wrapped__" not in vars(
                        self.fn
                    ):
                        _keep(recording, _handed_on(root.f_code), bound)
            return bound

        return bind_args

    return patched(UserFunctionVariable, "bind_args", make)


def _users_function(root: Any) -> str:
    """Return the qualified name of the user's function inside the wrapper that Dynamo compiles;
    empty where it is not a wrapper.
    """
    forward = forward_of_call(root.f_code, root.f_locals)
    if forward is not None:
        return forward.__qualname__
    if root.f_code is _OF_TORCH:
        (wrapped,) = root.f_code.co_freevars
        return function_within(root.f_locals.get(wrapped))
    return inner_function(root.f_code, root.f_locals)


_OF_TORCH = wrap_inline(len).__code__


def _handed_on(code: types.CodeType) -> tuple[str, ...]:
    """Return the beginnings of the sources of all arguments that a wrapper passes on: those in its
    ``*args``, and for torch's own wrapper those inside the callable, such as a ``partial``.
    """
    variable = code.co_varnames[code.co_argcount + code.co_kwonlyargcount]
    if code is _OF_TORCH:
        held = tuple(f"L['{name}']." for name in code.co_freevars)
    else:
        held = ()
    return (f"L['{variable}'][", *held)


def _keep(recording: Recording, handed_on: tuple[str, ...], bound: dict[str, Any]) -> None:
    name = recording.compilation_name()
    recording.compilation_id(name)
    known = recording.row(name).argument_names or {}
    parameters = _parameters(bound)
    named = {source: known_as for known_as, source in parameters if source.startswith(handed_on)}
    # The outermost function that names an argument is the one that the program calls.
    if not named.keys() <= known.keys():
        recording.change_compilation(name, argument_names={**named, **known})


def _parameters(bound: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (name in the function, source) for each argument, ``x`` or ``rest[0]``; the source is
    empty if it has none.
    """
    for parameter, value in bound.items():
        yield parameter, _source(value)
        # isinstance() would have Dynamo look at a value before its time, and the graph have another
        # order of inputs.
        if type(value) is TupleVariable:
            for at, item in enumerate(value.items):
                yield f"{parameter}[{at}]", _source(item)


def _source(value: Any) -> str:
    source = getattr(value, "source", None)
    if source is None:
        return ""
    return name_of(source)
