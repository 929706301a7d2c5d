"""What a program's source says of results of torch.compile that are never called, and of modules
whose compiled call is gone past.
"""

from __future__ import annotations

import ast
import linecache

import torch

from fx_explorer.capture.recording.sources import CallSite


def result_never_called(place: CallSite) -> str:
    """Return why the result of the torch.compile call at ``place`` is never called, according to
    the source: it is discarded, or bound to a name that is nowhere called or passed on. A module
    that was compiled in place has no result; its compiled call may be gone past. Empty if the
    source does not show it.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(place.file)))
    except (SyntaxError, ValueError, RecursionError):
        return ""
    scope: ast.AST = tree
    statement: ast.stmt | None = None
    for node in ast.walk(tree):  # outer nodes come first
        if isinstance(node, ast.stmt) and node.lineno <= place.line <= (node.end_lineno or 0):
            statement = node
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                scope = node
    if isinstance(statement, ast.Expr) and _is_in_place(statement.value):
        return IN_PLACE + _goes_past(tree)
    if isinstance(statement, ast.Expr) and _is_compile_call(statement.value):
        return "whose result is thrown away"
    if not isinstance(statement, ast.Assign) or not _is_compile_call(statement.value):
        return ""
    target = statement.targets[0]
    if len(statement.targets) != 1 or not isinstance(target, ast.Name):
        return ""
    # Attributes of a class are reached through its objects.
    if isinstance(scope, ast.ClassDef) or _is_handed_on(scope, target.id, statement):
        return ""
    kind = "the name" if scope is tree else "the local name"
    methods = _methods_called(scope, target.id) if target.id != "self" else []
    if methods:
        method, line = methods[0]
        return (
            f"whose result is bound to {kind} {target.id}; line {line} calls {target.id}.{method}, "
            "a method of the original module, which runs in eager mode"
        )
    return f"whose result is bound to {kind} {target.id} and never called"


IN_PLACE = "compiled in place"
"""Beginning of the reason for a module on which ``compile()`` was called."""

_OF_ANY_MODULE = frozenset(dir(torch.nn.Module))


def _is_in_place(value: ast.expr) -> bool:
    """Return whether the value is ``module.compile(…)``."""
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
        return False
    return value.func.attr == "compile" and ast.unparse(value.func.value) not in ("torch", "re")


def _goes_past(tree: ast.Module) -> str:
    """Return which line calls a module's ``forward`` itself, and so goes past what was compiled in
    place; empty where none does.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called_on = ast.unparse(node.func.value)
        if node.func.attr == "forward" and not called_on.startswith("super("):
            return f"; line {node.lineno} calls {called_on}.forward(…) in place of {called_on}(…)"
    return ""


def _methods_called(scope: ast.AST, name: str) -> list[tuple[str, int]]:
    """Return (method, line) of the methods that are called on a name, without those that every
    module has.
    """
    called = []
    for node in ast.walk(scope):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        is_of_name = isinstance(node.func.value, ast.Name) and node.func.value.id == name
        if is_of_name and node.func.attr not in _OF_ANY_MODULE:
            called.append((node.func.attr, node.lineno))
    return sorted(called, key=lambda method: method[1])


def _is_compile_call(value: ast.expr) -> bool:
    """Return whether the value is the result of ``torch.compile(…)``, and not a decorator."""
    if not isinstance(value, ast.Call) or not value.args:
        return False
    return ast.unparse(value.func).split(".")[-1] == "compile"


def _is_handed_on(scope: ast.AST, name: str, binding: ast.stmt) -> bool:
    """Return whether ``name`` is used after the binding other than for an attribute that is not
    ``forward``.
    """
    asked = set()
    reads = []
    for node in ast.walk(scope):
        if isinstance(node, ast.Global | ast.Nonlocal):
            return True
        if isinstance(node, ast.Attribute) and node.attr not in ("forward", "__call__"):
            asked.add(id(node.value))
        elif isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            reads.append(node)
    last_line = binding.end_lineno or binding.lineno
    for read in reads:
        is_in_binding = binding.lineno <= read.lineno <= last_line
        if id(read) not in asked and not is_in_binding:
            return True
    return False
