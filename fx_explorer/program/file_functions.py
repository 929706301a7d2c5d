"""This module finds the functions of the user's that a request names with their file, a backend or
a guard filter, and refuses a guard filter that does not answer as torch asks.

torch takes a ``guard_filter_fn`` among torch.compile's options for every backend, and takes it out
before the backend sees them (``compile``, torch/__init__.py). A request holds its name.
"""

from __future__ import annotations

import difflib
import functools
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fx_explorer.capture.torch_compat.versions import GuardFilter, known_filters, require
from fx_explorer.errors import TargetError
from fx_explorer.model import GUARD_FILTER
from fx_explorer.program import loading


def with_guard_filter(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of torch.compile with the filter in place of its name. A mode is
    replaced by its options, because torch accepts no options beside a mode. Raises TargetError for
    an unknown filter.
    """
    options = arguments.get("options") or {}
    if GUARD_FILTER not in options:
        return arguments
    mode = arguments.get("mode", "")
    if mode and arguments.get("backend") != "inductor":
        raise TargetError(
            f"{GUARD_FILTER} and --mode {mode} can be combined only with the backend inductor; "
            "leave one of them out"
        )
    if mode:
        entries = require("torch._inductor", "list_mode_options")(mode, arguments.get("dynamic"))
    else:
        entries = {}
    given = {**entries, **options, GUARD_FILTER: guard_filter(options[GUARD_FILTER])}
    return {
        **{name: value for name, value in arguments.items() if name != "mode"},
        "options": given,
    }


def guard_filter(name: object) -> GuardFilter:
    """Return one of torch's own filters by its name in ``torch.compiler``, or the function of
    ``file.py:function``. Raises TargetError without one.
    """
    known = known_filters()
    if not isinstance(name, str):
        raise TargetError(
            f"{GUARD_FILTER}={name!r} is not the name of a filter. {_list_filters(known)}"
        )
    if name in known:
        return _checked(known[name], name)
    function = function_of_file(name, "guard filter")
    if function is None:
        raise TargetError(
            f"there is no guard filter {name!r}{_near(name, known)} {_list_filters(known)}"
        )
    return _checked(function, name)


def _checked(function: Callable[..., Any], name: str) -> GuardFilter:
    """Return the filter, wrapped to raise TargetError if it raises or returns an invalid answer.
    Dynamo makes its own error of that, with ours as its context (``told_by_us``).
    """

    @functools.wraps(function)
    def guard_filter(entries: Sequence[Any]) -> Sequence[bool]:
        try:
            answer = function(entries)
        except (Exception, SystemExit) as error:
            raise TargetError(
                f"the guard filter {name} raised {with_line(error, Path(name.rpartition(':')[0]))}"
            ) from error
        kept = list(answer) if isinstance(answer, Iterable) else None
        if kept is None or len(kept) != len(entries):
            if kept is None:
                gave = type(answer).__name__
            elif len(kept) == 1:
                gave = "1 answer"
            else:
                gave = f"{len(kept)} answers"
            raise TargetError(
                f"the guard filter {name} returned {gave} for {len(entries)} guards; return a "
                "list with True (keep) or False (drop) for each guard, in their order"
            )
        others = [item for item in kept if type(item) is not bool]
        if others:
            raise TargetError(
                f"the guard filter {name} returned {others[0]!r}; torch takes only True (keep) or "
                "False (drop)"
            )
        return kept

    guard_filter.__qualname__ = name
    return guard_filter


def _near(name: str, known: dict[str, GuardFilter]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {near[0]}?" if near else "."


def _list_filters(known: dict[str, GuardFilter]) -> str:
    return (
        f"torch {torch.__version__} has: {', '.join(sorted(known))}; for your own, give "
        "FILE.py:FUNCTION"
    )


# Functions that are named with their file.


_IN_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)")

MOST_NAMES = 20
"""Maximum number of callables that a message lists if the requested one does not exist."""


def function_of_file(spelled: str, what: str) -> Callable[..., Any] | None:
    """Return the function of ``file.py:function``; None for any other spelling. ``what`` says what
    it is for. Raises TargetError if there is none, and if the file raises.
    """
    match = _IN_FILE.fullmatch(spelled)
    if not match:
        return None
    file, name = Path(match["file"]), match["name"]
    if not file.is_file():
        raise TargetError(
            f"the {what} {spelled} cannot be loaded: there is no such file (working "
            f"directory: {Path.cwd()})"
        )
    words, paths = list(sys.argv), list(sys.path)
    try:
        module = loading.load_file(file.absolute(), words[1:])
    except TargetError:
        raise
    except (Exception, SystemExit) as error:
        raise TargetError(
            f"the {what} {spelled} cannot be loaded: {with_line(error, file)}"
        ) from error
    finally:
        # The program that is compiled is another one.
        sys.argv[:], sys.path[:] = words, paths
    if not hasattr(module, name):
        raise TargetError(
            f"{file} has nothing named {name!r} that could be a {what}; "
            f"{_callables_in(module, file)}"
        )
    function = getattr(module, name)
    if not callable(function):
        raise TargetError(
            f"the {what} {spelled} is not callable: it is of type {type(function).__name__}; "
            f"{_callables_in(module, file)}"
        )
    result: Callable[..., Any] = function
    return result


def _callables_in(module: ModuleType, file: Path) -> str:
    """Return the callables that the file defines itself, without those it imports."""
    names = []
    for name, value in vars(module).items():
        if callable(value) and not name.startswith("_") and _is_of(module, value):
            names.append(name)
    if not names:
        return f"{file.name} has no callable of its own"
    if len(names) > MOST_NAMES:
        more = f" and {len(names) - MOST_NAMES} more"
    else:
        more = ""
    return f"the callables of {file.name} are {', '.join(names[:MOST_NAMES])}{more}"


def _is_of(module: ModuleType, value: object) -> bool:
    """Return whether a module defines a value: its functions, its classes, and their objects."""
    if isinstance(value, functools.partial):
        value = value.func
    made_in = getattr(value, "__module__", None) or type(value).__module__
    return bool(made_in == module.__name__)


def with_line(error: BaseException, file: Path) -> str:
    """Return ``ValueError: no (line 3 of keep.py)``."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == file.name]
    message: object = error
    if isinstance(error, SyntaxError):
        message = error.msg
        lines = lines or [error.lineno]
    where = f" (line {lines[-1]} of {file})" if lines and lines[-1] else ""
    return f"{type(error).__name__}: {message}{where}"
