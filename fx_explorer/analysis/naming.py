"""This module finds the user's names of everything that torch.compile renames: functions, sources
of guards and dynamic sizes. ``input_names.py`` names the inputs of graphs.

Sources are defined in torch/_dynamo/source.py, and the functions whose names begin with ``___`` in
torch/_dynamo/guards.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from fx_explorer import model
from fx_explorer.model import Compilation
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file
from fx_explorer.torch_texts import LONGEST_LINE

RESUME = "torch_dynamo_resume_in_"

_RESUME_AT = re.compile(rf"{RESUME}\w*?_at_(?P<line>\d+)$")

LAMBDA = "<lambda>"


def plain_function(function: str) -> str:
    """Return ``rest of forward after line 12`` for ``torch_dynamo_resume_in_forward_at_12``, and
    ``a lambda in Net.__init__`` for ``Net.__init__.<locals>.<lambda>``.
    """
    line = resumed_at(function)
    resumed = function_resumed(function)
    if line:
        return f"rest of {resumed} after line {line}"
    return resumed


def function_resumed(function: str) -> str:
    """Return the function that a resume function is a part of, and any other function itself."""
    prefix, _, rest = function.rpartition(RESUME)
    name, at, _ = rest.rpartition("_at_")
    if at and (prefix or function.startswith(RESUME)):
        return _plain_lambda(f"{prefix}{name}")
    return _plain_lambda(function)


_DECORATED = re.compile(r"(?P<inner>[^\s()]+) \([^()]*\)$")


def called_function(function: str) -> str:
    """Return the function as it is written in a sentence: ``Net.forward()``, also inside a
    decorator (``Net.forward (no_grad)``); a name that is not a function gets no brackets.
    """
    decorated = _DECORATED.match(function)
    inner = decorated["inner"] if decorated else function
    text = plain_function(inner)
    return text if " " in text else f"{text}()"


GENERATED = "__create_fn__.<locals>."
"""The scope in which the methods are defined that ``dataclasses`` writes (CPython's
Lib/dataclasses.py, ``_create_fn``).
"""


def _plain_lambda(function: str) -> str:
    if function.startswith(GENERATED):
        return f"the {function.removeprefix(GENERATED)} of a dataclass"
    around, _, name = function.rpartition(".")
    # torch writes ``_lambda_`` where the name has to be an identifier.
    if name not in (LAMBDA, "_lambda_"):
        return function
    around = around.removesuffix(".<locals>")
    return f"a lambda in {around}" if around else "a lambda"


def function_of(compilation: model.Compilation) -> str:
    """Return the user's name of the compiled function. A lambda has no name, so that its place
    identifies it.
    """
    text = plain_function(compilation.function)
    if text.startswith("a lambda"):
        return f"{text} at {in_file(compilation.file, compilation.line)}"
    return text


def is_method(function: str) -> bool:
    """Return whether a qualified name is that of a method: ``Net.forward``, not
    ``f.<locals>.g``.
    """
    owner = function.partition(" (")[0].rpartition(".")[0].rpartition(".")[2]
    return owner not in ("", "<locals>")


def resumed_at(function: str) -> int:
    """Return the line at which a rest of a function continues; 0 for any other function."""
    match = _RESUME_AT.search(function[-LONGEST_LINE:])
    return int(match["line"]) if match else 0


_MEMBER = re.compile(
    r"\._(?:modules|parameters|buffers)\[['\"](\w+)['\"]\]|\.__dict__\[['\"](\w+)['\"]\]"
)

_KEYWORD = re.compile(r"(?<![\w.])(?:L\['kwargs'\]|kwargs)\['(\w+)'\]")
"""Matches an argument that the call passes by name to ``**kwargs``, as for the wrappers around
every ``forward`` of transformers: the user knows it by this name.
"""

_KEY = re.compile(r"(?<!\w)[LG]\[['\"]([^'\"]+)['\"]\]")

_IMPORTED = re.compile(
    r"(?<!\w)__import_(?P<name>\w+)|__builtins_dict__\w*\['(?P<builtin>\w+)'\]|__builtins_dict__\w*"
)

_INSIDE = r"((?:[^()]|\([^()]*\))+)"
"""Matches an expression whose brackets are nested at most once."""

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
    for ``G['F'].gelu``. ``of`` is the compilation that the source is of: see
    ``with_names_of_function``.
    """
    return with_names_of_function(plain_name(source), of)


def plain_name(source: str) -> str:
    """Return a source without names that exist only in the compilation: ``args[0]``, ``___stack0``.
    A source longer than torch's is unchanged.
    """
    if len(source) > LONGEST_LINE:
        return source
    plain = _KEY.sub(r"\1", _KEYWORD.sub(r"\1", source))
    for pattern, words in _CALLS:
        plain = pattern.sub(words, plain)
    return _IMPORTED.sub(_imported, _MEMBER.sub(_member, plain))


def _member(match: re.Match[str]) -> str:
    return f".{match[1] or match[2]}"


