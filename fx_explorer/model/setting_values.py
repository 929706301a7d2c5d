"""Values of the compiler's options: what a person types, and whether an option takes it. Pure."""

from __future__ import annotations

import ast
import difflib
import json
import warnings
from collections.abc import Iterator, Sequence

from fx_explorer.model.rows.stepping import Setting
from fx_explorer.model.setting_types import choices_of, fits, is_plain, is_same, members

FEW = 8
"""This many allowed values are listed in a message."""

_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "list": "a list, such as [1, 2]",
    "tuple": "a list, such as [1, 2]",
    "dict": 'a dict, such as {"name": 1}',
    "Any": "plain data, written as JSON",
}


def problem_of(setting: Setting, value: object) -> str:
    """Say why ``setting`` cannot have this value, and what it can have; empty when it can."""
    if not setting.type:
        return f"{setting.full_name} holds a Python object and cannot be set from here; set it in your own program"
    if setting.choices:
        is_allowed = any(is_same(value, json.loads(choice)) for choice in setting.choices)
    else:
        is_allowed = fits(setting.type, value)
    if is_allowed:
        return ""
    return f"{setting.full_name} takes {expected(setting)}, not {_shown(value)}{_hint(setting, value)}"


def expected(setting: Setting) -> str:
    """Say what ``setting`` takes, for people: ``a whole number or null``, ``"all" or "none"``."""
    if setting.choices:
        return one_of(setting.choices) if len(setting.choices) <= FEW else f"one of {len(setting.choices)} names"
    return " or ".join(_in_words(member) for member in members(setting.type))


def _in_words(member: str) -> str:
    if member == "None":
        return "null"
    return one_of(choices_of(member)) if member.startswith("Literal[") else _WORDS.get(member, member)


def one_of(texts: Sequence[str]) -> str:
    """Join texts as ``a, b or c``."""
    *most, last = texts
    return f"{', '.join(most)} or {last}" if most else last


def _shown(value: object) -> str:
    text = json.dumps(value, default=repr, ensure_ascii=False)
    text = text if len(text) <= 60 else text[:59] + "…"
    return f"the text {text}" if isinstance(value, str) else text


def _hint(setting: Setting, value: object) -> str:
    near = difflib.get_close_matches(json.dumps(value, default=repr), setting.choices, n=2)
    return f"; did you mean {one_of(near)}?" if near else ""


def parse_value(setting: Setting, text: str) -> object:
    """Parse what a person typed as a value of ``setting``: JSON, Python (``True``, ``None``,
    ``'a'``) or a bare word for a text.

    The first reading that the option takes counts, so ``8`` is a number for one option and a text
    for another. Raises ValueError, with a message for people, when it takes none.
    """
    readings = list(_readings(text.strip()))
    for reading in readings:
        if not problem_of(setting, reading):
            return reading
    raise ValueError(problem_of(setting, readings[0]))


def _readings(text: str) -> Iterator[object]:
    """Yield what ``text`` may mean, the most literal first."""
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
        return {key: _as_json(one) for key, one in value.items()}
    return [_as_json(one) for one in value] if isinstance(value, list | tuple) else value


def text_of(setting: Setting, value: object) -> str:
    """Return how to type ``value``, so that parse_value gives it back: a text is without its quotes
    where that is clear.
    """
    if isinstance(value, str) and value and value == value.strip() and next(_readings(value), None) == value:
        return value
    return json.dumps(value, ensure_ascii=False)
