"""Support and segments as tables, for the screen and for reports alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fx_explorer.analysis.nodes import operation
from fx_explorer.analysis.words import careful_share, counted, listed, size
from fx_explorer.instruments.backends.borders import Crossing, size_of
from fx_explorer.instruments.backends.support import GraphSupport, OperatorRow, ShownPart, amount_of
from fx_explorer.output.table import Column
from fx_explorer.output.terminal import LEAST_PROSE

OPERATOR_COLUMNS = (
    Column("operator", narrowing="cut", least=24),
    Column("calls"),
    Column("FLOPs", priority=1),
    Column("bytes", priority=2),
    Column("supported"),
    Column("in segments", priority=3),
    Column("reason", narrowing="wrapped", least=20),
)
PART_COLUMNS = (
    Column("part"),
    Column("operators"),
    Column("FLOPs", priority=1),
    Column("takes", narrowing="wrapped", least=14),
    Column("gives", narrowing="wrapped", least=14),
    Column("made of", narrowing="wrapped", least=LEAST_PROSE),
)

Cells = tuple[str, ...]


def operator_table(rows: Sequence[OperatorRow]) -> list[Cells]:
    """Return a row for each operator, with its shares of everything that is in the graphs."""
    flops, size_bytes = (
        sum(row.amount.flops for row in rows),
        sum(row.amount.size_bytes for row in rows),
    )
    return [
        (
            row.operator,
            f"{row.amount.count:,}",
            _share(row.amount.flops, flops, row.amount.without_flops, row.amount.count),
            _share(row.amount.size_bytes, size_bytes, row.amount.without_bytes, row.amount.count),
            supported_in_words(row),
            f"{row.in_segments:,}" if row.in_segments else "",
            listed(row.reasons, 2),
        )
        for row in rows
    ]


def _share(part: int, whole: int, without: int, count: int) -> str:
    """Return ``38 %``, empty for nothing, ``?`` for what could not be counted."""
    if without == count:
        return "?"
    if not part:
        return "?" if without else ""
    return f"{careful_share(part, whole)}{'+' if without else ''}"


def supported_in_words(row: OperatorRow) -> str:
    """Return ``yes``, ``no``, ``unknown``, or how many of the calls are supported."""
    whole = {row.supported: "yes", row.falls_back: "no", row.unknown: "unknown"}
    return whole.get(row.amount.count) or f"{row.supported:,} of {row.amount.count:,}"


def part_table(graph: GraphSupport) -> list[Cells]:
    """Return a row for each segment and for what falls back between, in order."""
    whole = amount_of(graph.nodes)
    return [
        (
            part_name(part),
            f"{part.amount.count:,}",
            careful_share(part.amount.flops, whole.flops) if part.amount.flops else "",
            border_words(part.takes.computed, part.takes.given),
            border_words(part.gives.crossings),
            made_of(part),
        )
        for part in graph.parts
    ]


def part_name(part: ShownPart) -> str:
    return f"segment {part.part.segment}" if part.part.segment else "PyTorch"


def border_words(crossings: Iterable[Crossing], given: Iterable[Crossing] = ()) -> str:
    """Return ``2 values, 1.5 kB; given 3, 8.2 kB``: what is computed, and what the graph is given."""
    parts = []
    values, inputs = list(crossings), list(given)
    if values:
        parts.append(f"{counted(len(values), 'value')}, {_sizes(values)}")
    if inputs:
        parts.append(f"{counted(len(inputs), 'input')}, {_sizes(inputs)}")
    return "; ".join(parts)


def _sizes(crossings: Sequence[Crossing]) -> str:
    known, unknown = size_of(crossings)
    if unknown == len(crossings):
        return "unknown size"
    about = "~" if any(crossing.varies for crossing in crossings) else ""
    if unknown:
        return f"{about}{size(known)} and {unknown} of unknown size"
    return f"{about}{size(known)}"


def made_of(part: ShownPart) -> str:
    """Return ``3 × aten.addmm, aten.relu``: the operators, the most frequent first."""
    counts = Counter(operation(each.node) for each in part.nodes)
    return listed(
        (f"{count} × {name}" if count > 1 else name for name, count in counts.most_common()), 5
    )
