"""This module reads the types and values of the compiler's options: it parses typed text, checks
whether an option accepts it, and writes values as in Python. It is pure.

Types are type expressions of plain data, as text: ``bool``, ``int | None``, ``list[str]``,
``Literal['a', 'b']``. Values are what JSON can carry; a tuple travels as a list and becomes one
again in ``declared``.
"""

from __future__ import annotations

import ast
import difflib
import itertools
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from fx_explorer.model.rows.stepping import Setting

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


FEW = 8
"""Maximum number of allowed values that a message lists."""

_WORDS = {
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "list": "a list, such as [1, 2]",
    "tuple": "a list, such as [1, 2]",
    "dict": 'a dict, such as {"name": 1}',
    "Any": "plain data, such as True, 1.5 or [1, 2]",
}


def problem_of(setting: Setting, value: object) -> str:
    """Return why ``setting`` cannot have this value, and which it can; empty when it can."""
    if not setting.type:
        return (
            f"{setting.full_name} takes a Python object and cannot be set from here; set it in "
            "your own program"
        )
    if setting.choices:
        is_allowed = any(is_same(value, json.loads(choice)) for choice in setting.choices)
    else:
        is_allowed = fits(setting.type, value)
    if is_allowed:
        return ""
    return (
        f"{setting.full_name} takes {expected(setting)}, not {_shown(value)}{_hint(setting, value)}"
    )


def expected(setting: Setting) -> str:
    """Describe the values of ``setting``: ``a whole number or None``, ``"all" or "none"``."""
    if setting.choices:
        if len(setting.choices) <= FEW:
            return one_of(as_python(setting.choices))
        return f"one of {len(setting.choices)} names"
    return " or ".join(_describe_type(member) for member in members(setting.type))


def _describe_type(member: str) -> str:
    if member == "None":
        return "None"
    if member.startswith("Literal["):
        return one_of(as_python(choices_of(member)))
    return _WORDS.get(member, member)


def one_of(texts: Sequence[str]) -> str:
    """Join texts as ``a, b or c``."""
    *most, last = texts
    if not most:
        return last
    return f"{', '.join(most)} or {last}"


def _shown(value: object) -> str:
    text = python_text(value)
    if len(text) > 60:
        text = text[:59] + "…"
    if isinstance(value, str):
        return f"the text {text}"
    return text


def _hint(setting: Setting, value: object) -> str:
    near = difflib.get_close_matches(json.dumps(value, default=repr), setting.choices, n=2)
    if not near:
        return ""
    return f"; did you mean {one_of(as_python(near))}?"


def parse_value(setting: Setting, text: str) -> object:
    """Parse typed text as a value of ``setting``: Python (``True``, ``None``, ``'a'``, ``1e-3``),
    JSON, or a bare word for a text.

    The first reading that the option takes counts, so ``8`` is a number for one option and a text
    for another. Raises ValueError, with a message for people, when it takes none, or when a text,
    list or dict that was begun has no end.
    """
    unfinished = _unfinished(setting, text.strip())
    if unfinished:
        raise ValueError(f"{setting.full_name} takes {expected(setting)}; {unfinished}")
    readings = list(_readings(text.strip()))
    for reading in readings:
        if not problem_of(setting, reading):
            return reading
    raise ValueError(problem_of(setting, readings[0]))


def _unfinished(setting: Setting, text: str) -> str:
    """Return where a text in quotes, a list or a dict is not valid Python; empty for other text. A
    bare text may begin with a bracket if the option accepts any text.
    """
    if not text or not setting.type or text[0] not in _QUOTES + _BRACKETS:
        return ""
    if text[0] in _BRACKETS and not problem_of(setting, text):
        return ""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        # Not JSON, which is only one of the spellings.
        return _python_problem(text)
    return ""


_QUOTES = "\"'"
_BRACKETS = "[({"
"""First characters of values that are read as Python and not as a plain word."""


def _python_problem(text: str) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an odd escape in what is being typed
            ast.literal_eval(text)
    except SyntaxError as error:
        return f"Python cannot parse this: {error.msg} (character {error.offset or 1})"
    except ValueError:
        return (
            "only plain values are allowed: numbers, strings in quotes, True, False, None, lists "
            "and dicts"
        )
    except (RecursionError, MemoryError):
        return "this is nested too deeply"
    return ""


def _readings(text: str) -> Iterator[object]:
    """Yield the possible values of ``text``, the most literal first."""
    try:
        yield json.loads(text)
    except (ValueError, RecursionError):
        # Not JSON, which is only one of the spellings.
        yield from _python_readings(text)
    yield text


def _python_readings(text: str) -> Iterator[object]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an odd escape in what is being typed
            value = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return
    if is_plain(value):
        yield _as_json(value)


def _as_json(value: object) -> object:
    """Return a value with lists for tuples, as JSON has them."""
    if isinstance(value, dict):
        return {key: _as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return value


def python_text(value: object) -> str:
    """Return plain data as Python writes it, texts in double quotes: ``True``, ``None``, ``"all"``.
    ``parse_value`` is the inverse.
    """
    if isinstance(value, dict):
        pairs = [f"{python_text(key)}: {python_text(item)}" for key, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(python_text, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)


def as_python(values: Iterable[str]) -> list[str]:
    """Return a session's JSON values as Python writes them; invalid JSON is returned unchanged."""
    return [_as_python(value) for value in values]


def _as_python(value: str) -> str:
    try:
        return python_text(json.loads(value))
    except (ValueError, RecursionError):  # the file may be anybody's
        return value


def first_sentence(help_text: str) -> str:
    """Return the first sentence of torch's documentation of an option, without its period."""
    paragraph = " ".join(help_text.split("\n\n")[0].split())
    return paragraph.split(". ")[0].rstrip(".")
