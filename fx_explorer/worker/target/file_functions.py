"""Functions of the user's that are named with their file: a backend, a guard filter."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fx_explorer.errors import TargetError
from fx_explorer.worker.target import loading

_IN_FILE = re.compile(r"(?P<file>.+\.py):(?P<name>[^\W\d]\w*)")


def function_of_file(spelled: str, what: str) -> Callable[..., Any] | None:
    """Return the function of ``file.py:function``; None where it is not spelled like that. ``what`` says
    what it is to be. Raises TargetError where there is none, and where the file raises.
    """
    found = _IN_FILE.fullmatch(spelled)
    if not found:
        return None
    file, name = Path(found["file"]), found["name"]
    if not file.is_file():
        raise TargetError(f"the {what} {spelled} cannot be loaded: there is no such file (working directory: {Path.cwd()})")
    words, paths = list(sys.argv), list(sys.path)
    try:
        module = loading.load_file(file.absolute(), words[1:])
    except TargetError:
        raise
    except (Exception, SystemExit) as error:
        raise TargetError(f"the {what} {spelled} cannot be loaded: {with_line(error, file)}") from error
    finally:
        # The program that is compiled is another one.
        sys.argv[:], sys.path[:] = words, paths
    if not hasattr(module, name):
        raise TargetError(f"{file} has no function {name!r} that could be a {what}")
    function = getattr(module, name)
    if not callable(function):
        raise TargetError(f"the {what} {spelled} is no function: it is of type {type(function).__name__}")
    result: Callable[..., Any] = function
    return result


def with_line(error: BaseException, file: Path) -> str:
    """Return ``ValueError: no (line 3 of keep.py)``."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == file.name]
    if isinstance(error, SyntaxError) and not lines:
        lines = [error.lineno]
    where = f" (line {lines[-1]} of {file})" if lines and lines[-1] else ""
    return f"{type(error).__name__}: {error.msg if isinstance(error, SyntaxError) else error}{where}"
