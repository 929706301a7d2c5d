"""This module says where a check in Python said no: the condition, and the values in it.

A pattern of Inductor's may have a check of its own (``extra_check``), a function in Python that
says yes or no and nothing else. It is called once, as torch calls it, under a trace function that
notes where it, and what it calls, returns. The condition is then read from its source.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch

from fx_explorer.capture.recording.fx_graphs import qualified_name
from fx_explorer.capture.torch_compat.private_names import inductor_patterns

DEEPEST = 3
"""Number of calls inside a check that are followed."""

MOST_CHARACTERS = 200
"""Maximum number of characters of a condition, and of a value."""


@dataclass(frozen=True, slots=True)
class RefusedCheck:
    """Where a check said no."""

    file: str
    line: int
    """The line that returned, from 1."""
    condition: str
    """``if k1 != k2``, with the comment of the line that returned."""
    values: str
    """``k1 = 8, k2 = 16``; empty where the condition has no names."""


@dataclass(eq=False)
class _Call:
    """A call of a function that is followed."""

    depth: int
    code: CodeType
    line: int = 0
    returned: object = None
    names: dict[str, object] = field(default_factory=dict)
    """The local variables at its end."""
    globals: dict[str, object] = field(default_factory=dict)
    callee: _Call | None = None
    """The last function that it called."""


class CheckTrace:
    """Follows the calls of a function, and of what it calls, inside the block of ``following``."""

    def __init__(self, code: CodeType | None) -> None:
        self.last: _Call | None = None
        """The last call of the function that has ended."""
        self._code = code
        self._calls: dict[FrameType, _Call] = {}

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Follow them inside the block: not beside a debugger, or a measurement of coverage."""
        if self._code is None or sys.gettrace() is not None:
            yield
            return
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(None)
            self._calls.clear()

    def _on_call(self, frame: FrameType, event: str, argument: object) -> Any:
        caller = self._calls.get(frame.f_back) if frame.f_back else None
        if caller is None and frame.f_code is not self._code:
            return None
        depth = caller.depth + 1 if caller else 0
        if depth > DEEPEST:
            return None
        self._calls[frame] = _Call(depth, frame.f_code, globals=frame.f_globals)
        frame.f_trace_lines = False
        return self._on_event

    def _on_event(self, frame: FrameType, event: str, argument: object) -> Any:
        if event != "return":
            return self._on_event
        call = self._calls.pop(frame, None)
        if call is None:
            return None
        call.line, call.returned, call.names = frame.f_lineno, argument, dict(frame.f_locals)
        caller = self._calls.get(frame.f_back) if frame.f_back else None
        if caller is not None:
            caller.callee = call
        else:
            self.last = call
        return None


def explain_refusal(call: _Call) -> RefusedCheck:
    """Return where a call that has ended said no: itself, or the function that it passed on."""
    tree, first = _syntax_tree(call.code)
    statement, test = _returning(tree, call.line - first + 1)
    answer = statement.value if statement is not None else None
    asked = answer.operand if isinstance(answer, ast.UnaryOp) else answer
    if test is None and isinstance(asked, ast.Call) and call.callee is not None:
        return explain_refusal(call.callee)
    file = call.code.co_filename
    condition, values = _source_line(call), ""
    if test is not None:
        condition = f"if {ast.unparse(test)}"
        values = _values(call, tree, test)
    elif answer is not None:
        condition = f"return {ast.unparse(answer)}"
        values = _values(call, tree, answer)
    comment = _source_line(call).partition("#")[2].strip()
    if comment:
        condition += f" ({comment})"
    return RefusedCheck(file, call.line, _cut(condition), _cut(values))


def _syntax_tree(code: CodeType) -> tuple[ast.AST | None, int]:
    """Return the syntax tree of a function's source and its first line; None without a source."""
    try:
        lines, first = inspect.getsourcelines(code)
        return ast.parse(textwrap.dedent("".join(lines))), first
    except (OSError, SyntaxError, ValueError):
        return None, code.co_firstlineno


