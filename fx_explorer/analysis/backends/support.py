"""What a backend supports of the graphs that it was given: operator by operator, and segment by
segment.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.backends.amounts import Amount, reports_in_use
from fx_explorer.analysis.backends.borders import Border, Crossing, borders, crossing_of
from fx_explorer.analysis.backends.parts import Part, neighbours, parts_of
from fx_explorer.analysis.backends.writes import OutOfTurn, out_of_turn
from fx_explorer.analysis.documents import Document, graph_document
from fx_explorer.analysis.nodes import operation
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names
from fx_explorer.session.queries.graph.support import edges_of_graph

TAKES_A_RESULT = "operator.getitem"


@dataclass(frozen=True, slots=True)
class SupportedNode:
    """One operator of a graph, with what is known of it."""

    node: model.Node
    row: model.NodeSupport

    @property
    def size_bytes(self) -> int:
        """Bytes that it reads and writes; -1 where a size is not known."""
        known = self.row.read_bytes >= 0 and self.row.written_bytes >= 0
        return self.row.read_bytes + self.row.written_bytes if known else -1


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """An operator of the target's graphs, in all its calls."""

    operator: str
    amount: Amount
    supported: int
    """Calls that the backend supports."""
    falls_back: int
    """Calls that it does not support."""
    unknown: int
    in_segments: int
    """Calls that are in a segment."""
    reasons: tuple[str, ...]
    """Why it is not supported, where somebody says."""
    first: model.Node


@dataclass(frozen=True, slots=True)
class Split:
    """An operator that stands between segments: they cannot be one."""

    node: model.Node
    reason: str
    needs: tuple[int, ...]
    """Segments whose results it needs."""
    needed_by: tuple[int, ...]
    """Segments that need its result."""


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A segment, or what falls back between segments, with what crosses its borders."""

    part: Part
    nodes: tuple[SupportedNode, ...]
    amount: Amount
    takes: Border
    gives: Border


@dataclass(frozen=True, slots=True)
class GraphSupport:
    """What a backend supports of one graph."""

    report: model.SupportReport
    compilation: str
    graph: model.Graph
    document: Document
    nodes: tuple[SupportedNode, ...]
    parts: tuple[ShownPart, ...]
    """In the order in which they can run; empty where it is not known which segments there are."""
    splits: tuple[Split, ...]
    out_of_turn: tuple[OutOfTurn, ...]
    """Writes in place that may come before or after what reads the same memory, other than in the graph."""
    is_circular: bool
    """Whether segments need one another, so that no order of them is right."""

    @property
    def segments(self) -> list[ShownPart]:
        return [one for one in self.parts if one.part.segment]

    @property
    def fall_backs(self) -> list[ShownPart]:
        return [one for one in self.parts if not one.part.segment]


def backend_support(reader: SessionReader) -> list[GraphSupport]:
    """Return what is known of each graph that was given to a backend other than Inductor, in the variants
    that are in use; empty where there was none.
    """
    return support_of(reader, reports_in_use(reader))


def support_of(reader: SessionReader, reports: list[model.SupportReport]) -> list[GraphSupport]:
    """Return what these reports say, graph by graph."""
    names = compilation_names(reader)
    graphs = {
        graph.id: graph for graph in reader.by_ids(model.Graph, [one.graph for one in reports])
    }
    return [
        _of_graph(reader, one, graphs[one.graph], names.get(one.compilation, "")) for one in reports if one.graph in graphs
    ]  # fmt: skip


def _of_graph(
    reader: SessionReader, report: model.SupportReport, graph: model.Graph, compilation: str
) -> GraphSupport:
    every = {node.id: node for node in reader.nodes(graph)}
    rows = reader.rows(model.NodeSupport, report=report.id)
    known = [
        SupportedNode(every[row.node], row)
        for row in sorted(rows, key=lambda row: row.node)
        if row.node in every
    ]
    values = {one.node.id: crossing_of(one.node, one.row) for one in known}
    nodes = tuple(one for one in known if not values[one.node.id].is_given)
    parts, splits, is_circular = (
        _partitioned(reader, graph, values, nodes) if report.is_partitioned else ((), (), False)
    )
    turned = (
        out_of_turn(
            list(every.values()), edges_of_graph(reader, graph), [one.part for one in parts]
        )
        if parts
        else ()
    )
    document = graph_document(graph, compilation)
    return GraphSupport(
        report, compilation, graph, document, nodes, parts, splits, tuple(turned), is_circular
    )


def _partitioned(
    reader: SessionReader,
    graph: model.Graph,
    values: dict[int, Crossing],
    nodes: tuple[SupportedNode, ...],
) -> tuple[tuple[ShownPart, ...], tuple[Split, ...], bool]:
    segments = {one.node.id: one.row.segment for one in nodes}
    edges = edges_of_graph(reader, graph)
    parts, is_circular = parts_of(segments, edges)
    known = {one.node.id: one for one in nodes}
    shown = []
    for part, (takes, gives) in zip(parts, borders(parts, values, edges), strict=True):
        inside = tuple(known[node] for node in part.nodes)
        shown.append(ShownPart(part, inside, amount_of(inside), takes, gives))
    return tuple(shown), tuple(_splits(nodes, *neighbours(segments, edges))), is_circular


def _splits(
    nodes: Iterable[SupportedNode],
    needs: dict[int, frozenset[int]],
    needed_by: dict[int, frozenset[int]],
) -> Iterable[Split]:
    for one in nodes:
        here = one.node.id
        if (
            one.node.target == TAKES_A_RESULT
        ):  # it stands where the operator does that it takes a result of
            continue
        if one.row.support != "supported" and needs.get(here) and needed_by.get(here):
            yield Split(
                one.node, one.row.reason, tuple(sorted(needs[here])), tuple(sorted(needed_by[here]))
            )


def amount_of(nodes: Iterable[SupportedNode]) -> Amount:
    count = flops = size_bytes = without_flops = without_bytes = 0
    for one in nodes:
        count += 1
        flops += max(0, one.row.flops)
        size_bytes += max(0, one.size_bytes)
        without_flops += one.row.flops < 0
        without_bytes += one.size_bytes < 0
    return Amount(count, flops, size_bytes, without_flops, without_bytes)


def operator_rows(graphs: Iterable[GraphSupport]) -> list[OperatorRow]:
    """Return the operators of all the graphs, those with the most operations and bytes first."""
    calls: dict[str, list[SupportedNode]] = defaultdict(list)
    for graph in graphs:
        for one in graph.nodes:
            calls[operation(one.node)].append(one)
    rows = [_operator_row(name, found) for name, found in calls.items()]
    return sorted(
        rows,
        key=lambda row: (
            -row.amount.flops,
            -row.amount.size_bytes,
            -row.amount.count,
            row.operator,
        ),
    )


def _operator_row(name: str, calls: list[SupportedNode]) -> OperatorRow:
    said = [one.row.support for one in calls]
    return OperatorRow(
        name,
        amount_of(calls),
        said.count("supported"),
        said.count("falls_back"),
        said.count("unknown"),
        sum(one.row.segment > 0 for one in calls),
        tuple(dict.fromkeys(one.row.reason for one in calls if one.row.reason)),
        calls[0].node,
    )
