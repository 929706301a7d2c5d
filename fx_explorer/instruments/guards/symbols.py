"""This module explains dynamic sizes: where each comes from, what was decided about it and where,
and the guards it causes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fx_explorer import model
from fx_explorer.analysis.documents import Place, place_of_path
from fx_explorer.analysis.naming import SizeNames, plain_code
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names, user_paths


@dataclass(frozen=True, slots=True)
class ExplainedSymbol:
    symbol: model.Symbol
    compilation: str
    comes_from: str
    """The source, such as ``size 0 of x``; empty for a size computed by a kernel (``.item()``,
    ``nonzero``).
    """
    name: str
    """The size in the program's words: ``x.size(0)``, or the line that computes it if it is not the
    size of an input.
    """
    made_at: tuple[str, int]
    place: Place | None
    events: tuple[model.SymbolEvent, ...]
    guards: tuple[model.GuardCheck, ...]
    """The relations between sizes that mention it."""
    became: str = ""
    """The constant that it was specialized to, or the size that equals it."""
    of: model.Compilation | None = None
    """The compilation that has this dynamic size."""
    stack: tuple[model.Frame, ...] = ()
    """Frames of the user's code where it was specialized, outermost first; for a dynamic size,
    where it was created.
    """

    @property
    def state(self) -> str:
        """Describe whether the size is dynamic, and in which range, or what it was specialized
        to.
        """
        symbol = self.symbol
        if symbol.became:
            words = "specialized to" if symbol.became.lstrip("-").isdigit() else "always"
            return f"{words} {self.became}"
        if not symbol.final_range:
            return "not known: Dynamo did not finish"
        reach = plain_range(symbol.final_range)
        if not symbol.source:
            return f"computed by a kernel, {reach}"
        return f"free, {reach}"

    @property
    def is_of_given_up_attempt(self) -> bool:
        """Return whether Dynamo began the compilation again after a graph with this size had been
        compiled: it is shown, and counted nowhere.
        """
        return self.of is not None and self.of.status == "restarted"

    @property
    def specialized(self) -> model.SymbolEvent | None:
        return next((event for event in self.events if event.kind == "specialized"), None)


def symbols(reader: SessionReader, compilation: int | None = None) -> list[ExplainedSymbol]:
    """Return the symbols of Dynamo's last attempt at each compilation, and of attempts with a row
    of their own, in the order of their creation.
    """
    only = {} if compilation is None else {"compilation": compilation}
    rows = reader.rows(model.Symbol, **only)
    last: dict[int, int] = {}
    for row in rows:
        last[row.compilation] = max(row.attempt, last.get(row.compilation, 0))
    names = compilation_names(reader)
    every_event = reader.rows(model.SymbolEvent, **only)
    events = [event for event in every_event if event.attempt == last.get(event.compilation, 0)]
    relations = reader.rows(model.GuardCheck, origin="shapes", **only)
    sizes = SizeNames(reader)
    explained = []
    for row in rows:
        if row.attempt == last[row.compilation]:
            name = names.get(row.compilation, "")
            explained.append(_explained(reader, row, name, events, relations, sizes))
    return explained


def _explained(
    reader: SessionReader,
    row: model.Symbol,
    name: str,
    events: list[model.SymbolEvent],
    relations: list[model.GuardCheck],
    sizes: SizeNames,
) -> ExplainedSymbol:
    of_compilation = (event for event in events if event.compilation == row.compilation)
    events_of_symbol = [event for event in of_compilation if row.name in event.symbols]
    sources = row.sources
    if not sources and row.source:
        sources = (row.source,)
    guards = []
    for relation in relations:
        if relation.compilation != row.compilation:
            continue
        if any(source in relation.code for source in sources):
            guards.append(relation)
    file, line = _user_line(reader, row.stack)
    place = place_of_path(reader, file, line)
    specialized = [event for event in events_of_symbol if event.kind == "specialized"]
    if not row.final_range:
        row = replace(row, final_range=guarded_range(guards, sources))
    if specialized and not row.became:  # a log has the event alone
        row = replace(row, became=specialized[0].expression)
    fixed = next((event.stack for event in specialized), 0)
    stack = _frames(reader, fixed or row.stack)
    compilation = sizes.compilation(row.compilation)
    return ExplainedSymbol(
        row,
        name,
        plain_code(row.source, compilation),
        sizes.of(row.compilation, row.name),
        (file, line),
        place,
        tuple(
            replace(event, expression=sizes.in_text(row.compilation, event.expression))
            for event in events_of_symbol
        ),
        tuple(guards),
        sizes.in_text(row.compilation, row.became),
        compilation,
        stack,
    )


_RANGE = re.compile(
    r"(?:(?P<lower>-?\d{1,19}) <= )?(?P<source>[^<>=\s]{1,400})(?: <= (?P<upper>-?\d{1,19}))?"
)
"""Matches a printed guard on the range of one size: ``2 <= L['x'].size()[1] <= 4096``."""


def guarded_range(guards: Sequence[model.GuardCheck], sources: Sequence[str]) -> str:
    """Return ``[2, 4096]`` from the printed guard on a size, for a log without the range at the
    end; empty where no guard has both ends or the upper one.
    """
    for guard in guards:
        bounds = _RANGE.fullmatch(guard.code.strip())
        if bounds and bounds["source"] in sources and bounds["upper"]:
            return f"[{bounds['lower'] or '-int_oo'}, {bounds['upper']}]"
    return ""


def _frames(reader: SessionReader, stack: int) -> tuple[model.Frame, ...]:
    if stack:
        return reader.get(model.Stack, stack).frames
    return ()


def _user_line(reader: SessionReader, stack: int) -> tuple[str, int]:
    """Return the user's innermost line, or torch's if there is none."""
    frames = _frames(reader, stack)
    users = user_paths(reader)
    own = [frame for frame in frames if frame.file in users] or list(frames)
    return (own[-1].file, own[-1].line) if own else ("", 0)


def plain_range(reach: str) -> str:
    """Return ``at least 2`` for ``[2, int_oo]``."""
    lower, _, upper = reach.strip("[]").partition(", ")
    from_below, from_above = not lower.endswith("oo"), not upper.endswith("oo")
    if from_below and from_above:
        return f"{lower} to {upper}"
    if from_below:
        return f"at least {lower}"
    if from_above:
        return f"at most {upper}"
    return "any value"


def describe_symbol_event(event: model.SymbolEvent, of: model.Compilation | None = None) -> str:
    """Return ``specialized to 8``, ``s77 > 2`` or ``y had the same size and is taken to be it``."""
    if event.kind == "specialized":
        reason = f" ({event.reason.replace('_', ' ')})" if event.reason else ""
        return f"specialized to {event.expression}{reason}"
    if event.kind == "same_as":
        return (
            f"{plain_code(event.expression, of)} had the same value, and must have it from now on"
        )
    if event.kind == "assumed":
        return f"{event.expression} was assumed"
    return f"asked: {event.expression}"
