"""This module reads values of the compiler's options: it parses typed text, checks whether an
option accepts it, and writes values as in Python. It is pure.
"""

from __future__ import annotations

import ast
import difflib
import json
import warnings
from collections.abc import Iterable, Iterator, Sequence

from fx_explorer.model.rows.stepping import Setting
from fx_explorer.model.setting_types import choices_of, fits, is_plain, is_same, members

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
            f"{setting.full_name} holds a Python object and cannot be set from here; set it "
            "in your own program"
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
        return f"Python does not read this: {error.msg} (character {error.offset or 1})"
    except ValueError:
        return (
            "only plain values are taken: numbers, texts in quotes, True, False, None, lists "
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