def _returning(tree: ast.AST | None, line: int) -> tuple[ast.Return | None, ast.expr | None]:
    """Return the statement that returned at a line, and the condition of the ``if`` that it is in;
    None where there is none.
    """
    if tree is None:
        return None, None
    statement, test = None, None
    for node in ast.walk(tree):
        if isinstance(node, ast.Return) and _has_line(node, line):
            statement = node
    if statement is None or not isinstance(statement.value, ast.Constant | None):
        return statement, None
    for node in ast.walk(tree):  # outer ones first
        if isinstance(node, ast.If) and statement in node.body:
            test = node.test
    return statement, test


def _has_line(node: ast.stmt, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _source_line(call: _Call) -> str:
    try:
        lines, _ = inspect.findsource(call.code)
    except OSError:
        return f"line {call.line}"
    return lines[call.line - 1].strip() if call.line <= len(lines) else ""


def _values(call: _Call, tree: ast.AST | None, condition: ast.expr) -> str:
    """Return ``k1 = 8, k2 = 16``: names and attributes in a condition with their values; of a name
    that is true or false also what it was set to.
    """
    texts: dict[str, str] = {}
    for expression in _plain_expressions(condition):
        _add_value(call, expression, texts)
    for name in [node for node in ast.walk(condition) if isinstance(node, ast.Name)]:
        assigned = _assigned(tree, name.id, call)
        if assigned is None or not isinstance(call.names.get(name.id), bool):
            continue
        texts[name.id] = f"{name.id} = {call.names[name.id]}, from {ast.unparse(assigned)}"
        for expression in _plain_expressions(assigned):
            _add_value(call, expression, texts)
    return ", ".join(texts.values())


def _add_value(call: _Call, expression: ast.expr, texts: dict[str, str]) -> None:
    text = ast.unparse(expression)
    if text in texts:
        return
    try:
        code = compile(ast.Expression(expression), "<condition>", "eval")
        value = eval(code, dict(call.globals), call.names)
    except Exception:  # noqa: BLE001 - the name is not set there, or the attribute raises
        return
    if not callable(value) and not isinstance(value, _NOT_TOLD):
        texts[text] = f"{text} = {value_text(value)}"


_NOT_TOLD = (ModuleType, inductor_patterns.Match)


def _plain_expressions(expression: ast.expr) -> Iterator[ast.expr]:
    """Yield the names, attributes and items in an expression, the longest ones, without calls."""
    if _is_plain(expression):
        yield expression
        return
    for child in ast.iter_child_nodes(expression):
        if isinstance(child, ast.expr):
            yield from _plain_expressions(child)


def _is_plain(expression: ast.expr) -> bool:
    match expression:
        case ast.Name():
            return True
        case ast.Attribute(value=value):
            return _is_plain(value)
        case ast.Subscript(value=value, slice=ast.Constant()):
            return _is_plain(value)
        case _:
            return False


def _assigned(tree: ast.AST | None, name: str, call: _Call) -> ast.expr | None:
    """Return what a name was last set to above the line that returned."""
    if tree is None:
        return None
    first = _syntax_tree(call.code)[1]
    assigned = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or node.lineno + first - 1 > call.line:
            continue
        if any(isinstance(target, ast.Name) and target.id == name for target in node.targets):
            assigned = node.value
    return assigned


def value_text(value: object) -> str:
    """Return a value as it is told: of a node its name and what it holds, of a tensor its dtype and
    sizes.
    """
    if isinstance(value, torch.fx.Node):
        held = value.meta.get("val", value.meta.get("example_value"))
        return f"{value.name} {value_text(held)}" if held is not None else value.name
    if isinstance(value, torch.Tensor):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]".removeprefix("torch.")
    if callable(value) and not isinstance(value, type):
        return qualified_name(value)
    return _cut(repr(value))


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"
