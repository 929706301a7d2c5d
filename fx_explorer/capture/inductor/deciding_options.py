"""This module finds the options of Inductor that a condition in its source depends on: the
condition is evaluated again with each of its options changed. Nothing is set: the condition, and
the functions that it asks, are given other values of its options.

A condition with a call that may do something is not evaluated.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import types
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import torch

from fx_explorer.capture.torch_compat.private_names import inductor_config

_CONFIG = "config"
"""Name of torch._inductor.config in Inductor's own modules."""

_DETERMINISTIC = "are_deterministic_algorithms_enabled"

_PURE = ("get", "is_", "has_", "use_", "should_", "needs_", "can_")
"""How the functions begin that only tell something."""

_BUILT_IN = ("isinstance", "len", "any", "all", "cast", "str", "int", "bool", "type", "getattr")

Override = tuple[str, object]
"""The path of an option in torch._inductor.config, and the value that it is given."""


def deciding_options(condition: str, frame: types.FrameType) -> dict[str, str]:
    """Return option → its value, for each option of type bool without which the condition would not
    hold in this frame. ``condition``: an expression of the frame's source that holds there.
    """
    tree = _parsed(condition)
    if tree is None or not _is_pure(tree):
        return {}
    asked = _functions_in(tree, frame)
    trees = [tree, *(_tree_of(function) for function in asked.values())]
    deciding = {}
    for path in dict.fromkeys(path for each in trees for path in _options_in(each)):
        value = _value_of(path)
        if isinstance(value, bool) and _holds(condition, frame, asked, (path, not value)) is False:
            deciding[f"torch._inductor.config.{path}"] = str(value)
    is_asked = any(_DETERMINISTIC in ast.dump(each) for each in trees)
    is_on = is_asked and torch.are_deterministic_algorithms_enabled()
    if is_on and _holds(condition, frame, asked, (_DETERMINISTIC, False)) is False:
        deciding["torch.are_deterministic_algorithms_enabled()"] = "True"
    return deciding


@lru_cache(maxsize=256)
def _parsed(condition: str) -> ast.Expression | None:
    try:
        return ast.parse(condition, mode="eval")
    except SyntaxError:
        return None


def _is_pure(tree: ast.AST) -> bool:
    """Return whether all calls in an expression are of functions that only tell something."""
    for node in ast.walk(tree):
        if isinstance(node, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom):
            return False
        if isinstance(node, ast.Call) and not _only_tells(node.func):
            return False
    return True


def _only_tells(called: ast.expr) -> bool:
    if isinstance(called, ast.Name):
        return called.id in _BUILT_IN or called.id.startswith(_PURE)
    if isinstance(called, ast.Attribute):
        return called.attr.startswith(_PURE) or called.attr == _DETERMINISTIC
    return False


def _functions_in(tree: ast.AST, frame: types.FrameType) -> dict[str, types.FunctionType]:
    """Return the functions of Inductor that an expression calls by name."""
    functions = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = frame.f_globals.get(node.func.id)
            if isinstance(function, types.FunctionType) and not function.__closure__:
                functions[node.func.id] = function
    return functions


@lru_cache(maxsize=256)
def _tree_of(function: types.FunctionType) -> ast.AST:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return ast.Module([], [])


def _options_in(tree: ast.AST) -> Iterator[str]:
    """Yield the options that are named: ``cpp.fallback_scatter_reduce_sum``."""
    for node in ast.walk(tree):
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node.id == _CONFIG and parts:
            yield ".".join(parts)


def _value_of(path: str) -> object:
    value: object = inductor_config
    for name in path.split("."):
        value = getattr(value, name, None)
    return value


def _holds(
    condition: str,
    frame: types.FrameType,
    asked: Mapping[str, types.FunctionType],
    override: Override,
) -> bool | None:
    """Return whether the condition holds with an option changed; None where it raises."""
    changed: dict[str, Any] = {
        _CONFIG: _Changed(inductor_config, "", override),
        "torch": _Changed(torch, "", override),
    }
    names: dict[str, Any] = {**frame.f_globals, **changed}
    for name, function in asked.items():
        names[name] = types.FunctionType(
            function.__code__,
            {**function.__globals__, **changed},
            function.__name__,
            function.__defaults__,
        )
    try:
        return bool(eval(condition, {**names, **frame.f_locals}))
    except (AttributeError, LookupError, NameError, TypeError, ValueError):
        return None  # the values do not fit together: nothing is claimed


class _Changed:
    """A module, or a part of torch._inductor.config, in which one option has another value."""

    def __init__(self, original: object, path: str, override: Override) -> None:
        self._original = original
        self._path = path
        self._override = override

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}{name}"
        option, value = self._override
        if path == option:
            return (lambda: value) if option == _DETERMINISTIC else value
        original = getattr(self._original, name)
        if option.startswith(f"{path}."):
            return _Changed(original, f"{path}.", self._override)
        return original
