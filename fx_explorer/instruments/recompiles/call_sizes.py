"""This module finds which sizes differ between the calls of two compilations, as far as the session
has them: sizes that torch specialized on, and the size that the function was recompiled for. It
also finds whether the user's code can reach a tensor before the compiled call, so that it can mark
its sizes; if not, where the tensor is created.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TypeGuard

from fx_explorer import model
from fx_explorer.analysis.naming import (
    function_resumed,
    is_unfinished,
    plain_name,
    plain_source,
    resumed_at,
)
from fx_explorer.instruments.recompiles.guard_changes import GuardChange
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import file_name
from fx_explorer.session.queries.compilations import checked_tensors

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
            return OutOfReach(where, f"avoid the graph break at line {line}")
        frames = frames[:-1]
    attribute = match["attribute"] or match["kept"]
    if attribute and (made_at := _assigned_at(reader, of, attribute)):
        function = function_resumed(of.function)
        return OutOfReach(
            f"{name} is created at each call inside {function}, at line {made_at}",
            "create it once, before the first call",
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
            "make it return tensors of one size (pad, or set one maximum length); a mark on the "
            "tensor you pass works only if it is passed on unchanged",
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
            f"avoid the graph breaks of {passes}",
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


Dimension = tuple[str, int]
"""A tensor's name and which of its sizes: ``("x", 0)``."""

_SHAPE = re.compile(r"^\w+\[(?P<sizes>[\d, ]*)\]$")


@dataclass(frozen=True, slots=True)
class CallSizes:
    """The sizes of the two calls, as far as a session has them."""

    became_dynamic: bool = False
    """Whether torch made the size or number a symbol at the recompile."""
    is_specialized: bool = False
    """Whether the size was symbolic at first and was specialized by the code."""
    varied: tuple[Dimension, ...] = ()
    """All sizes of inputs that were fixed in the compiled code and differed in the call that did
    not fit.
    """
    alike: tuple[Dimension, ...] = ()
    """Sizes that were equal to this one in the compiled call and are not any more."""
    beyond: OutOfReach | None = None
    """Where a tensor is created that would have to be marked, but that the user's code cannot reach
    before the call.
    """
    decided: tuple[str, ...] = ()
    """The conditions that the code of the recompile sets for the number alone: ``flag != 0``."""
    is_decided_otherwise: bool = False
    """Whether the first number does not meet one of them, so that each side needs a compilation."""


def sizes_then(
    reader: SessionReader,
    change: GuardChange,
    before: model.Compilation | None,
    after: model.Compilation | None,
) -> CallSizes:
    """Return how the sizes of two compilations differ, and what torch did with the size that caused
    the recompile; empty for other changes.
    """
    if before is None or after is None or change.kind not in ("size", "number"):
        return CallSizes()
    source = _source(change)
    made = {symbol.source: symbol for symbol in reader.rows(model.Symbol, compilation=after.id)}
    source_of_symbol = source
    if change.kind == "size":
        source_of_symbol = f"{source}.size()[{change.index}]"
    symbol = made.get(source_of_symbol)
    became = symbol is not None and not symbol.became
    fixed = symbol is not None and symbol.became.isdecimal()
    if change.kind == "number":
        conditions = _conditions_on(reader, source, after)
        decided = tuple(text.replace(source, change.name) for text in conditions)
        otherwise = any(_is_not_met(text, source, change.old) for text in conditions)
        return CallSizes(became, fixed, decided=decided, is_decided_otherwise=otherwise)
    beyond = out_of_reach(reader, source, before)
    then, now = _sizes(reader, before.id), _sizes(reader, after.id)
    varied = _varied(reader, before, then, now)
    alike = _alike((source, change.index or 0), then, now)
    others = (out_of_reach(reader, name, before) for name, _ in varied if name != source)
    return CallSizes(
        became,
        fixed,
        _named(varied, before),
        _named(alike, before),
        beyond or next(filter(None, others), None),
    )


def _conditions_on(reader: SessionReader, source: str, of: model.Compilation) -> list[str]:
    """Return the conditions of a compilation's guard on symbols that mention this source only."""
    conditions = []
    for guard in reader.rows(model.Guard, compilation=of.id):
        if guard.kind != "SHAPE_ENV":
            continue
        for text in guard.code.split(" and "):
            rest = text.replace(source, "")
            if source in text and "[" not in rest and _is_comparison(text):
                conditions.append(text.strip())
    return conditions


