"""This module makes the rows of dynamic sizes: the symbols that Dynamo created for them, and every
decision about each, with the user's line.

From torch's structured trace (torch/fx/experimental/symbolic_shapes.py: ``create_symbol``,
``create_unbacked_symbol``, ``guard_added_fast``, ``symbolic_shape_specialization``,
``propagate_real_tensors``); what happened to them in the end is read off the ``ShapeEnv`` when
Dynamo makes its guards. Equal sizes share a symbol ("duck shaping") without a record: the sources
of a symbol tell.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.versions import name_of
from fx_explorer.model import Frame, Symbol, SymbolEvent, SymbolEventKind

RECORDS = (
    "create_symbol",
    "create_unbacked_symbol",
    "symbolic_shape_specialization",
    "guard_added_fast",
    "propagate_real_tensors",
)


def add_record(
    recording: Recording,
    kind: str,
    name: str,
    attempt: int,
    content: dict[str, Any],
    user: tuple[Frame, ...],
) -> None:
    """Add the content of one of torch's records about a symbol; ``user`` is the user's stack in
    it.
    """
    if kind in ("create_symbol", "create_unbacked_symbol"):
        _add_symbol(recording, name, attempt, content, user)
        return
    event = _event(kind, content)
    names = tuple(_names(recording, name, attempt, content.get("symbol") or event.expression))
    frame = recording.sources.user_frame(user)
    if frame:
        event = replace(event, file=frame.file, line=frame.line)
    event = replace(
        event, compilation=recording.compilation_id(name), symbols=names, attempt=attempt
    )
    events = recording.of(name).symbol_events
    if event not in events:  # the same is asked again and again, at the same line
        events.add(event)
        recording.writer.add(replace(event, stack=recording.sources.stack(user)))


def _event(kind: str, content: dict[str, Any]) -> SymbolEvent:
    kinds: dict[str, SymbolEventKind] = {
        "symbolic_shape_specialization": "specialized",
        "guard_added_fast": "constrained",
    }
    if kind == "symbolic_shape_specialization":
        expression, reason = str(content.get("value")), str(content.get("reason") or "")
    else:
        expression, reason = str(content.get("expr")), str(content.get("result") or "")
    return SymbolEvent(0, 0, kinds.get(kind, "assumed"), (), expression, reason)


def _add_symbol(
    recording: Recording, name: str, attempt: int, content: dict[str, Any], user: tuple[Frame, ...]
) -> None:
    value, source = content.get("val"), content.get("source") or ""
    value_text = "" if value is None else str(value)
    sources = (source,) if source else ()
    row = Symbol(
        0,
        recording.compilation_id(name),
        content["symbol"],
        source,
        value_text,
        str(content.get("vr")),
        recording.sources.stack(user),
        sources,
        attempt=attempt,
    )
    _known(recording, name, attempt)[row.name] = replace(row, id=recording.writer.add(row))


def _known(recording: Recording, name: str, attempt: int) -> dict[str, Symbol]:
    """Return the symbols of this attempt by name; those of earlier attempts are discarded."""
    known = recording.of(name).symbols
    if any(row.attempt != attempt for row in known.values()):
        known.clear()
    return known


def _names(recording: Recording, name: str, attempt: int, text: str) -> list[str]:
    known = _known(recording, name, attempt)
    return [word for word in dict.fromkeys(re.findall(r"\b[a-z]+\d+\b", text)) if word in known]


def finish_symbols(recording: Recording, shapes: Any) -> None:
    """Record the final state of the current compilation's symbols from its ``ShapeEnv`` when Dynamo
    has finished.
    """
    name = recording.compilation_name()
    by_name = {str(symbol): symbol for symbol in shapes.var_to_range}
    known = recording.of(name).symbols
    for row in list(known.values()):
        symbol = by_name.get(row.name)
        if symbol is None:
            continue
        names = map(name_of, shapes.var_to_sources.get(symbol, ()))
        sources = tuple(dict.fromkeys((*row.sources, *names)))
        reach = shapes.var_to_range[symbol]
        final_range = f"[{reach.lower}, {reach.upper}]"
        replacement = shapes.replacements.get(symbol)
        became = "" if replacement is None or replacement == symbol else str(replacement)
        row = replace(row, sources=sources, final_range=final_range, became=became)
        known[row.name] = row
        recording.writer.update(row)
        recording.writer.add_all(_same_as(row, source) for source in sources[1:])


def _same_as(row: Symbol, source: str) -> SymbolEvent:
    return SymbolEvent(
        0,
        row.compilation,
        "same_as",
        (row.name,),
        source,
        stack=row.stack,
        attempt=row.attempt,
    )
