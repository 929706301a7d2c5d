"""This module finds whether the user's code can reach a tensor before the compiled call, so that it
can mark it; if not, where the tensor is created.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeGuard

from fx_explorer import model
from fx_explorer.analysis.naming import function_resumed, is_unfinished, plain_source, resumed_at
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name

_LOCAL = re.compile(
    r"L\['(?P<name>\w+)'\](\.(?P<attribute>\w+)|\._(?:modules|buffers)\['(?P<kept>\w+)'\])?"
)
_TORCHS = re.compile(r"[/\\](site|dist)-packages[/\\]torch[/\\]|<frozen ")


@dataclass(frozen=True, slots=True)
class OutOfReach:
    """A tensor that no line of the user's holds before the call."""

    where: str
    """Describes where it is created: ``y is made inside work, at line 7``."""
    instead: str
    """What the user can do instead of marking the size."""


def out_of_reach(reader: SessionReader, source: str, of: model.Compilation) -> OutOfReach | None:
    """Return where the tensor of this source is created, if the user's code cannot reach it before
    the call; None where it can, or where that is not known.
    """
    match = _LOCAL.match(source)
    if match is None or is_unfinished(source):
        return None
    name, line = plain_source(source, of), resumed_at(of.function)
    frames = _frames(reader, of)
    if line:
        made_at = _line_made_at(reader, of, match["name"], line)
        if made_at:
            where = f"{name} is made inside {function_resumed(of.function)}, at line {made_at}"
            return OutOfReach(where, f"take away the graph break at line {line}")
        frames = frames[:-1]
    attribute = match["attribute"] or match["kept"]
    if attribute and (made_at := _assigned_at(reader, of, attribute)):
        function = function_resumed(of.function)
        return OutOfReach(
            f"{name} is created at each call inside {function}, at line {made_at}",
            "make it once, before the first call",
        )
    return _passed_by(reader, name, frames, of)


def _passed_by(
    reader: SessionReader, name: str, frames: list[model.Frame], of: model.Compilation
) -> OutOfReach | None:
    """Return the caller that passes an argument to the function, if that is not a line of the
    user's, or is a line within compiled code; None for any other argument.
    """
    callers = [frame for frame in frames if not _TORCHS.search(frame.file)]
    if not callers:
        return None
    users = {row.path for row in reader.rows(model.SourceFile) if row.is_user}
    caller = callers[-1]
    if caller.file not in users:
        below = ""
        users_frame = next((frame for frame in reversed(callers) if frame.file in users), None)
        if users_frame:
            below = f", below line {users_frame.line} of {file_name(users_frame.file)}"
        place = "/".join(PurePath(caller.file).parts[-3:])
        return OutOfReach(
            f"{name} is passed by {place}:{caller.line}, which is not your code{below}",
            "have it make tensors of one size (pad, or set one maximum length); a mark on what you "
            "give it holds only where that is passed on as it is",
        )
    own_name = function_resumed(of.function)
    compiled = set()
    for row in reader.rows(model.Compilation):
        name_of_row = function_resumed(row.function) if row.function else own_name
        if name_of_row != own_name:
            compiled.add((row.file, name_of_row.rpartition(".")[2]))
    passes = function_resumed(caller.function)
    if (caller.file, passes) in compiled:
        return OutOfReach(
            f"{name} is passed by {passes}, at line {caller.line}, which is compiled too",
            f"take away the graph breaks of {passes}",
        )
    return None


def _frames(reader: SessionReader, of: model.Compilation) -> list[model.Frame]:
    stacks = reader.by_ids(model.Stack, [of.stack]) if of.stack else []
    return list(stacks[0].frames) if stacks else []


def _line_made_at(reader: SessionReader, of: model.Compilation, name: str, line: int) -> int:
    """Return the last line before ``line`` at which the enclosing function binds the name; 0 for an
    argument, or where that is not known.
    """
    functions = [function for function in _functions(reader, of) if _has_line(function, line)]
    if not functions:
        return 0
    innermost = max(functions, key=lambda function: function.lineno)
    stores = [node for node in ast.walk(innermost) if _binds(node, name)]
    return max((store.lineno for store in stores if store.lineno <= line), default=0)


def _has_line(function: ast.FunctionDef | ast.AsyncFunctionDef, line: int) -> bool:
    return function.lineno <= line <= (function.end_lineno or 0)


def _binds(node: ast.AST, name: str) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)


def _sets_attribute(node: ast.AST, attribute: str) -> TypeGuard[ast.Attribute]:
    """Say whether a node is ``NAME.ATTRIBUTE`` on the left of an assignment."""
    if not isinstance(node, ast.Attribute) or node.attr != attribute:
        return False
    return isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)


def _assigned_at(reader: SessionReader, of: model.Compilation, attribute: str) -> int:
    """Return the line at which the compiled function assigns ``self.ATTRIBUTE``; 0 where it does
    not.
    """
    line = resumed_at(of.function) or of.line
    for function in _functions(reader, of):
        if not _has_line(function, line):
            continue
        for node in ast.walk(function):
            if _sets_attribute(node, attribute):
                return node.lineno
    return 0


def _functions(
    reader: SessionReader, of: model.Compilation
) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    row = next(iter(reader.rows(model.SourceFile, path=of.file)), None)
    text = reader.text(row.text) if row and row.text else ""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # a file that was changed or damaged: nothing is known of it
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
