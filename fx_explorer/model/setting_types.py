"""This module reads the types of the compiler's options: type expressions of plain data, as text.
Pure.

``bool``, ``int | None``, ``list[str]``, ``Literal['a', 'b']``. Values are what JSON can carry; a
tuple travels as a list and becomes one again in ``declared``.
"""

from __future__ import annotations

import ast
import itertools
import json
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

_NAMES = {
    "bool": "bool",
    "int": "int",
    "float": "float",
    "str": "str",
    "list": "list",
    "List": "list",
    "tuple": "tuple",
    "Tuple": "tuple",
    "dict": "dict",
    "Dict": "dict",
    "Any": "Any",
    "NoneType": "None",
}
"""Names in annotations → the names of a Setting's type."""

_CONTAINERS: dict[str, tuple[type, ...]] = {
    "list": (list,),
    "tuple": (list, tuple),
    "dict": (dict,),
    "Any": (object,),
}


def plain_type(annotation: str) -> str:
    """Return the part of a type annotation for plain data: members of a union that are not plain
    (functions, classes) are left out. Empty if only None is left, or if ``annotation`` is not a
    type expression.
    """
    try:
        members = _members(ast.parse(annotation, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    if set(members) <= {"None"}:
        return ""
    return _union(members)


def _union(texts: Sequence[str]) -> str:
    return " | ".join(dict.fromkeys(texts))


def _members(node: ast.expr) -> list[str]:
    """Return the plain members of the union that ``node`` is."""
    if isinstance(node, ast.Constant):
        return ["None"] if node.value is None else []
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _members(node.left) + _members(node.right)
    if isinstance(node, ast.Subscript):
        return _generic(_last_name(node.value), _arguments(node))
    name = _NAMES.get(_last_name(node))
    return [name] if name else []


def _generic(name: str, arguments: Sequence[ast.expr]) -> list[str]:
    if name in ("Optional", "Union"):
        members = list(itertools.chain.from_iterable(map(_members, arguments)))
        if name == "Optional":
            members.append("None")
        return members
    if name == "Literal":
        return [f"Literal[{', '.join(ast.unparse(argument) for argument in arguments)}]"]
    name = _NAMES.get(name, "")
    inner = [_argument(argument) for argument in arguments]
    if name not in ("list", "tuple", "dict") or not all(inner):
        return []
    if name == "dict" and inner[0] != "str":
        return []
    return [f"{name}[{', '.join(inner)}]"]


def _argument(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and node.value is ...:
        return "..."
    return _union(_members(node))


# what a type allows


@lru_cache(maxsize=1024)
def choices_of(type_text: str) -> tuple[str, ...]:
    """Return, as JSON, every value that a type allows; empty if there are too many."""
    if not type_text:
        return ()
    choices: list[str] = []
    for member in _union_of(_tree(type_text)):
        values = _closed(member)
        if not values:
            return ()
        choices += values
    return tuple(dict.fromkeys(choices))


def _closed(member: ast.expr) -> list[str]:
    if isinstance(member, ast.Constant):
        return ["null"]
    if isinstance(member, ast.Subscript) and _last_name(member.value) == "Literal":
        return [json.dumps(value) for value in _literals(member)]
    if _last_name(member) == "bool":
        return ["true", "false"]
    return []


def _literals(node: ast.Subscript) -> list[object]:
    return [ast.literal_eval(argument) for argument in _arguments(node)]


def members(type_text: str) -> list[str]:
    """Return the members of a union: ``int`` and ``None`` for ``int | None``."""
    return [ast.unparse(member) for member in _union_of(_tree(type_text))]


def fits(type_text: str, value: object) -> bool:
    """Return whether ``value`` is plain data of this type. A bool is no number; a whole number is a
    float.
    """
    return bool(type_text) and _fits(_tree(type_text), value)


def _fits(node: ast.expr, value: object) -> bool:
    if isinstance(node, ast.BinOp):
        return _fits(node.left, value) or _fits(node.right, value)
    if isinstance(node, ast.Constant):
        return value is None
    if isinstance(node, ast.Subscript):
        return _fits_generic(node, value)
    return _fits_name(_last_name(node), value)


def _fits_name(name: str, value: object) -> bool:
    if name == "bool":
        return isinstance(value, bool)
    if name == "str":
        return isinstance(value, str)
    if name in ("int", "float"):
        # A bool is an int to Python, and torch would take True for 1 without a word.
        if isinstance(value, bool):
            return False
        if isinstance(value, int):
            return True
        return name == "float" and isinstance(value, float) and math.isfinite(value)
    return isinstance(value, _CONTAINERS[name]) and is_plain(value)


def _fits_generic(node: ast.Subscript, value: object) -> bool:
    name, arguments = _last_name(node.value), _arguments(node)
    if name == "Literal":
        return any(is_same(value, allowed) for allowed in _literals(node))
    if name == "dict":
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            return False
        return all(_fits(arguments[1], item) for item in value.values())
    if name == "list":
        return isinstance(value, list) and all(_fits(arguments[0], item) for item in value)
    if not isinstance(value, list | tuple):
        return False
    wanted = _tuple_arguments(arguments, len(value))
    if len(wanted) != len(value):
        return False
    return all(_fits(expression, item) for expression, item in zip(wanted, value, strict=True))


def _tuple_arguments(arguments: list[ast.expr], length: int) -> list[ast.expr]:
    """Return the element types of a tuple; ``tuple[int, ...]`` gives as many as there are
    values.
    """
    last = arguments[-1]
    if isinstance(last, ast.Constant) and last.value is ...:
        return [arguments[0]] * length
    return arguments


def is_same(value: object, allowed: object) -> bool:
    """Return whether two values are equal, and not as True equals 1."""
    return type(value) is type(allowed) and value == allowed


def is_plain(value: object) -> bool:
    """Return whether JSON can carry ``value`` (a tuple as a list)."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    return (
        value is None
        or isinstance(value, bool | int | str)
        or (isinstance(value, float) and math.isfinite(value))
    )


# as Python has it


def declared(type_text: str, value: object) -> object:
    """Return ``value`` as the Python object of its type: with tuples where the type says so."""
    return _declared(_tree(type_text), value)


def _declared(node: ast.expr, value: object) -> object:
    if isinstance(node, ast.BinOp):
        # The first member that fits decides, since a value says nothing of which one was meant.
        member = node.left if _fits(node.left, value) else node.right
        return _declared(member, value)
    if isinstance(node, ast.Subscript):
        return _declared_generic(_last_name(node.value), _arguments(node), value)
    if _last_name(node) == "tuple" and isinstance(value, list):
        return tuple(value)
    return value


def _declared_generic(name: str, arguments: list[ast.expr], value: object) -> object:
    if name == "dict" and isinstance(value, dict):
        return {key: _declared(arguments[1], item) for key, item in value.items()}
    if name == "list" and isinstance(value, list):
        return [_declared(arguments[0], item) for item in value]
    if name == "tuple" and isinstance(value, list | tuple):
        pairs = zip(_tuple_arguments(arguments, len(value)), value, strict=True)
        return tuple(_declared(expression, item) for expression, item in pairs)
    return value


# type expressions


@lru_cache(maxsize=1024)
def _tree(type_text: str) -> ast.expr:
    return ast.parse(type_text, mode="eval").body


def _union_of(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp):
        yield from _union_of(node.left)
        yield from _union_of(node.right)
    else:
        yield node


def _last_name(node: ast.expr) -> str:
    """Return the last name of a type: ``Any`` for ``typing.Any``."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return ""


def _arguments(node: ast.Subscript) -> list[ast.expr]:
    if not isinstance(node.slice, ast.Tuple):
        return [node.slice]
    return list(node.slice.elts)
