"""The regular expressions of the package, and texts that take long where one is not linear.

``python -m tests.bad_input.patterns [LENGTH]`` lists the patterns that take longer than a linear one for such texts, which takes
minutes. What they are given is bounded where they are used (``torch_texts.bounded``), or has to be.
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fx_explorer import lexing

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import sre_parse

PACKAGE = Path(__file__).parents[2] / "fx_explorer"

FUNCTIONS = ("compile", "match", "fullmatch", "search", "sub", "subn", "findall", "finditer", "split")  # fmt: skip

ANYWHERE = ("search", "sub", "subn", "findall", "finditer", "split")
"""These begin anew at each place of a text; ``match`` and ``fullmatch`` begin at one."""

WITH_TORCH = ("capture", "worker", "stages", "precompile")
"""Folders whose modules import torch: what their patterns are is read from their syntax alone."""


@dataclass(frozen=True)
class Pattern:
    """A regular expression, and where it stands."""

    place: str
    name: str
    pattern: str | bytes
    flags: int
    is_searched: bool
    """Whether it is looked for at each place of a text."""

    def __str__(self) -> str:
        return f"{self.place} {self.name}"

    @property
    def compiled(self) -> re.Pattern[Any]:
        return re.compile(self.pattern, self.flags & ~re.DEBUG)


def patterns() -> list[Pattern]:
    """Return all that are known before a program runs."""
    found: dict[tuple[str | bytes, int, bool], Pattern] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        for pattern in _in_file(file):
            found.setdefault((pattern.pattern, pattern.flags, pattern.is_searched), pattern)
    return list(found.values())


def _in_file(file: Path) -> Iterator[Pattern]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    place = str(file.relative_to(PACKAGE.parent))
    uses = _uses(tree)
    for node in ast.walk(tree):
        if _is_call_of_re(node) and isinstance(node, ast.Call) and node.args:
            function = node.func.attr  # type: ignore[attr-defined]
            first = node.args[0]
            if function != "compile" and isinstance(first, ast.Constant):
                searched = function in ANYWHERE
                yield Pattern(f"{place}:{node.lineno}", function, first.value, 0, searched)
    if file.relative_to(PACKAGE).parts[0] in WITH_TORCH or "tui" in file.parts:
        for name, node in _compiled_by_name(tree):
            if isinstance(node.args[0], ast.Constant):
                flags = eval(ast.unparse(node.args[1]), {"re": re}) if node.args[1:] else 0
                value = node.args[0].value
                yield Pattern(
                    f"{place}:{node.lineno}", name, value, int(flags), _is_searched(name, uses)
                )
        return
    dotted = ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
    module = importlib.import_module(dotted.removesuffix(".__init__"))
    if module is lexing:
        for language in lexing.LANGUAGES:
            if rules := lexing.rules_of(language).pattern:
                yield Pattern(place, f"rules of {language}", rules.pattern, rules.flags, True)
    for name, value in vars(module).items():
        for compiled in _patterns_within(value):
            yield Pattern(place, name, compiled.pattern, compiled.flags, _is_searched(name, uses))


def _is_call_of_re(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in FUNCTIONS
    )


def _compiled_by_name(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value:
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            name = ast.unparse(targets[0])
            for node in ast.walk(statement.value):
                if isinstance(node, ast.Call) and _is_call_of_re(node):
                    yield name, node


def _uses(tree: ast.Module) -> dict[str, set[str]]:
    """Return name → methods that are called on it in a module."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, set()).add(node.attr)
    return found


def _is_searched(name: str, uses: dict[str, set[str]]) -> bool:
    """Return whether it may be looked for anywhere: also where nothing is known of its use."""
    methods = uses.get(name, set()) & {*FUNCTIONS}
    return not methods or bool(methods & {*ANYWHERE})


def _patterns_within(value: object, depth: int = 3) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif depth and isinstance(value, dict):
        for one in value.values():
            yield from _patterns_within(one, depth - 1)
    elif depth and isinstance(value, tuple | list):
        for one in value:
            yield from _patterns_within(one, depth - 1)


# what takes long


def attacks(pattern: Pattern, length: int) -> list[str | bytes]:
    """Return texts of a length: every repeated part of the pattern, and what comes before it, again and again."""
    flags = pattern.flags & ~(re.DEBUG | re.UNICODE | re.ASCII)
    tree = sre_parse.parse(pattern.pattern, flags)
    letters = _letters(tree)
    texts = {"": None}
    for letter in letters:
        texts[letter * length] = None
        for filler in letters:
            pieces = _pieces(tree, filler)
            for prefix, repeated in pieces:
                body = (repeated * length)[:length]
                texts[prefix + body] = None
                texts[prefix + body + letter] = None
                texts[body] = None
                if prefix:
                    texts[(prefix * length)[:length]] = None
                    texts[((prefix + repeated) * length)[:length]] = None
    if isinstance(pattern.pattern, bytes):
        return [text.encode("latin-1", "replace") for text in texts]
    return list(texts)


