"""View +: what a backend supports, operator by operator, and the segments that it cuts graphs into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fx_explorer.analysis.documents import Place
from fx_explorer.analysis.nodes import node_words, operation
from fx_explorer.analysis.regions.segment_regions import FALLS_BACK
from fx_explorer.analysis.words import listed, size
from fx_explorer.drawing.colours import RegionColours
from fx_explorer.drawing.view_table import Detail, TableColumn, TableRow, ViewTable
from fx_explorer.instruments.backends.amounts import reports_in_use, reports_to_show, summaries_of
from fx_explorer.instruments.backends.borders import Border, Crossing
from fx_explorer.instruments.backends.support import (
    GraphSupport,
    OperatorRow,
    ShownPart,
    operator_rows,
    support_of,
)
from fx_explorer.instruments.backends.table import border_words, operator_table, part_table
from fx_explorer.instruments.backends.verdict import (
    FLOPS_COUNTED,
    named_segments,
    of_other_variants,
    split_words,
    verdict,
    why_unknown,
)
from fx_explorer.session import SessionReader

COLUMNS = (
    TableColumn("operator or part", "function", min_width=16, max_width=40),
    TableColumn("calls", is_number=True, min_width=5, total=lambda value: f"{value:,.0f}"),
    TableColumn("FLOPs", is_number=True, min_width=5),
    TableColumn("bytes", is_number=True, min_width=5, priority=3),
    TableColumn("supported", min_width=9),
    TableColumn("takes", min_width=16, max_width=40, priority=2),
    TableColumn("gives", min_width=14, max_width=30, priority=2),
    TableColumn("why not, or made of", "muted", min_width=20, max_width=200, priority=1),
)

MOST_VALUES = 12
"""Values of a border and calls of an operator that are listed one by one."""


def support_table(reader: SessionReader) -> ViewTable:
    reports = reports_to_show(reader)
    graphs = support_of(reader, reports)
    others = of_other_variants(reader)
    sentences = [*verdict(summaries_of(reader, reports), graphs), *others]
    first = sentences[:1] if reports_in_use(reader) else []
    return ViewTable(
        shows="The parts of each graph, in the order in which they can run; then every operator.",
        notice=" ".join([*first, *others]),
        origin="answers of the backend, torch's partitioner and flop formulas",
        columns=COLUMNS,
        rows=[
            *(row for graph in graphs for row in _part_rows(graph)),
            *_operator_rows(graphs, sentences),
        ],
        empty=why_unknown(reader),
    )


def _part_rows(graph: GraphSupport) -> Iterator[TableRow]:
    colours = RegionColours()
    for one, (name, count, flops, takes, gives, made_of) in zip(
        graph.parts, part_table(graph), strict=True
    ):
        where = f"{graph.document.title} [{graph.compilation}]"
        cells = (name, count, flops, "", "", takes, gives, f"{where}: {made_of}")
        place = Place(graph.document, one.nodes[0].node.position) if one.nodes else None
        kind = colours.kind(name) if one.part.segment else "warning"
        yield TableRow(cells, place, lambda one=one: Detail(_part_text(graph, one)), kind)  # type: ignore[misc]


def _part_text(graph: GraphSupport, one: ShownPart) -> str:
    """Say what crosses the borders of a part, value by value, and why the graph is split here."""
    number = one.part.segment
    lines = [
        (
            f"{f'segment {number}' if number else f'PyTorch runs what {FALLS_BACK}'} · "
            f"{graph.document.title}"
        )
    ]
    lines += _border_lines("takes", one.takes) + _border_lines("gives", one.gives)
    splits = [
        split
        for split in graph.splits
        if number in (*split.needs, *split.needed_by) or split.node.id in one.part.nodes
    ]
    lines += [
        f"{operation(split.node)} ({split.node.name}) stands between "
        f"{named_segments(split.needs)} and "
        f"{named_segments(split.needed_by)}{f': {split.reason}' if split.reason else ''}"
        for split in splits[:MOST_VALUES]
    ]
    return "\n".join([*lines, "", *split_words(graph)])


def _crossing_line(crossing: Crossing) -> str:
    """Return a line about a value that crosses a border: its size, about (~) where it varies."""
    text = ""
    if crossing.size_bytes is not None:
        text = size(crossing.size_bytes)
        if crossing.varies:
            text = f"~{text}"
    return f"  {text:>10}  {node_words(crossing.node)}"


def _border_lines(word: str, border: Border) -> list[str]:
    told = border_words(border.computed, border.given)
    if not told:
        return []
    named = (_crossing_line(crossing) for crossing in border.crossings[:MOST_VALUES])
    more = len(border.crossings) - MOST_VALUES
    return [f"{word} {told}", *named, *([f"  and {more} more"] if more > 0 else [])]


def _operator_rows(graphs: Sequence[GraphSupport], sentences: Iterable[str]) -> Iterator[TableRow]:
    rows = operator_rows(graphs)
    documents = {graph.graph.id: graph.document for graph in graphs}
    for row, (name, calls, flops, size_bytes, is_supported, _, reason) in zip(
        rows, operator_table(rows), strict=True
    ):
        place = Place(documents[row.first.graph], row.first.position)
        cells = (name, calls, flops, size_bytes, is_supported, "", "", reason)
        # Only operators are added up: the parts are the same calls once more.
        values = {
            "calls": float(row.amount.count),
            "FLOPs": float(row.amount.flops),
            "bytes": float(row.amount.size_bytes),
        }
        yield TableRow(
            cells,
            place,
            lambda row=row: Detail(_operator_text(graphs, row, sentences)),  # type: ignore[misc]
            values=values,
            part=1,
        )


def _operator_text(
    graphs: Sequence[GraphSupport], row: OperatorRow, sentences: Iterable[str]
) -> str:
    """Say what is known of an operator: its calls, why it is not supported, and then the whole
    answer.
    """
    calls = [
        f"  [{graph.compilation}] {node_words(one.node)}{f' · segment {one.row.segment}' if one.row.segment else ''}"
        for graph in graphs
        for one in graph.nodes
        if operation(one.node) == row.operator
    ]
    more = len(calls) - MOST_VALUES
    why = [f"why not: {listed(row.reasons)}"] if row.reasons else []
    named = [*calls[:MOST_VALUES], *([f"  and {more} more"] if more > 0 else [])]
    return "\n".join([row.operator, *why, *named, "", *sentences, FLOPS_COUNTED])
