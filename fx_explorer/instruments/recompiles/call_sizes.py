"""This module finds which sizes differ between the calls of two compilations, as far as the session
has them: sizes that torch specialized on, and the size that the function was recompiled for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.naming import is_unfinished, plain_name, plain_source
from fx_explorer.instruments.recompiles.guard_changes import GuardChange
from fx_explorer.instruments.recompiles.reach import OutOfReach, out_of_reach
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import checked_tensors

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
        return CallSizes(became, fixed)
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
