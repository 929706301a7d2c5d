"""What in a session is the user's own: names, texts and numbers that the program's files define,
and lines of any source; and which words are PyTorch's.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from fx_explorer import model
from fx_explorer.session.reader import SessionReader

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@cache
def torch_words() -> frozenset[str]:
    """Return the words of PyTorch's own names and messages, in lower case."""
    lines = Path(__file__).with_name("torch_words.txt").read_text().splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))


@cache
def has_known_parts(word: str) -> bool:
    """Return whether all parts of a name are words of PyTorch's; single letters are."""
    if not word.isascii():
        return False
    words = torch_words()
    return all(len(part) == 1 or part.lower() in words for part in _PARTS.findall(word))


def in_user_files(reader: SessionReader, find: Callable[[str], Iterator[str]]) -> frozenset[str]:
    """Return what is found in the sources of the user's own files."""
    found: set[str] = set()
    for file in reader.rows(model.SourceFile, is_user=True):
        found.update(find(reader.text(file.text)))
    return frozenset(found)


def lines_of_sources(reader: SessionReader) -> frozenset[str]:
    """Return the lines of all source files, without spaces around them."""
    lines: set[str] = set()
    for file in reader.rows(model.SourceFile):
        lines.update(line.strip() for line in reader.text(file.text).splitlines())
    return frozenset(line for line in lines if len(line) >= SHORTEST_LINE)


SHORTEST_LINE = 4
"""Least number of characters of a line that is recognised as source: ``)`` and ``or`` are not."""


def names_defined_in(source: str) -> Iterator[str]:
    """Yield the names of functions, classes, arguments, variables and attributes that a program
    defines; all its words where it cannot be parsed.
    """
    tree = _parsed(source)
    if tree is None:
        yield from (word for word in re.findall(r"\w+", source) if word not in _NO_NAMES)
        return
    for node in ast.walk(tree):
        for name in _names_of(node):
            if name not in _NO_NAMES and not (name.startswith("__") and name.endswith("__")):
                yield name


def texts_in(source: str) -> Iterator[str]:
    """Yield the text constants of a program: those that are not a single word of PyTorch's."""
    tree = _parsed(source)
    if tree is None:
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        if not (node.value.isidentifier() and has_known_parts(node.value)):
            yield node.value


def numbers_in(source: str) -> Iterator[str]:
    """Yield the whole numbers of a program that have more than one digit."""
    tree = _parsed(source)
    if tree is None:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 9:
            yield str(node.value)


def sizes_of_tensors(reader: SessionReader) -> set[str]:
    """Return the numbers that are sizes or strides in a graph, and have to stay."""
    sizes: set[str] = set()
    for node in reader.rows(model.Node):
        sizes.update(node.shape or ())
        sizes.update(node.stride or ())
    return sizes


def _parsed(source: str) -> ast.Module | None:
    """Return the tree of a program; None where it cannot be parsed."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _names_of(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.arg(arg=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.alias(name=name, asname=asname):
            if asname:
                yield asname
            elif not name.startswith("torch"):
                yield from name.split(".")


_NO_NAMES = {*keyword.kwlist, "self", "cls", "forward", "backward", "args", "kwargs", "torch"}
"""Names that say nothing of a program."""
