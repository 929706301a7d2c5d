"""Functions of the user's that are named with their file: a backend, a guard filter."""

from __future__ import annotations

import functools
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from fx_explorer.errors import TargetError
from fx_explorer.program import loading

_IN_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)")

MOST_NAMES = 20
"""Callables of a file that are named where the one that was wanted is not there."""


def function_of_file(spelled: str, what: str) -> Callable[..., Any] | None:
    """Return the function of ``file.py:function``; None where it is not spelled like that. ``what``
    says what it is to be. Raises TargetError where there is none, and where the file raises.
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
            f"the {what} {spelled} is not callable: it is of type "
            f"{type(function).__name__}; {_callables_in(module, file)}"
        )
    result: Callable[..., Any] = function
    return result


def _callables_in(module: ModuleType, file: Path) -> str:
    """Return which callables the file has of its own, not those that it imports."""
    names = [
        name
        for name, value in vars(module).items()
        if callable(value) and not name.startswith("_") and _is_of(module, value)
    ]
    if not names:
        return f"{file.name} has no callable of its own"
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return f"the callables of {file.name} are {', '.join(names[:MOST_NAMES])}{more}"


def _is_of(module: ModuleType, value: object) -> bool:
    """Return whether a module made a value: its functions, its classes, and their objects."""
    if isinstance(value, functools.partial):
        value = value.func
    made_in = getattr(value, "__module__", None) or type(value).__module__
    return bool(made_in == module.__name__)


def with_line(error: BaseException, file: Path) -> str:
    """Return ``ValueError: no (line 3 of keep.py)``."""
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).name == file.name
    ]
    if isinstance(error, SyntaxError) and not lines:
        lines = [error.lineno]
    where = f" (line {lines[-1]} of {file})" if lines and lines[-1] else ""
    return (
        f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}{where}"
    )