NOT_PARSED = (SyntaxError, ValueError, RecursionError, MemoryError)
"""Errors of parsing a text of a session, which may be anybody's."""


def _is_comparison(text: str) -> bool:
    try:
        return isinstance(ast.parse(text.strip(), mode="eval").body, ast.Compare)
    except NOT_PARSED:
        return False


_COMPARED: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


_COMPUTED: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def _is_not_met(condition: str, source: str, value: str) -> bool:
    """Return whether a comparison is false for the value; False where this is not known."""
    try:
        compared = ast.parse(condition.replace(source, f"({value})"), mode="eval").body
        if not isinstance(compared, ast.Compare):
            return False
        numbers = [_number(side) for side in (compared.left, *compared.comparators)]
        pairs = zip(compared.ops, numbers, numbers[1:], strict=False)
        return not all(_COMPARED[type(by)](left, right) for by, left, right in pairs)
    except (*NOT_PARSED, LookupError, ArithmeticError, TypeError):
        return False


def _number(node: ast.expr) -> float:
    """Return the value of a computation with constants. It raises where that is something else."""
    if isinstance(node, ast.BinOp):
        return _COMPUTED[type(node.op)](_number(node.left), _number(node.right))
    number = ast.literal_eval(node)
    if not isinstance(number, int | float):
        raise ValueError(f"not a number: {number!r}")
    return number


def sizes_that_varied(
    reader: SessionReader, before: model.Compilation, after: model.Compilation
) -> list[Dimension]:
    """Return the sizes that differ between the calls of two compilations, that were constants in
    the first and that a mark would make dynamic, by torch's name of the tensor.
    """
    return _varied(reader, before, _sizes(reader, before.id), _sizes(reader, after.id))


def _varied(
    reader: SessionReader,
    before: model.Compilation,
    then: dict[Dimension, int],
    now: dict[Dimension, int],
) -> list[Dimension]:
    symbols = reader.rows(model.Symbol, compilation=before.id)
    dynamic = {symbol.source for symbol in symbols if not symbol.became}
    varied = []
    for dimension, size in then.items():
        name, index = dimension
        size_now = now.get(dimension, size)
        if size_now == size or f"{name}.size()[{index}]" in dynamic:
            continue
        if _can_be_marked(name, size, size_now):
            varied.append(dimension)
    return varied


def _named(sizes: Iterable[Dimension], of: model.Compilation) -> tuple[Dimension, ...]:
    """Return sizes with the program's names, or torch's name for a value without one."""
    named = []
    for source, index in sizes:
        name = plain_name(source) if is_unfinished(source) else plain_source(source, of)
        named.append((name, index))
    return tuple(named)


def _alike(
    here: Dimension, then: dict[Dimension, int], now: dict[Dimension, int]
) -> list[Dimension]:
    """Return the sizes that were equal in the compiled call and differ now. torch assumes that
    equal sizes stay equal (duck shaping); 0, 1 and sizes of parameters are constants.
    """
    if here not in then or here not in now:
        return []
    size_then, size_now = then[here], now[here]
    alike = []
    for dimension, size in then.items():
        if dimension == here or size != size_then:
            continue
        differs_now = now.get(dimension, size_then) != size_now
        if differs_now and _can_be_marked(dimension[0], size, size):
            alike.append(dimension)
    return alike


def _can_be_marked(source: str, *sizes: int) -> bool:
    return not {0, 1} & set(sizes) and "_parameters[" not in source and "_buffers[" not in source


def _sizes(reader: SessionReader, compilation: int) -> dict[Dimension, int]:
    """Return the sizes of a compilation's example inputs, by torch's name of the tensor."""
    sizes: dict[Dimension, int] = {}
    for source, value in checked_tensors(reader, compilation):
        shape = _SHAPE.match(value or "")
        if not shape or not shape["sizes"]:
            continue
        for index, text in enumerate(shape["sizes"].split(", ")):
            sizes[source, index] = int(text)
    return sizes


def _source(change: GuardChange) -> str:
    if change.source.startswith(("L[", "G[")):
        return change.source
    if change.where == "global":
        return global_source(change.name)
    return local_source(change.name)


def local_source(name: str) -> str:
    """Return ``L['batch']['ids']`` for ``batch['ids']``, where torch's report has no source."""
    return re.sub(r"^\w+", lambda first: f"L['{first[0]}']", name)


def global_source(name: str) -> str:
    return re.sub(r"^\w+", lambda first: f"G['{first[0]}']", name)
