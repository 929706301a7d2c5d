"""This module finds which sizes differ between the calls of two compilations, as a session has
them: those that torch took for constants, and what became of the one that was recompiled for.
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
    """Whether torch made the size or number a symbol when it compiled again."""
    is_specialized: bool = False
    """Whether torch made it a symbol first, and the code turned that into a constant."""
    varied: tuple[Dimension, ...] = ()
    """All sizes of inputs that were fixed in the compiled code and differed in the call that did
    not fit.
    """
    alike: tuple[Dimension, ...] = ()
    """Sizes that were equal to this one in the compiled call and differ from it now."""
    beyond: OutOfReach | None = None
    """Where a tensor is made that would have to be marked, and that the user's code does not hold
    before the call.
    """


def sizes_then(
    reader: SessionReader,
    change: GuardChange,
    before: model.Compilation | None,
    after: model.Compilation | None,
) -> CallSizes:
    """Return how the sizes of two compilations differ, and what happened to the size that was
    recompiled for; empty for other changes.
    """
    if before is None or after is None or change.kind not in ("size", "number"):
        return CallSizes()
    source = _source(change)
    made = {symbol.source: symbol for symbol in reader.rows(model.Symbol, compilation=after.id)}
    symbol = made.get(source if change.kind == "number" else f"{source}.size()[{change.index}]")
    became, fixed = (
        symbol is not None and not symbol.became,
        symbol is not None and symbol.became.isdecimal(),
    )
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
    """Return the sizes that differ between the calls of two compilations, that the first one took
    for constants and a mark makes variable, by torch's name of the tensor.
    """
    return _varied(reader, before, _sizes(reader, before.id), _sizes(reader, after.id))


def _varied(
    reader: SessionReader,
    before: model.Compilation,
    then: dict[Dimension, int],
    now: dict[Dimension, int],
) -> list[Dimension]:
    free = {
        symbol.source
        for symbol in reader.rows(model.Symbol, compilation=before.id)
        if not symbol.became
    }
    differing = [
        size
        for size in then
        if now.get(size, then[size]) != then[size] and f"{size[0]}.size()[{size[1]}]" not in free
    ]
    return [size for size in differing if _can_be_marked(size[0], then[size], now[size])]


def _named(sizes: Iterable[Dimension], of: model.Compilation) -> tuple[Dimension, ...]:
    """Return sizes with the program's names; torch's for a value that has none."""
    return tuple(
        (plain_name(name) if is_unfinished(name) else plain_source(name, of), index)
        for name, index in sizes
    )


def _alike(
    here: Dimension, then: dict[Dimension, int], now: dict[Dimension, int]
) -> list[Dimension]:
    """Return the sizes that were equal then and differ now. torch takes equal sizes for one (duck
    shaping); 0, 1 and sizes of parameters are constants.
    """
    if here not in then or here not in now:
        return []
    equal = [
        size
        for size in then
        if size != here
        and then[size] == then[here]
        and _can_be_marked(size[0], then[size], then[size])
    ]
    return [size for size in equal if now.get(size, then[here]) != now[here]]


def _can_be_marked(source: str, *sizes: int) -> bool:
    return not {0, 1} & set(sizes) and "_parameters[" not in source and "_buffers[" not in source


def _sizes(reader: SessionReader, compilation: int) -> dict[Dimension, int]:
    """Return the sizes of a compilation's example inputs, by torch's name of the tensor."""
    found: dict[Dimension, int] = {}
    for source, value in checked_tensors(reader, compilation):
        shape = _SHAPE.match(value or "")
        for index, text in enumerate(
            shape["sizes"].split(", ") if shape and shape["sizes"] else ()
        ):
            found[source, index] = int(text)
    return found


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
