"""This module adds up the work of the operators of graphs, the part of it that a backend supports,
and the values that cross the borders of a segment, in both directions, in bytes. The session
counts, so that the overview of a large model need not read every node.

The parts of a graph are segments, which the backend compiles, and what falls back to PyTorch
between them. A part's *level* is how many times the computation has gone from PyTorch into a
segment before it: all that falls back on one level is one part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import graphs_in_use, root_name, variants_in_use
from fx_explorer.instruments.memory.sizes import UnknownSize, shape_bytes, value_bytes
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.regions import (
    SupportCount,
    latest_reports,
    segment_counts,
    support_counts,
)


@dataclass(frozen=True, slots=True)
class Amount:
    """Number, work and bytes of some operators."""

    count: int
    flops: int
    """Arithmetic operations, of the operators for which torch has formulas."""
    size_bytes: int
    without_flops: int
    """Operators whose operations could not be counted."""
    without_bytes: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The amounts of operators that one backend supports, and of all operators in its graphs."""

    backend: str
    graphs: int
    is_said: bool
    """Whether the backend, or torch's partitioner, reported what is supported."""
    whole: Amount
    supported: Amount
    unknown: Amount
    in_segments: Amount
    segments: int | None
    """Number of segments; None where it is not known."""


def reports_in_use(reader: SessionReader) -> list[model.SupportReport]:
    """Return the last report of each graph in use, by the backend in use. Variants share graphs,
    and each asks its own backend.
    """
    used, latest = graphs_in_use(reader), latest_reports(reader)
    if used is None:
        return latest
    rows = {compilation.id: compilation for compilation in reader.rows(model.Compilation)}
    backends = {
        root_name(compilation.name): compilation.backend for compilation in variants_in_use(reader)
    }

    def is_in_use(report: model.SupportReport) -> bool:
        row = rows.get(report.compilation)
        return (
            report.graph in used
            and row is not None
            and report.backend == backends.get(root_name(row.name))
        )

    # The last one that asks the same backend; dictionaries keep the order of the graphs.
    return list({report.graph: report for report in latest if is_in_use(report)}.values())


def reports_to_show(reader: SessionReader) -> list[model.SupportReport]:
    """Return the reports in use, else those of unused variants: the user may have continued with
    another backend after the program had run with Inductor.
    """
    return reports_in_use(reader) or latest_reports(reader)


def summaries(reader: SessionReader) -> list[Summary]:
    """Return a summary for each backend in use that was given a graph; none for Inductor."""
    return summaries_of(reader, reports_in_use(reader))


def summaries_of(reader: SessionReader, reports: list[model.SupportReport]) -> list[Summary]:
    """Return a summary for each backend that these reports are of."""
    if not reports:
        return []
    counts, segments = support_counts(reader), segment_counts(reader)
    backends = dict.fromkeys(report.backend for report in reports)
    summaries = []
    for backend in backends:
        of_backend = [report for report in reports if report.backend == backend]
        summaries.append(_summary(backend, of_backend, counts, segments))
    return summaries


def _summary(
    backend: str,
    reports: list[model.SupportReport],
    counts: list[SupportCount],
    segments: dict[int, int],
) -> Summary:
    ids = {report.id for report in reports}
    of_reports = [count for count in counts if count.report in ids]
    number_of_segments = None
    if any(report.is_partitioned for report in reports):
        number_of_segments = sum(segments.get(report.id, 0) for report in reports)

    def amount(is_wanted: Callable[[SupportCount], bool]) -> Amount:
        return _added(count for count in of_reports if is_wanted(count))

    return Summary(
        backend,
        len(reports),
        any(report.said_by != "nobody" for report in reports),
        amount(lambda count: True),
        amount(lambda count: count.support == "supported"),
        amount(lambda count: count.support == "unknown"),
        amount(lambda count: count.is_in_segment),
        number_of_segments,
    )


def _added(counts: Iterable[SupportCount]) -> Amount:
    every = list(counts)
    columns = zip(
        *(
            (row.operators, row.flops, row.size_bytes, row.without_flops, row.without_bytes)
            for row in every
        ),
        strict=True,
    )
    if every:
        return Amount(*(sum(column) for column in columns))
    return Amount(0, 0, 0, 0, 0)


INPUTS = "the graph's inputs"
"""Origin of a value that is given to the graph: an input, a parameter, a constant."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """A value that enters or leaves a part of a graph."""

    node: model.Node
    """The node that computes the value."""
    size_bytes: int | None
    """Size of the value; None where it is not known."""
    varies: bool = False
    """Whether a size is a symbol, so that the bytes are those of the captured call."""
    is_given: bool = False
    """Whether the value is given to the graph, and not computed in it."""


@dataclass(frozen=True, slots=True)
class Border:
    """The values that enter a part of a graph, or those that leave it."""

    crossings: tuple[Crossing, ...]

    @property
    def computed(self) -> tuple[Crossing, ...]:
        return tuple(crossing for crossing in self.crossings if not crossing.is_given)

    @property
    def given(self) -> tuple[Crossing, ...]:
        return tuple(crossing for crossing in self.crossings if crossing.is_given)


def size_of(crossings: Iterable[Crossing]) -> tuple[int, int]:
    """Return the bytes of the values whose size is known, and the number of the others."""
    sizes = [crossing.size_bytes for crossing in crossings]
    return sum(size for size in sizes if size is not None), sizes.count(None)


def borders(
    parts: Sequence[BackendPart], values: Mapping[int, Crossing], edges: Iterable[tuple[int, int]]
) -> list[tuple[Border, Border]]:
    """Return for each part of a graph the border of the values that enter it, and of those that
    leave it. A value counts once for each part that takes it. ``values`` has every value that can
    cross.
    """
    owner = {node: i for i, part in enumerate(parts) for node in part.nodes}
    taken: dict[int, dict[int, None]] = defaultdict(dict)
    given: dict[int, dict[int, None]] = defaultdict(dict)
    for producer, consumer in sorted(edges):
        giving, taking = owner.get(producer), owner.get(consumer)
        if giving == taking:
            continue
        if taking is not None:
            taken[taking][producer] = None
        if giving is not None:
            given[giving][producer] = None
    return [(_border(taken[i], values), _border(given[i], values)) for i in range(len(parts))]


def _border(crossing: Iterable[int], values: Mapping[int, Crossing]) -> Border:
    return Border(tuple(values[node] for node in crossing if node in values))


def crossing_of(node: model.Node, row: model.NodeSupport) -> Crossing:
    """Return the crossing of a node's value. Numbers take no bytes."""
    exact = _bytes_of(node)
    known = row.result_bytes if exact is None else exact
    size_bytes = known if known >= 0 else None
    return Crossing(node, size_bytes, exact is None, not node.op.startswith("call_"))