def _letters(tree: Any) -> list[str]:
    """Return some letters of the pattern, and some that stand for classes."""
    found: dict[str, None] = {}

    def add(items: Any) -> None:
        for operation, argument in items:
            if str(operation) == "LITERAL":
                found[chr(argument)] = None
            for part in argument if isinstance(argument, tuple | list) else ():
                if isinstance(part, sre_parse.SubPattern):
                    add(part)
                elif isinstance(part, tuple) and str(part[0]) == "LITERAL":
                    found[chr(part[1])] = None
                elif isinstance(part, list):
                    for one in part:
                        if isinstance(one, sre_parse.SubPattern):
                            add(one)

    add(tree)
    marks = [letter for letter in found if not letter.isalnum()][:8]
    return [*marks, *[letter for letter in found if letter.isalnum()][:2], "a", "1", " ", "\n", "A"]


def _pieces(tree: Any, filler: str) -> list[tuple[str, str]]:
    """Return (what matches before it, what is repeated) for each repetition that has no bound."""
    found: list[tuple[str, str]] = []
    _witness(tree, filler, "", found)
    return found


def _witness(items: Any, filler: str, before: str, found: list[tuple[str, str]]) -> str:
    """Return a text that the items may match."""
    text = ""
    for operation, argument in items:
        kind = str(operation)
        if kind == "LITERAL":
            text += chr(argument)
        elif kind == "NOT_LITERAL":
            text += filler if filler != chr(argument) else "a"
        elif kind == "ANY":
            text += filler
        elif kind == "IN":
            text += _of_class(argument, filler)
        elif kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            least, most, repeated = argument
            once = _witness(repeated, filler, before + text, found)
            if int(most) > 50 and once:
                found.append((before + text, once))
            text += once * max(1, min(int(least), 5))
        elif kind == "SUBPATTERN":
            text += _witness(argument[-1], filler, before + text, found)
        elif kind == "ATOMIC_GROUP":
            text += _witness(argument, filler, before + text, found)
        elif kind == "BRANCH":
            choices = [_witness(one, filler, before + text, found) for one in argument[1]]
            text += max(choices, key=len)
    return text


def _of_class(members: Any, filler: str) -> str:
    negated = any(str(operation) == "NEGATE" for operation, _ in members)
    literal, chosen = set(), ""
    for operation, argument in members:
        kind = str(operation)
        if kind == "LITERAL":
            literal.add(chr(argument))
            chosen = chosen or chr(argument)
        elif kind == "RANGE":
            literal.update(map(chr, range(argument[0], min(argument[1] + 1, argument[0] + 300))))
            chosen = chosen or chr(argument[0])
        elif kind == "CATEGORY":
            name = str(argument)
            inside = {"WORD": "a1_", "DIGIT": "1", "SPACE": " \n\t"}[name.rpartition("_")[2]]
            if "NOT" in name:
                inside = "".join(one for one in "a1 !" if one not in inside)
            literal.update(inside)
            chosen = chosen or inside[0]
    if negated:
        choices = (filler, "a", "1", " ", "!", "é", "\n", "\x00")
        return next(one for one in choices if one not in literal)
    return filler if filler in literal else chosen


TOO_LONG_S = 0.1


def slowest(pattern: Pattern, length: int) -> tuple[float, str | bytes]:
    """Return the seconds for the worst text, and that text."""
    compiled = pattern.compiled
    worst: tuple[float, str | bytes] = (0.0, "")
    for text in attacks(pattern, length):
        began = time.perf_counter()
        if pattern.is_searched:
            for _ in compiled.finditer(text):
                pass
        else:
            compiled.match(text)
            compiled.fullmatch(text)
        worst = max(worst, (time.perf_counter() - began, text), key=lambda one: one[0])
        if worst[0] > TOO_LONG_S:
            break
    return worst


if __name__ == "__main__":
    for each in patterns():
        took_s, text = slowest(each, int(sys.argv[1]) if sys.argv[1:] else 3000)
        if took_s > TOO_LONG_S / 2:
            print(
                f"{took_s:7.3f} s {each} {each.pattern!r}\n      {text[:50]!r} … {text[-12:]!r}",
                flush=True,
            )
