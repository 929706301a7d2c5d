"""What torch calls a *source*, in the user's words: ``self.fc.weight`` for
``L['self']._modules['fc']._parameters['weight']``.

Sources are defined in torch/_dynamo/source.py, and the functions whose names begin with ``___`` in
torch/_dynamo/guards.py.
"""

from __future__ import annotations

import re

from fx_explorer.analysis.naming.functions import resumed_at
from fx_explorer.model import Compilation
from fx_explorer.torch_texts import LONGEST_LINE

_MEMBER = re.compile(
    r"\._(?:modules|parameters|buffers)\[['\"](\w+)['\"]\]|\.__dict__\[['\"](\w+)['\"]\]"
)

_KEYWORD = re.compile(r"(?<![\w.])(?:L\['kwargs'\]|kwargs)\['(\w+)'\]")
"""Matches an argument that the call names, where the function takes it with ``**kwargs``, as the
wrappers around every ``forward`` of transformers do: the call's name for it is the one that the
user knows.
"""

_KEY = re.compile(r"(?<!\w)[LG]\[['\"]([^'\"]+)['\"]\]")

_IMPORTED = re.compile(
    r"(?<!\w)__import_(?P<name>\w+)|__builtins_dict__\w*\['(?P<builtin>\w+)'\]|__builtins_dict__\w*"
)

_INSIDE = r"((?:[^()]|\([^()]*\))+)"
"""An expression whose brackets are nested once at most."""

_CALLS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(rf"object\.__getattribute__\({_INSIDE}, '(\w+)'\)"), r"\1.\2"),
    (re.compile(rf"dict\(type\({_INSIDE}\)\.__dict__\)\['(\w+)'\]"), r"type(\1).\2"),
    (re.compile(rf"list\(dict\.keys\({_INSIDE}\)\)\[(\d+)\]"), r"key \2 of \1"),
    (re.compile(rf"not ___dict_contains\(('[^']*'), {_INSIDE}\)"), r"\1 not in \2"),
    (re.compile(rf"___dict_contains\(('[^']*'), {_INSIDE}\)"), r"\1 in \2"),
    (re.compile(rf"___from_numpy\({_INSIDE}\)"), r"\1"),
    (
        re.compile(r"___get_torch_function_mode_stack_at\((\d+)\)"),
        r"the active __torch_function__ mode \1",
    ),
)

_STACK = re.compile(r"\b___stack\d+(?:\[\d+\])*")

_OTHER = re.compile(r"(?<!\w)___(\w+)\(")


def plain_source(source: str, of: Compilation | None = None) -> str:
    """Return ``self.fc.weight`` for ``L['self']._modules['fc']._parameters['weight']``, ``F.gelu``
    for ``G['F'].gelu``. ``of`` is the compilation that the source is of: see ``told_by_function``.
    """
    return told_by_function(plain_name(source), of)


def plain_name(source: str) -> str:
    """Return the same without what only the compilation knows: ``args[0]``, ``___stack0``. A source
    of more characters than torch writes stays as it is.
    """
    if len(source) > LONGEST_LINE:
        return source
    plain = _KEY.sub(r"\1", _KEYWORD.sub(r"\1", source))
    for pattern, words in _CALLS:
        plain = pattern.sub(words, plain)
    return _IMPORTED.sub(_imported, _MEMBER.sub(_member, plain))


def _member(found: re.Match[str]) -> str:
    return f".{found[1] or found[2]}"


def _imported(found: re.Match[str]) -> str:
    if found["name"]:
        return found["name"].replace("_dot_", ".")
    return found["builtin"] or "builtins"


def told_by_function(text: str, of: Compilation | None) -> str:
    """Put in what the compiled function knows: which name an argument has that a decorator only
    hands on (``input_ids`` for ``args[0]``), and where a value was computed that Python holds on
    its stack at a graph break, which has no name in the program
    (``the value computed at line 12``).
    """
    for source, name in ((of and of.argument_names) or {}).items():
        handed_on = plain_name(source)
        if handed_on in text:
            text = re.sub(
                rf"(?<![\w.]){re.escape(handed_on)}(?!\w)", name.replace("\\", r"\\"), text
            )
    line = resumed_at(of.function) if of else 0
    return _STACK.sub(
        f"the value computed at line {line}" if line else "a value of an unfinished expression",
        text,
    )


def is_unfinished(source: str) -> bool:
    """Return whether a source is such a value: no line of the program can name it."""
    return "___stack" in source


def plain_code(code: str, of: Compilation | None = None) -> str:
    """Return a condition with the program's names: ``size 0 of x < size 0 of y`` for
    ``L['x'].size()[0] < L['y'].size()[0]``, ``size 1 of the base of x`` where ``x`` is a view.
    """
    if len(code) > LONGEST_LINE:
        return code
    sizes = re.sub(r"([LG]\[[^ ()]+)\.size\(\)\[(\d+)\]", r"size \2 of \1", code)
    told = _OTHER.sub(r"\1(", plain_source(sizes, of))
    return re.sub(r"\bof ([\w.\[\]]+)\._base\b", r"of the base of \1", told)
