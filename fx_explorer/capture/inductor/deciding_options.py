"""This module finds what a condition in Inductor's source depends on: its options, and which of
several alternatives hold. For the options it is evaluated again with each of them changed. Nothing
is set: the condition, and the functions that it asks, are given other values of its options.

A condition with a call that may do something is not evaluated.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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

_NO_VALUE = (AttributeError, LookupError, NameError, SyntaxError, TypeError, ValueError)
"""What an expression raises whose values do not fit together: nothing is claimed then."""

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


@dataclass(frozen=True, slots=True)
class Alternatives:
    """Which alternatives of ``return A or B or C`` hold."""

    holding: tuple[str, ...] = ()
    """Those that do, as torch's source has them."""
    values: dict[str, str] = field(default_factory=dict)
    """Name → value of the texts and dtypes that they are about."""


def holding_alternatives(condition: str, frame: types.FrameType) -> Alternatives:
    """Return which alternatives hold where the condition is one call of a function of Inductor that
    ends in ``return A or B or C``; none for another condition.
    """
    tree = _parsed(condition)
    if tree is None or not _is_pure(tree) or not isinstance(tree.body, ast.Call):
        return Alternatives()
    called = ast.unparse(tree.body.func)
    function = _functions_in(tree, frame).get(called)
    alternatives = _alternatives_of(function) if function else []
    if function is None or not alternatives:
        return Alternatives()
    try:
        each_evaluated = _evaluating_each(function)
        answer = eval(condition, {**frame.f_globals, **frame.f_locals, called: each_evaluated})
    except _NO_VALUE:
        return Alternatives()
    # It may have returned before its last line.
    if not isinstance(answer, tuple):
        return Alternatives()
    holds, values = answer
    holding = [text for text, is_true in zip(alternatives, holds, strict=True) if is_true]
    shown_values = {
        name: str(value).removeprefix("torch.")
        for name, value in values.items()
        if isinstance(value, str | torch.dtype) and any(name in text for text in holding)
    }
    return Alternatives(tuple(holding), shown_values)


def _alternatives_of(function: types.FunctionType) -> list[str]:
    definition = _definition_of(function)
    last = definition.body[-1] if definition else None
    if not isinstance(last, ast.Return) or not isinstance(last.value, ast.BoolOp):
        return []
    if not isinstance(last.value.op, ast.Or):
        return []
    return [ast.unparse(value) for value in last.value.values]


def _definition_of(function: types.FunctionType) -> ast.FunctionDef | None:
    body = getattr(_tree_of(function), "body", [])
    return body[0] if body and isinstance(body[0], ast.FunctionDef) else None


def _evaluating_each(function: types.FunctionType) -> Callable[..., Any]:
    """Return the function with ``return [A, B, C], locals()`` for ``return A or B or C``."""
    definition = copy.deepcopy(_definition_of(function))
    assert definition is not None
    parameters = definition.args
    for parameter in [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs]:
        parameter.annotation = None
    definition.returns = None
    definition.decorator_list = []
    each = ", ".join(_alternatives_of(function))
    definition.body[-1:] = ast.parse(f"return [{each}], locals()").body
    module = ast.fix_missing_locations(ast.Module([definition], []))
    names = dict(function.__globals__)
    exec(compile(module, "<alternatives>", "exec"), names)
    made: Callable[..., Any] = names[function.__name__]
    return made


@lru_cache(maxsize=256)
def _parsed(condition: str) -> ast.Expression | None:
    try:
        return ast.parse(condition, mode="eval")
    except SyntaxError:
        return None


def _is_pure(tree: ast.AST) -> bool:
    """Return whether an expression only calls functions without side effects."""
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
    except _NO_VALUE:
        return None


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