def _bytes_of(node: model.Node) -> int | None:
    """Return the bytes of a node's tensors without gaps; None where a size is a symbol."""
    try:
        if node.shape is not None:
            return shape_bytes(node.dtype, node.shape, {})
        return sum(size or 0 for size in value_bytes(node.value, {}))
    except UnknownSize:
        return None


# Parts of a partitioned graph, in an order in which they can run.

Unit = int
"""Minus the number of a segment, or the id of a node that is in no segment."""


@dataclass(frozen=True, slots=True)
class BackendPart:
    """A segment, or the operators that fall back together."""

    segment: int
    """Number of the segment; 0 for the operators that fall back to PyTorch."""
    nodes: tuple[int, ...]
    """Ids of its operators, in the order of the graph."""


def parts_of(
    segments: Mapping[int, int], edges: Iterable[tuple[int, int]]
) -> tuple[list[BackendPart], bool]:
    """Return the parts of a graph in order, and whether segments depend on each other in a cycle,
    so that no order is correct.

    ``segments`` has the segment of each operator, 0 for one in none, in the order of the graph.
    """
    needed = _needed(segments, edges)
    levels, is_circular = _levels(list(dict.fromkeys(map(_unit, segments.items()))), needed)
    members: dict[tuple[int, bool, int], list[int]] = defaultdict(list)
    for node, segment in segments.items():
        # Segments of a level run before what falls back on it.
        level = levels[_unit((node, segment))]
        members[level, not segment, segment].append(node)
    return [
        BackendPart(segment, tuple(nodes)) for (_, _, segment), nodes in sorted(members.items())
    ], is_circular


def _unit(member: tuple[int, int]) -> Unit:
    node, segment = member
    return -segment if segment else node


def _needed(segments: Mapping[int, int], edges: Iterable[tuple[int, int]]) -> dict[Unit, set[Unit]]:
    """Return, for each unit, the units whose results it takes."""
    needed: dict[Unit, set[Unit]] = defaultdict(set)
    for producer, consumer in edges:
        if producer in segments and consumer in segments:
            source, sink = (
                _unit((producer, segments[producer])),
                _unit((consumer, segments[consumer])),
            )
            if source != sink:
                needed[sink].add(source)
    return needed


def _levels(
    units: Sequence[Unit], needed: Mapping[Unit, set[Unit]]
) -> tuple[dict[Unit, int], bool]:
    """Return the level of each unit, and whether some depend on each other in a cycle; these come
    last.
    """
    waiting = {unit: len(needed.get(unit, ())) for unit in units}
    users: dict[Unit, list[Unit]] = defaultdict(list)
    for unit, sources in needed.items():
        for source in sources:
            users[source].append(unit)
    level = {unit: int(unit < 0) for unit in units}
    ready = [unit for unit in units if not waiting[unit]]
    done = 0
    while ready:
        unit = ready.pop()
        done += 1
        for user in users[unit]:
            enters = user < 0 < unit
            level[user] = max(level[user], level[unit] + enters)
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    last = max(level.values(), default=0) + 1
    for unit in units:
        if waiting[unit]:
            level[unit] = last
    return level, done < len(units)


def neighbours(
    segments: Mapping[int, int], edges: Iterable[tuple[int, int]]
) -> tuple[dict[int, frozenset[int]], dict[int, frozenset[int]]]:
    """Return, for each operator in no segment, the segments that it needs and those that need it,
    directly or through other such operators.
    """
    inputs: dict[int, list[int]] = defaultdict(list)
    users: dict[int, list[int]] = defaultdict(list)
    for producer, consumer in edges:
        if producer in segments and consumer in segments:
            inputs[consumer].append(producer)
            users[producer].append(consumer)
    outside = [node for node, segment in segments.items() if not segment]
    return _gathered(outside, inputs, segments), _gathered(outside[::-1], users, segments)


_NONE: frozenset[int] = frozenset()


def _gathered(
    nodes: Iterable[int], near: Mapping[int, list[int]], segments: Mapping[int, int]
) -> dict[int, frozenset[int]]:
    gathered: dict[int, frozenset[int]] = {}
    for node in nodes:
        reached: set[int] = set()
        for neighbour in near.get(node, ()):
            if segments[neighbour]:
                reached.add(segments[neighbour])
            else:
                reached |= gathered.get(neighbour, _NONE)
        gathered[node] = frozenset(reached)
    return gathered
