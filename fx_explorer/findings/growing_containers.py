"""Lists and dictionaries that a compiled function fills, and that it has longer in each call: their
length is compiled in, so the function is recompiled for each.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator, Sequence

from fx_explorer.findings.finding import Remedy
from fx_explorer.findings.source_lines import SourceLines
from fx_explorer.instruments.recompiles.causes import ExplainedRecompile

_LENGTH = re.compile(r"^(?:(?:list|dict|set|deque|OrderedDict|defaultdict) of )?(?P<length>\d+)$")
"""Matches how a container is described (capture/recording/described.py), and a bare length."""

_FILLING = ("append", "appendleft", "extend", "insert", "add", "update", "setdefault")
"""Methods of containers that make them longer."""

GROWS = (
    "The function fills it, so it is longer in each call. Compiled code is valid for one length "
    "only."
)

NO_LIMIT_SUFFICES = (
    "A higher limit only allows more lengths; it is reached as well if the container keeps growing."
)


def is_filled_inside(lines: SourceLines, group: Sequence[ExplainedRecompile]) -> bool:
    """Return whether the recompiles are those of a container that the compiled function fills, and
    that had more elements each time.
    """
    change = group[0].change
    # Other changes than of a length may have numbers that are none.
    is_of_container = change.kind == "length" or " of " in change.new
    if not is_of_container or not _has_grown(group):
        return False
    return _fills(lines, group[0])


def _has_grown(group: Sequence[ExplainedRecompile]) -> bool:
    lengths = []
    for recompile in group:
        match = _LENGTH.match(recompile.change.new)
        if match is None:
            return False
        lengths.append(int(match["length"]))
    begins = _LENGTH.match(group[0].change.old)
    if begins:
        lengths.insert(0, int(begins["length"]))
    pairs = itertools.pairwise(lengths)
    return len(lengths) > 1 and all(later > earlier for earlier, later in pairs)


def _fills(lines: SourceLines, recompile: ExplainedRecompile) -> bool:
    """Return whether the code fills the container: on the line that depends on its length, or
    under the same name in the function around that line.
    """
    tree = lines.tree(recompile.file)
    if tree is None or not recompile.line:
        return False
    name = _last_name(recompile.change.name)
    for node in ast.walk(_function_around(tree, recompile.line)):
        for filled in _filled_by(node):
            is_on_the_line = _has_line(filled, recompile.line)
            if is_on_the_line or _last_name(ast.unparse(filled)) == name:
                return True
    return False


def _function_around(tree: ast.Module, line: int) -> ast.AST:
    """Return the innermost function that has a line; the whole file where none has it."""
    innermost: ast.AST = tree
    for node in ast.walk(tree):  # outer ones come first
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _has_line(node, line):
            innermost = node
    return innermost


def _has_line(node: ast.stmt | ast.expr, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _filled_by(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the containers that a call or a statement makes longer."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _FILLING:
            yield node.func.value
    elif isinstance(node, ast.Assign):
        yield from (row.value for row in node.targets if isinstance(row, ast.Subscript))
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add | ast.BitOr):
        yield node.target


def _last_name(path: str) -> str:
    """Return ``_data`` of ``bag._data``."""
    return path.rpartition(".")[2]


def fill_outside(recompile: ExplainedRecompile) -> Remedy:
    """Return how to keep the growth out of what is compiled."""
    return Remedy(
        f"Fill {recompile.change.name} outside of the compiled function: return the values, and "
        "store them in the caller."
    )