def _imported(match: re.Match[str]) -> str:
    if match["name"]:
        return match["name"].replace("_dot_", ".")
    return match["builtin"] or "builtins"


def with_names_of_function(text: str, of: Compilation | None) -> str:
    """Replace names that only the compiled function explains: of an argument that a decorator
    passes on (``input_ids`` for ``args[0]``), and of a value that Python holds on its stack at a
    graph break, which has no name in the program (``the value computed at line 12``).
    """
    for source, name in ((of and of.argument_names) or {}).items():
        handed_on = plain_name(source)
        if handed_on in text:
            pattern = rf"(?<![\w.]){re.escape(handed_on)}(?!\w)"
            text = re.sub(pattern, name.replace("\\", r"\\"), text)
    line = resumed_at(of.function) if of else 0
    if line:
        value = f"the value computed at line {line}"
    else:
        value = "a value of an unfinished expression"
    return _STACK.sub(value, text)


def is_unfinished(source: str) -> bool:
    """Return whether a source is a value on Python's stack at a graph break, which has no name in
    the program.
    """
    return "___stack" in source


def plain_code(code: str, of: Compilation | None = None) -> str:
    """Return a condition with the program's names: ``size 0 of x < size 0 of y`` for
    ``L['x'].size()[0] < L['y'].size()[0]``, ``size 1 of the base of x`` where ``x`` is a view.
    """
    if len(code) > LONGEST_LINE:
        return code
    sizes = re.sub(r"([LG]\[[^ ()]+)\.size\(\)\[(\d+)\]", r"size \2 of \1", code)
    text = _OTHER.sub(r"\1(", plain_source(sizes, of))
    return re.sub(r"\bof ([\w.\[\]]+)\._base\b", r"of the base of \1", text)


_SYMBOL = re.compile(r"(?<![\w.])(?:s|u|zf|zuf|zs)\d+\b")

_SIZE_OF = re.compile(r"(?P<tensor>.*)\.(?P<what>size|stride)\(\)\[(?P<index>\d+)\]$")


class SizeNames:
    """Finds the user's expression for each symbol of a compilation. The symbols are read once."""

    def __init__(self, reader: SessionReader, only: Sequence[int] | None = None) -> None:
        """``only`` has the compilations whose symbols are needed; None means all."""
        if only is None:
            compilations = reader.rows(model.Compilation)
        else:
            compilations = reader.by_ids(model.Compilation, only)
        self._compilations = {row.id: row for row in compilations}
        symbols = list(_symbols(reader, only))
        lines = _lines(reader, symbols)
        # Dynamo's last attempt stands last, and counts.
        self._names: dict[tuple[int, str], str] = {}
        for row in symbols:
            compilation = self.compilation(row.compilation)
            name = size_name(row, compilation, lines.get(row.stack, 0))
            self._names[row.compilation, row.name] = name

    def of(self, compilation: int, symbol: str) -> str:
        """Return the name of a symbol; torch's for a symbol that is not in the session."""
        return self._names.get((compilation, symbol), symbol)

    def compilation(self, number: int) -> model.Compilation | None:
        """Return the compilation of that number; None if it is not in the session."""
        return self._compilations.get(number)

    def in_text(self, compilation: int, text: str) -> str:
        """Return ``8*input_ids.size(0)`` for ``8*s72``, also within a longer text."""
        return _SYMBOL.sub(lambda match: self.of(compilation, match[0]), text)


def _symbols(reader: SessionReader, only: Sequence[int] | None) -> Iterator[model.Symbol]:
    if only is None:
        yield from reader.rows(model.Symbol)
        return
    for compilation in only:
        yield from reader.rows(model.Symbol, compilation=compilation)


def has_symbols(text: str) -> bool:
    """Return whether a text has names of torch's for sizes."""
    return _SYMBOL.search(text) is not None


def size_name(symbol: model.Symbol, of: model.Compilation | None = None, line: int = 0) -> str:
    """Return ``x.size(0)``, the name of a number, or the place where the program computes it.
    ``line`` is the line at which torch created the symbol.
    """
    if not symbol.source:
        if line:
            return f"‹computed at line {line}›"
        return "‹computed by the program›"
    match = _SIZE_OF.match(symbol.source)
    if match is None:
        return _bracketed(plain_source(symbol.source, of))
    return f"{_bracketed(plain_source(match['tensor'], of))}.{match['what']}({match['index']})"


def _bracketed(name: str) -> str:
    """Set words apart from the expression that they stand in."""
    if " " not in name:
        return name
    return f"‹{name.removeprefix('the ')}›"


def _lines(reader: SessionReader, symbols: Sequence[model.Symbol]) -> dict[int, int]:
    """Return the innermost line of each stack at which a size without a source was created."""
    numbers = {row.stack for row in symbols if row.stack and not row.source}
    stacks = reader.by_ids(model.Stack, numbers)
    return {stack.id: stack.frames[-1].line for stack in stacks if stack.frames}
