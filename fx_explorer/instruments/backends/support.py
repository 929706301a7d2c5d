"""This module computes what a backend supports of its graphs: operator by operator, and segment by
segment.

torch's partitioner follows values only. A write in place gives no value to those who read the same
memory later, or read it before. So a segment may take the write to another place in the order, and
results differ from PyTorch's.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import Document, graph_document
from fx_explorer.analysis.words import operation
from fx_explorer.instruments.backends.amounts import (
    Amount,
    BackendPart,
    Border,
    Crossing,
    borders,
    crossing_of,
    neighbours,
    parts_of,
    reports_in_use,
)
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names
from fx_explorer.session.queries.regions import edges_of_graph

# Writes in place, and what reads them in another part out of turn.

_IN_PLACE = re.compile(r"(?:add|sub|mul|matmul|truediv|floordiv|mod|pow|and|or|xor|lshift|rshift)")
_VIEWS = {
    "view",
    "view_as",
    "reshape",
    "flatten",
    "unflatten",
    "transpose",
    "permute",
    "t",
    "swapaxes",
    "movedim",
    "squeeze",
    "unsqueeze",
    "expand",
    "expand_as",
    "unbind",
    "split",
    "chunk",
    "narrow",
    "select",
    "detach",
    "diagonal",
    "getitem",
}
"""Functions and methods whose result has, or may have, the memory of their argument."""


@dataclass(frozen=True, slots=True)
class OutOfTurn:
    """A write and a reading of the same memory, which a possible order of the parts turns
    around.
    """

    write: model.Node
    reader: model.Node
    segment: int
    """The segment of the write; if the write is in no segment, the segment of the read."""


def out_of_turn(
    nodes: Sequence[model.Node], edges: Iterable[tuple[int, int]], parts: Sequence[BackendPart]
) -> list[OutOfTurn]:
    """Return the first reader of each in-place write that the order of the parts moves to the other
    side of the write. ``nodes`` are all nodes of the graph.
    """
    writes = [node for node in nodes if writes_in_place(node)]
    if not writes:
        return []
    place = {node: i for i, part in enumerate(parts) for node in part.nodes}
    segments = {node: part.segment for part in parts for node in part.nodes}
    memory = _memory(nodes)
    known = {node.id: node for node in nodes}
    readers: dict[int, list[model.Node]] = {}
    for producer, consumer in edges:
        if producer in memory and consumer in place and not _passes_on(known[consumer]):
            readers.setdefault(memory[producer], []).append(known[consumer])
    turns = []
    for write in writes:
        if write.id not in place:
            continue
        for reader in readers.get(memory.get(write.id, 0), ()):
            if _are_swapped(write, reader, place):
                turns.append(OutOfTurn(write, reader, segments[write.id] or segments[reader.id]))
                break
    return turns


def _are_swapped(write: model.Node, reader: model.Node, place: Mapping[int, int]) -> bool:
    """Return whether the order of the parts swaps a write and a read; ``place`` is node → part."""
    if reader.position < write.position:
        return place[reader.id] > place[write.id]
    return reader.id != write.id and place[reader.id] < place[write.id]


def writes_in_place(node: model.Node) -> bool:
    """Return whether a call writes into its first argument: ``x.add_(1)``, ``x += 1``,
    ``x[0] = 1``.
    """
    if not node.op.startswith("call_"):
        return False
    name = _name(node)
    if node.target.startswith("_operator."):
        return name == "setitem" or (
            node.shape is not None and name[:1] == "i" and bool(_IN_PLACE.fullmatch(name[1:]))
        )
    return (name.endswith("_") and not name.endswith("__")) or "inplace = True" in node.arguments


def _name(node: model.Node) -> str:
    """Return ``add_`` for ``aten.add_.Tensor``, ``relu`` for ``torch.relu``."""
    words = node.target.split(".")
    if words[0] == "aten" and len(words) > 1:
        return words[1]
    return words[-1]


def _passes_on(node: model.Node) -> bool:
    """Return whether a call only passes its input's memory on, without reading it."""
    return (node.is_view or _name(node) in _VIEWS) and not writes_in_place(node)


def _memory(nodes: Sequence[model.Node]) -> dict[int, int]:
    """Return, for each node, the node that allocated its memory, through views and in-place
    writes.
    """
    by_name: dict[str, int] = {}
    memory: dict[int, int] = {}
    for node in nodes:
        taken = by_name.get(
            re.split(r"[,\s)\]]", node.arguments.lstrip("(["), maxsplit=1)[0], node.id
        )
        gives_what_it_takes = node.op.startswith("call_") and (
            _passes_on(node) or writes_in_place(node)
        )
        memory[node.id] = memory.get(taken, node.id) if gives_what_it_takes else node.id
        by_name[node.name] = node.id
    return memory


# Support of a graph: what the backend said of each node, and the segments.

TAKES_A_RESULT = "operator.getitem"


@dataclass(frozen=True, slots=True)
class SupportedNode:
    """One operator of a graph, with the backend's answer about it."""

    node: model.Node
    row: model.NodeSupport

    @property
    def size_bytes(self) -> int:
        """Bytes that it reads and writes; -1 where a size is not known."""
        known = self.row.read_bytes >= 0 and self.row.written_bytes >= 0
        if known:
            return self.row.read_bytes + self.row.written_bytes
        return -1


