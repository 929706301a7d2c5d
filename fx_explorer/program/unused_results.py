"""What a program's source says of results of torch.compile that are never called, and of modules
whose compiled call is gone past.
"""

from __future__ import annotations

import ast
import linecache
import re
import sys
from typing import TypeGuard

import torch

from fx_explorer.capture.recording.sources import CallSite
from fx_explorer.program.place import is_users_file


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
    if len(statement.targets) != 1:
        return ""
    if isinstance(target, ast.Attribute):
        return _attribute_never_read(tree, target)
    if not isinstance(target, ast.Name) or isinstance(scope, ast.ClassDef):
        return ""  # attributes of a class are reached through its objects
    return _name_never_called(tree, scope, statement, target.id)


def _name_never_called(tree: ast.Module, scope: ast.AST, binding: ast.stmt, name: str) -> str:
    """Return that the result is bound to a name that is nowhere called or passed on; empty where it
    is.
    """
    if _is_handed_on(scope, name, binding):
        return ""
    kind = "the name" if scope is tree else "the local name"
    methods = _methods_called(scope, name) if name != "self" else []
    if methods:
        method, line = methods[0]
        return (
            f"whose result is bound to {kind} {name}; line {line} calls {name}.{method}, "
            "a method of the original module, which runs in eager mode"
        )
    parameter = f", a parameter of {scope.name}," if _is_parameter(scope, name) else ""
    return f"whose result is bound to {kind} {name}{parameter} and never called"


def _is_parameter(scope: ast.AST, name: str) -> TypeGuard[ast.FunctionDef]:
    """Return whether the scope is a function, and the name one of its parameters but ``self``."""
    if not isinstance(scope, ast.FunctionDef) or name == "self":
        return False
    return any(isinstance(node, ast.arg) and node.arg == name for node in ast.walk(scope.args))


def _attribute_never_read(tree: ast.Module, target: ast.Attribute) -> str:
    """Return that the result is bound to an attribute that no file of the user's reads; empty where
    one does, or where the attribute replaces the method that was compiled: a framework may call it.
    """
    attribute = target.attr
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == attribute and node is not target:
            return ""
    if attribute in dir(torch.nn.Module) or _is_named_in(attribute):
        return ""
    return f"whose result is bound to the attribute {ast.unparse(target)} and never called"


def _is_named_in(attribute: str) -> bool:
    """Return whether a file of the user's reads an attribute, or has its name as a string."""
    reads = re.compile(rf"""\.{attribute}\b(?!\s*=[^=])|["']{attribute}["']""")
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or not file.endswith(".py") or not is_users_file(file):
            continue
        if reads.search("".join(linecache.getlines(file))):
            return True
    return False


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
            return f"; line {node.lineno} calls {called_on}.forward(…) instead of {called_on}(…)"
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
