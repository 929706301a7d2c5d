"""This module names the patterns that Inductor's passes try, and says where they are written.

An entry (torch/_inductor/pattern_matcher.py, ``PatternEntry``) has a pattern, a check, and a
function that replaces what matched. A pattern that is traced from a function is known by it.
"""

from __future__ import annotations

import functools
import inspect
import os
from typing import Any

import torch

from fx_explorer.capture.torch_compat.private_names import inductor_patterns

TORCH = os.path.dirname(torch.__file__) + os.sep


def entry_classes() -> tuple[type, ...]:
    """Return torch's classes of patterns with what takes the place of a match."""
    return (
        inductor_patterns.LoweringPatternEntry,
        inductor_patterns.GraphPatternEntry,
        inductor_patterns.ReplacementPatternEntry,
    )


def pattern_name(entry: Any) -> str:
    """Return the name of a pattern, of the function it is traced from, or of the one that is called
    for its matches.
    """
    name = getattr(entry, "pattern_name", None)
    if name:
        return str(name)
    function = _search_function(entry) or getattr(entry, "handler", None)
    # Many of torch's are called fn, in a function that says what they do.
    name = str(getattr(function, "__qualname__", "")).replace(".<locals>", "")
    return name or "a pattern"


def written_at(entry: Any) -> tuple[str, int]:
    """Return the file and the first line of the function that a pattern is traced from, or that is
    called for its matches; empty and 0 where that is not known.
    """
    function = _search_function(entry) or getattr(entry, "handler", None)
    code = getattr(plain_function(function), "__code__", None)
    if code is None:
        return "", 0
    return code.co_filename, code.co_firstlineno


def is_of_user(file: str) -> bool:
    """Return whether a pattern in this file is not one of torch's."""
    return bool(file) and not file.startswith(TORCH)


def written_check(entry: Any) -> Any:
    """Return the user-written check of a pattern: a traced pattern's is called by a function inside
    ``register_replacement``.
    """
    check = inspect.unwrap(entry.extra_check)  # without what watches it, while it is watched
    return _captured(check, "extra_check") or check


def _search_function(entry: Any) -> Any:
    """Return the function that a pattern is traced from; None where it is put together by hand."""
    function = _captured(inspect.unwrap(entry.extra_check), "search_fn")
    # Torch fills in arguments of its patterns of attention (partialize_and_update_signature).
    return _captured(function, "partial_func") or function


def _captured(function: Any, name: str) -> Any:
    """Return the value of a variable that a function has from the function around it."""
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    if code is None or name not in code.co_freevars:
        return None
    try:
        return cells[code.co_freevars.index(name)].cell_contents
    except ValueError:  # not set yet
        return None


def plain_function(function: Any) -> Any:
    """Return the function that is written in a file, without what wraps it."""
    while isinstance(function, functools.partial):
        function = function.func
    if callable(function) and not inspect.isroutine(function):
        function = inspect.getattr_static(type(function), "__call__")
    return inspect.unwrap(function) if callable(function) else function
