"""This module finds the names that an expression or a function reads and binds, and whether it has
no side effects.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from functools import lru_cache

import libcst as cst
from libcst.helpers import get_full_name_for_node

from fx_explorer.source_edit.code import Code

_CHANGING = frozenset(
    [
        "append",
        "extend",
        "insert",
        "pop",
        "popitem",
        "remove",
        "clear",
        "update",
        "add",
        "discard",
        "setdefault",
        "sort",
        "reverse",
        "write",
        "writelines",
        "backward",
        "step",
    ]
)
"""Names of methods that modify their object."""

_ACTING = frozenset(
    [
        "print",
        "open",
        "input",
        "exec",
        "eval",
        "setattr",
        "delattr",
        "next",
        "globals",
        "breakpoint",
    ]
)


def is_pure(expression: cst.CSTNode) -> bool:
    """Return whether an expression has no side effects, according to its text, so that it may be
    evaluated needlessly.
    """
    return not any(_acts(node) for node in walk(expression))


def _acts(node: cst.CSTNode) -> bool:
    if isinstance(node, cst.NamedExpr | cst.Yield | cst.Await):
        return True
    if not isinstance(node, cst.Call):
        return False
    name = (get_full_name_for_node(node.func) or "").rpartition(".")[2]
    is_in_place = name.endswith("_") and not name.endswith("__")
    return (
        is_in_place
        or name in _ACTING
        or (isinstance(node.func, cst.Attribute) and name in _CHANGING)
    )


def walk(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    waiting = [node]
    while waiting:
        cstnode = waiting.pop()
        yield cstnode
        waiting.extend(reversed(_children(cstnode)))


@lru_cache(maxsize=20_000)
def _children(node: cst.CSTNode) -> tuple[cst.CSTNode, ...]:
    """Return the children. libcst finds them by a visit, each time; a file is walked through for
    every cause of breaks.
    """
    return tuple(node.children)


def read(node: cst.CSTNode) -> list[str]:
    """Return the names that the expression reads, each once, in order; without attributes,
    keywords, and names that it binds itself.
    """
    bound: set[str] = set()
    for inner in walk(node):
        if isinstance(inner, cst.CompFor):
            bound |= bound_by(inner.target)
        if isinstance(inner, cst.Lambda):
            bound |= {param.name.value for param in inner.params.params}
    return list(dict.fromkeys(name for name in _read(node) if name not in bound))


def _read(node: cst.CSTNode) -> Iterator[str]:
    return (name.value for name in _names_read(node))


def _names_read(node: cst.CSTNode) -> Iterator[cst.Name]:
    if isinstance(node, cst.Name):
        yield node
    elif isinstance(node, cst.Attribute | cst.Arg):
        yield from _names_read(node.value)
    elif not (isinstance(node, cst.AssignTarget) and bound_by(node.target)):
        for child in node.children:
            yield from _names_read(child)


def bound_by(target: cst.CSTNode) -> set[str]:
    """Return the names that an assignment to ``target`` binds."""
    if isinstance(target, cst.Name):
        return {target.value}
    names: set[str] = set()
    if isinstance(target, cst.Tuple | cst.List):
        for element in target.elements:
            names |= bound_by(element.value)
    return names


def locals_of(function: cst.FunctionDef) -> set[str]:
    """Return the parameters, and every name bound in the function's body."""
    names = set(parameters(function))
    declared: set[str] = set()
    for inner in walk(function.body):
        if isinstance(inner, cst.Global):
            declared |= {item.name.value for item in inner.names}
        if isinstance(inner, cst.CompFor):
            names |= bound_by(inner.target)
        else:
            names |= _bound_here(inner)
    return names - declared


def _bound_here(node: cst.CSTNode) -> set[str]:
    """Return the names that this statement or expression itself binds."""
    names: set[str] = set()
    if isinstance(node, cst.Assign):
        for target in node.targets:
            names |= bound_by(target.target)
        return names
    if isinstance(node, cst.AugAssign | cst.AnnAssign | cst.For | cst.NamedExpr):
        return bound_by(node.target)
    if isinstance(node, cst.AsName):
        return bound_by(node.name)
    if isinstance(node, cst.Import | cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
        for alias in node.names:
            names.add(alias.evaluated_alias or alias.evaluated_name.partition(".")[0])
        return names
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        return {node.name.value}
    return names


def bound_in(node: cst.CSTNode) -> list[str]:
    """Return the names that the statements inside bind, each once, in the order in which they first
    do.
    """
    names: dict[str, None] = {}
    for inner in walk(node):
        names |= dict.fromkeys(sorted(_bound_here(inner)))
    return list(names)


def read_after(code: Code, statement: cst.CSTNode) -> set[str]:
    """Return the names that the function reads after the statement; in a loop also those that are
    read before it.
    """
    function = code.function(statement)
    first, last = code.lines(statement)
    if function is None:
        return set()
    around = code.around(statement, cst.For) or code.around(statement, cst.While)
    begin = code.lines(around)[0] if around else last
    names = set()
    for name in _names_read(function.body):
        line = code.lines(name)[0]
        if line >= begin and not first <= line <= last:
            names.add(name.value)
    return names


def locals_read(code: Code, expression: cst.CSTNode) -> list[str]:
    """Return the names of the function around the expression that the expression reads."""
    function = code.function(expression)
    known = locals_of(function) if function else set()
    return [name for name in read(expression) if name in known]


def annotation_of(code: Code, expression: cst.CSTNode, name: str) -> str:
    """Return ``int``, ``float``, ``bool`` or ``str`` if the enclosing function's parameter has that
    annotation.
    """
    function = code.function(expression)
    params = function.params.params if function else ()
    for param in params:
        if param.name.value != name or not param.annotation:
            continue
        annotation = param.annotation.annotation
        if isinstance(annotation, cst.Name):
            declared = annotation.value
            if declared in ("int", "float", "bool", "str"):
                return declared
            return ""
    return ""


def is_declared_plain(code: Code, expression: cst.CSTNode, name: str) -> bool:
    """Return whether the parameter of this name is a number or text, by its annotation or its
    default.
    """
    function = code.function(expression)
    if function:
        defaults = {param.name.value: param.default for param in function.params.params}
    else:
        defaults = {}
    return bool(annotation_of(code, expression, name)) or isinstance(
        defaults.get(name), cst.BaseNumber | cst.BaseString
    )


def new_name(code: Code, wanted: str) -> str:
    """Return ``wanted``, or ``wanted`` with a number appended, so that it is a new name in the
    file.
    """
    used = {node.value for node in code.all(cst.Name)} | set(dir(builtins))
    name, number = wanted, 1
    while name in used:
        number += 1
        name = f"{wanted}_{number}"
    return name


def bound_before(code: Code, statement: cst.CSTNode) -> set[str]:
    """Return the names of the function around the statement that have a value when it is reached,
    as far as the order of lines shows.
    """
    function = code.function(statement)
    if function is None:
        return set()
    line = code.lines(statement)[0]
    bound = set(parameters(function))
    for node in walk(function.body):
        if _ends_before(code, node, line):
            bound |= _bound_here(node)
    return bound


def _ends_before(code: Code, node: cst.CSTNode, line: int) -> bool:
    return isinstance(node, cst.BaseSmallStatement | cst.For) and code.lines(node)[0] < line


def parameters(function: cst.FunctionDef) -> list[str]:
    params = function.params
    named = [
        *params.posonly_params,
        *params.params,
        *params.kwonly_params,
        params.star_arg,
        params.star_kwarg,
    ]
    return [param.name.value for param in named if isinstance(param, cst.Param)]
