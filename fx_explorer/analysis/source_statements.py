"""This module lists the statements of a source file with the functions they are in, so that each
line of a function can be said to be compiled or not. It parses text, and runs nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_WITHOUT_OWN_LINE = (*_FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Global)


@dataclass(frozen=True, slots=True)
class SourceFunction:
    """A function of a file: its lines, decorators included."""

    name: str
    """Qualified, without ``<locals>``: ``Net.forward``, ``outer.inner``."""
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement in a function. Of ``if``, ``for`` and ``with`` only the line that heads it."""

    first: int
    last: int
    function: SourceFunction


def statements(text: str) -> list[Statement]:
    """Return the statements of all functions of a file, in order; none for a text that does not
    parse. Definitions, imports, docstrings and ``pass`` are left out: nothing of them is compiled.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    listed = []
    pending: list[tuple[ast.stmt, str, SourceFunction | None]]
    pending = [(statement, "", None) for statement in reversed(tree.body)]
    while pending:
        node, prefix, function = pending.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            name = f"{prefix}{node.name}"
            prefix = f"{name}."
            if isinstance(node, _FUNCTIONS):
                function = SourceFunction(name, _first_line(node), node.end_lineno or node.lineno)
        if function and not _computes_nothing(node):
            listed.append(Statement(node.lineno, _last_of_head(node), function))
        below = list(_statements_in(node))
        pending += [(statement, prefix, function) for statement in reversed(below)]
    return listed


def _first_line(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Return the line that Python gives a function: that of its first decorator."""
    decorators = [decorator.lineno for decorator in function.decorator_list]
    return min([function.lineno, *decorators])


def _computes_nothing(node: ast.stmt) -> bool:
    if isinstance(node, (*_WITHOUT_OWN_LINE, ast.Nonlocal, ast.Pass, ast.Try)):
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _statements_in(node: ast.stmt) -> Iterator[ast.stmt]:
    """Yield the statements in the blocks of a statement, in order."""
    for block in ("body", "handlers", "cases", "orelse", "finalbody"):
        for part in getattr(node, block, ()):
            if isinstance(part, ast.stmt):
                yield part
            else:  # an except or a case
                yield from part.body


def _last_of_head(node: ast.stmt) -> int:
    """Return the last line of a statement without the blocks in it."""
    below = [statement.lineno for statement in _statements_in(node)]
    last = node.end_lineno or node.lineno
    if below:
        return max(node.lineno, min(min(below) - 1, last))
    return last