@dataclass(frozen=True, slots=True)
class OperatorRow:
    """An operator of the target's graphs, in all its calls."""

    operator: str
    amount: Amount
    supported: int
    """Number of calls that the backend supports."""
    falls_back: int
    """Number of calls that the backend does not support."""
    unknown: int
    in_segments: int
    """Number of calls that are in a segment."""
    reasons: tuple[str, ...]
    """The reported reasons why it is not supported."""
    first: model.Node


@dataclass(frozen=True, slots=True)
class Split:
    """An operator between segments, which prevents merging them."""

    node: model.Node
    reason: str
    needs: tuple[int, ...]
    """Segments whose results it needs."""
    needed_by: tuple[int, ...]
    """Segments that need its result."""


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A segment, or the operators between segments that fall back, with the values that cross its
    borders.
    """

    part: BackendPart
    nodes: tuple[SupportedNode, ...]
    amount: Amount
    takes: Border
    gives: Border


@dataclass(frozen=True, slots=True)
class GraphSupport:
    """A backend's support of one graph."""

    report: model.SupportReport
    compilation: str
    graph: model.Graph
    document: Document
    nodes: tuple[SupportedNode, ...]
    parts: tuple[ShownPart, ...]
    """The parts of the graph in an order in which they can run; empty where the segments are not
    known.
    """
    splits: tuple[Split, ...]
    out_of_turn: tuple[OutOfTurn, ...]
    """In-place writes that may run on another side of a read of the same memory than in the graph.
    """
    is_circular: bool
    """Whether segments need each other in a circle, so that no order of them is correct."""

    @property
    def segments(self) -> list[ShownPart]:
        return [part for part in self.parts if part.part.segment]

    @property
    def fall_backs(self) -> list[ShownPart]:
        return [part for part in self.parts if not part.part.segment]


def backend_support(reader: SessionReader) -> list[GraphSupport]:
    """Return the support of each graph that was given to a backend other than Inductor, in the
    variants in use; empty without such graphs.
    """
    return support_of(reader, reports_in_use(reader))


def support_of(reader: SessionReader, reports: list[model.SupportReport]) -> list[GraphSupport]:
    """Return the content of these reports, graph by graph."""
    names = compilation_names(reader)
    rows = reader.by_ids(model.Graph, [report.graph for report in reports])
    graphs = {graph.id: graph for graph in rows}
    supports = []
    for report in reports:
        graph = graphs.get(report.graph)
        if graph is not None:
            name = names.get(report.compilation, "")
            supports.append(_of_graph(reader, report, graph, name))
    return supports


def _of_graph(
    reader: SessionReader, report: model.SupportReport, graph: model.Graph, compilation: str
) -> GraphSupport:
    every = {node.id: node for node in reader.nodes(graph)}
    rows = reader.rows(model.NodeSupport, report=report.id)
    in_graph = sorted((row for row in rows if row.node in every), key=lambda row: row.node)
    known = [SupportedNode(every[row.node], row) for row in in_graph]
    values = {node.node.id: crossing_of(node.node, node.row) for node in known}
    nodes = tuple(node for node in known if not values[node.node.id].is_given)
    parts: tuple[ShownPart, ...] = ()
    splits: tuple[Split, ...] = ()
    is_circular = False
    if report.is_partitioned:
        parts, splits, is_circular = _partitioned(reader, graph, values, nodes)
    turned: list[OutOfTurn] = []
    if parts:
        edges = edges_of_graph(reader, graph)
        turned = out_of_turn(list(every.values()), edges, [part.part for part in parts])
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
    segments = {node.node.id: node.row.segment for node in nodes}
    edges = edges_of_graph(reader, graph)
    parts, is_circular = parts_of(segments, edges)
    known = {node.node.id: node for node in nodes}
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
    for node in nodes:
        here = node.node.id
        if (
            node.node.target == TAKES_A_RESULT
        ):  # it stands where the operator does that it takes a result of
            continue
        if node.row.support != "supported" and needs.get(here) and needed_by.get(here):
            yield Split(
                node.node,
                node.row.reason,
                tuple(sorted(needs[here])),
                tuple(sorted(needed_by[here])),
            )


def amount_of(nodes: Iterable[SupportedNode]) -> Amount:
    count = flops = size_bytes = without_flops = without_bytes = 0
    for node in nodes:
        count += 1
        flops += max(0, node.row.flops)
        size_bytes += max(0, node.size_bytes)
        without_flops += node.row.flops < 0
        without_bytes += node.size_bytes < 0
    return Amount(count, flops, size_bytes, without_flops, without_bytes)


def operator_rows(graphs: Iterable[GraphSupport]) -> list[OperatorRow]:
    """Return the operators of all the graphs, those with the most operations and bytes first."""
    calls: dict[str, list[SupportedNode]] = defaultdict(list)
    for graph in graphs:
        for node in graph.nodes:
            calls[operation(node.node)].append(node)
    rows = [_operator_row(name, nodes) for name, nodes in calls.items()]
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
    answers = [node.row.support for node in calls]
    return OperatorRow(
        name,
        amount_of(calls),
        answers.count("supported"),
        answers.count("falls_back"),
        answers.count("unknown"),
        sum(node.row.segment > 0 for node in calls),
        tuple(dict.fromkeys(node.row.reason for node in calls if node.row.reason)),
        calls[0].node,
    )
