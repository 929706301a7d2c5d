"""Keep what the outermost calls of compiled functions return while a script runs, to compare it
with another run.

Hook: ``torch._dynamo.eval_frame.OptimizeContext.__call__``, which makes every function that
``torch.compile`` returns, also when the stance is to run it eagerly. The program gets the same
values.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import MissingInTorch, require
from fx_explorer.instruments.fixes.measure.observed.reachable import ReachableWalk
from fx_explorer.program.users.users_code import is_users_file

MOST_CALLS, MOST_BYTES = 200, 256 * 2**20
"""Limits on what is kept: calls, and bytes of tensors. Later calls are only counted."""


class CompiledCalls:
    """Counts the outermost calls of compiled functions, and keeps what the first ones return and
    who calls them.
    """

    def __init__(self, first_call_takes_s: float = 0.0) -> None:
        """Make the first call of each function take so much longer, as compiling would."""
        self.callers = Callers()
        self._first_call_takes_s = first_call_takes_s
        self.returned: dict[str, dict[str, Any]] = {}
        """Function → ``the output of call 1 of f`` → value."""
        self.identities: dict[str, list[dict[str, Any]]] = {}
        """Function → for each call its facts and which values are one object or share memory, as in
        ``ReachedValues``.
        """
        self.counts: Counter[str] = Counter()
        """Function → how often it was called."""
        self.problem = ""
        """Why nothing was kept; empty when calls were watched."""
        self.kept = 0
        """How many of the calls are kept."""
        self._bytes = 0
        self._inside = threading.local()

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch every function that is compiled inside the block. It stays watched afterwards."""
        try:
            context, skip = (
                require("torch._dynamo.eval_frame", name)
                for name in ("OptimizeContext", "skip_code")
            )
        except MissingInTorch as missing:
            self.problem = str(missing)
            yield
            return

        def make(original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
            def compiled(self_: Any, function: Any) -> Any:
                made = original(self_, function)
                if isinstance(made, torch.nn.Module) or inspect.isclass(made):
                    return made  # what they are called through comes here too
                return self._watched(made, _name(function), skip)

            return compiled

        with patched(context, "__call__", make):
            yield

    def _watched(
        self, function: Callable[..., Any], name: str, skip: Callable[[Any], None]
    ) -> Callable[..., Any]:
        def called(*args: Any, **kwargs: Any) -> Any:
            if getattr(self._inside, "call", False):
                return function(*args, **kwargs)
            self.callers.note()
            if name not in self.counts:
                time.sleep(self._first_call_takes_s)
            self._inside.call = True
            try:
                output = function(*args, **kwargs)
            finally:
                self._inside.call = False
            self._keep(name, (args, kwargs), output)
            return output

        skip(called.__code__)  # compiled code may call it, and Dynamo looks at every frame
        return functools.wraps(function)(called)

    def _keep(self, name: str, arguments: object, output: object) -> None:
        """Keep the values of the output, and which input each one is or is a part of."""
        self.counts[name] += 1
        if sum(self.counts.values()) > MOST_CALLS or self._bytes > MOST_BYTES:
            return
        self.kept += 1
        call = f"call {self.counts[name]} of {name}"
        walk = ReachableWalk(lambda path: False)
        walk.add("input", f"the arguments of {call}", arguments)
        walk.add("output", f"the output of {call}", output)
        reached = walk.reached()
        values = reached.values.get("output", {})
        self._bytes += sum(
            value.nbytes for value in values.values() if isinstance(value, torch.Tensor)
        )
        self.returned.setdefault(name, {}).update(values)
        self.identities.setdefault(name, []).append(
            {"facts": reached.facts, "same": reached.same, "overlapping": reached.overlapping}
        )


def _name(function: Any) -> str:
    """Return the function's name; for a method of a module, the name of the module's class."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return type(owner).__name__
    return str(getattr(function, "__qualname__", type(function).__name__))


# The functions of the user's that call compiled code: what their variables hold at the end.


class Callers:
    """The functions that were being run when compiled code was called: of each the last run.

    A program whose model, optimizer and results are variables of ``main()`` has no global that says
    what it has computed.
    """

    def __init__(self) -> None:
        self._frames: dict[CodeType, FrameType] = {}
        """A frame that is held keeps its variables when its function has returned."""

    def note(self) -> None:
        """Note the functions that the present call comes from, below the script itself. The
        variables of modules are globals.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not _is_the_script(frame):
            code = frame.f_code
            if (
                self._frames.get(code) is not frame
                and code.co_name != _OF_MODULE
                and is_users_file(code.co_filename)
            ):
                self._frames[code] = frame
            frame = frame.f_back

    def variables(self) -> Iterator[tuple[str, object]]:
        """Yield (``main()'s model``, value) of each variable, as it is now."""
        for code, frame in self._frames.items():
            for name, value in list(frame.f_locals.items()):
                if name.isidentifier():  # ".0" is the iterator of a comprehension
                    yield _told(code, name), value

    def names(self) -> Iterator[str]:
        """Yield the names of all variables that these functions may have, set or not."""
        for code in self._frames:
            yield from (
                _told(code, name)
                for name in (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
            )


def _told(code: CodeType, name: str) -> str:
    return f"{getattr(code, 'co_qualname', code.co_name)}()'s {name}"  # Python 3.10 knows only the name


_OF_MODULE = "<module>"
"""Name of the code that an import runs."""


def _is_the_script(frame: FrameType) -> bool:
    return frame.f_code.co_name == _OF_MODULE and frame.f_globals.get("__name__") == "__main__"
