"""These helpers list the regular expressions of the package, and texts that take long for an
expression that is not linear.

``python -m tests.bad_input.patterns`` lists the patterns that take longer than a linear one for
such texts, and how long they take for 4,000 characters: what they are given is bounded where they
are used (``torch_texts.bounded``), or has to be.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import re
import signal
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fx_explorer import highlight

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import sre_parse

PACKAGE = Path(__file__).parents[2] / "fx_explorer"

FUNCTIONS = ("compile", "match", "fullmatch", "search", "sub", "subn", "findall", "finditer", "split")  # fmt: skip

ANYWHERE = ("search", "sub", "subn", "findall", "finditer", "split")
"""Methods that try a match at each position of a text; ``match`` and ``fullmatch`` try only one."""

READ = {"capture", "worker", "program", "measure", "stages", "precompile", "tui"}
"""Folders whose modules import torch or draw: their patterns are read from the syntax alone,
without an import.
"""


@dataclass(frozen=True)
class Pattern:
    """A Pattern is a regular expression and the place where it is written."""

    place: str
    name: str
    pattern: str | bytes
    flags: int
    is_searched: bool
    """Whether it is looked for at each place of a text."""

    def __str__(self) -> str:
        return f"{self.place} {self.name}"

    @property
    def key(self) -> str:
        """Return its module within the package and its name, without the line number."""
        return f"{self.place.partition('.py')[0].partition('/')[2]} {self.name}"

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
    if not READ.isdisjoint(file.relative_to(PACKAGE).parts[:-1]):
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
    if module is highlight:
        for language in highlight.LANGUAGES:
            if rules := highlight.rules_of(language).pattern:
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
    """Return name → methods called on it in a module, also through other names for the same
    pattern.
    """
    called: dict[str, set[str]] = {}
    named: list[tuple[str, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            called.setdefault(node.value.id, set()).add(node.attr)
        elif isinstance(node, ast.For | ast.comprehension):
            named += [(one, of) for of in _names(node.iter) for one in _names(node.target)]
        elif isinstance(node, ast.Assign):
            named += [(one, of) for of in _names(node.value) for one in _names(node.targets[0])]
    found = {name: set(methods) for name, methods in called.items()}
    for one, of in named:
        found.setdefault(of, set()).update(called.get(one, ()))
    return found


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _is_searched(name: str, uses: dict[str, set[str]]) -> bool:
    """Return whether the pattern may be searched anywhere in a text; also if its use is unknown."""
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


@dataclass(frozen=True)
class Attack:
    """An Attack makes a text of any length that mostly repeats one piece."""

    before: str
    repeated: str
    after: str = ""

    def text(self, length: int, of: Pattern) -> str | bytes:
        text = self.before + (self.repeated * length)[:length] + self.after
        return text.encode("latin-1", "replace") if isinstance(of.pattern, bytes) else text


def attacks(pattern: Pattern) -> list[Attack]:
    """Return an attack for every repeated part of the pattern, with or without the part before it,
    with an end that may not match.
    """
    flags = pattern.flags & ~(re.DEBUG | re.UNICODE | re.ASCII)
    tree = sre_parse.parse(pattern.pattern, flags)
    letters = _letters(tree)
    found: dict[Attack, None] = {}
    for letter in letters:
        found[Attack("", letter)] = None
    for filler in letters:
        for prefix, repeated in _pieces(tree, filler):
            found[Attack("", repeated)] = None
            found[Attack(prefix, repeated)] = None
            found[Attack("", prefix + repeated)] = None
            if prefix:
                found[Attack("", prefix)] = None
            for letter in letters:
                found[Attack(prefix, repeated, letter)] = None
    return list(found)


def _letters(tree: Any) -> list[str]:
    """Return some letters of the pattern, and some letters for its character classes."""
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
    """Return (text that matches the part before, repeated text) for each repetition without a
    bound.
    """
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


LONGEST_S = 1.0
"""Most processor seconds for 100,000 characters. A linear pattern takes hundredths, any other takes
ten and more.
"""

SHORT, LONG = 400, 100_000
"""Characters: of the texts that are ranked, and of those that a pattern is held to."""


def ends_in_time(pattern: Pattern, text: str | bytes, limit_s: float = LONGEST_S) -> bool:
    """Look for a pattern in a text, for so many seconds of the processor at most."""
    try:
        with _limited(limit_s):
            _look(pattern, pattern.compiled, text)
    except _TooLongError:
        return False
    return True


def _look(pattern: Pattern, compiled: re.Pattern[Any], text: str | bytes) -> None:
    if pattern.is_searched:
        for _ in compiled.finditer(text):
            pass
    else:
        compiled.match(text)
        compiled.fullmatch(text)


class _TooLongError(BaseException):
    """The timer of a search has ended. re looks for signals while it searches."""


@contextlib.contextmanager
def _limited(limit_s: float) -> Iterator[None]:
    def ended(*_: object) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGVTALRM, ended)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def slowest(pattern: Pattern, count: int = 2) -> list[Attack]:
    """Return the attacks that take longest while they are short."""
    ranked: list[tuple[float, Attack]] = []
    compiled = pattern.compiled
    try:
        with _limited(LONGEST_S):
            for attack in attacks(pattern):
                text = attack.text(SHORT, pattern)
                began = time.process_time()
                _look(pattern, compiled, text)
                ranked.append((time.process_time() - began, attack))
    except _TooLongError:
        return [attack]
    ranked.sort(key=lambda timed: timed[0], reverse=True)
    return [attack for _, attack in ranked[:count]]


def main() -> None:
    """List the patterns that are not linear, with the longest time for a text of 4,000 characters."""
    for pattern in patterns():
        for attack in slowest(pattern):
            if ends_in_time(pattern, attack.text(LONG, pattern)):
                continue
            limits_s = (0.03, 0.1, 0.3, 1.0, 3.0)
            text = attack.text(4_000, pattern)
            ended = next((one for one in limits_s if ends_in_time(pattern, text, one)), None)
            print(f"{pattern.key}: {ended} s, {pattern.pattern!r}\n      {attack}", flush=True)
            break


if __name__ == "__main__":
    main()
