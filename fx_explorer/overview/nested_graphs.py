"""This module describes each graph that a node of another graph runs: a nested compile region, the
branches of a conditional, the condition and body of a loop, the body of a checkpoint and others:
who calls it, how often it runs, and which kernels compute it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.analysis.link_tables import LinkQueries
from fx_explorer.analysis.nested_regions import NestedRegion, nested_regions
from fx_explorer.analysis.words import how_often
from fx_explorer.session import SessionReader, answered_once
from fx_explorer.session.queries.graphs import callers_of_nested_graph
from fx_explorer.session.queries.kernels import call_counts, kernels_of_each

_HIGHER_ORDER = "higher_order."


@dataclass(frozen=True, slots=True)
class NestedGraph:
    """A graph that others run, of one compilation: the same one at all stages."""

    name: str
    """The user's function of a region, else torch's name."""
    operator: str
    """What runs it: ``invoke_subgraph``, ``cond``, ``while_loop``, …"""
    graphs: tuple[model.Graph, ...]
    """It at the first stage that has it: several where it was traced for other inputs."""
    callers: tuple[model.Node, ...]
    """The nodes that run it, of that stage."""
    operations: int
    """Operations of the first of the graphs."""
    kernels: tuple[model.Kernel, ...]
    """The kernels that compute something of it, in the order of their ids."""
    region: NestedRegion | None
    """What is known of a nested compile region."""

    @property
    def runs(self) -> str:
        """Return how often it runs in one call of the compiled function, in words."""
        calls = len(self.callers)
        if self.operator == "cond":
            return f"at most {how_often(calls)} a call: the predicate decides"
        if self.operator in ("while_loop", "scan", "map_impl", "associative_scan"):
            return "as often as the loop iterates: the data decides"
        return f"{how_often(calls)} a call"


def nested_graphs(reader: SessionReader) -> list[NestedGraph]:
    """Return the nested graphs in use, in the order in which torch made them; those that only later
    stages have come last.
    """
    used = graphs_in_use(reader)
    regions = {(each.first.compilation, each.label): each for each in nested_regions(reader)}
    graphs = [graph for graph in reader.rows(model.Graph) if graph.parent]
    if used is not None:
        graphs = [graph for graph in graphs if graph.id in used]
    by_stage: dict[model.Stage, list[model.Graph]] = {}
    for graph in graphs:
        by_stage.setdefault(graph.stage, []).append(graph)
    described: list[NestedGraph] = []
    covered: set[int] = set()
    for stage in model.STAGES:
        for same in _groups(by_stage.get(stage, ())):
            nodes = [node.id for graph in same for node in reader.nodes(graph)]
            if covered.isdisjoint(nodes):
                below = LinkQueries(reader).descendants(nodes)
                covered |= below
                region = regions.get((same[0].compilation, same[0].label))
                described.append(_described(reader, same, below, region))
    return described


def _groups(graphs: Iterable[model.Graph]) -> Iterator[Sequence[model.Graph]]:
    """Yield the graphs of one function together: Dynamo traces it again for other inputs."""
    groups: dict[tuple[int, str, str], list[model.Graph]] = {}
    for graph in graphs:
        is_region = graph.label and not model.is_bucket_label(graph.label)
        name = graph.label if is_region else f"{graph.parent} {graph.name}"
        groups.setdefault((graph.compilation, graph.direction, name), []).append(graph)
    yield from groups.values()


def _described(
    reader: SessionReader,
    graphs: Sequence[model.Graph],
    below: Iterable[int],
    region: NestedRegion | None,
) -> NestedGraph:
    callers: dict[int, model.Node] = {}
    for graph in graphs:
        for node in reader.by_ids(model.Node, callers_of_nested_graph(reader, graph)):
            callers[node.id] = node
    kernels: set[int] = set()
    for of_node in kernels_of_each(reader, below).values():
        kernels.update(of_node)
    first = graphs[0]
    return NestedGraph(
        name=first.label or first.name,
        operator=_operator([*callers.values()]),
        graphs=tuple(graphs),
        callers=tuple(callers.values()),
        operations=first.call_count,
        kernels=tuple(row for row in reader.by_ids(model.Kernel, sorted(kernels)) if not row.runs),
        region=region,
    )


def _operator(callers: Sequence[model.Node]) -> str:
    """Return ``cond`` for ``torch.ops.higher_order.cond``; empty for a graph that is only held."""
    if not callers:
        return ""
    return callers[0].target.rpartition(_HIGHER_ORDER)[2]


@answered_once
def runs_of_kernels(reader: SessionReader) -> dict[int, int]:
    """Return kernel → how often it runs in one call of the compiled code: its calls, times those of
    the graph that it is in. Kernels in branches and loops are left out: the data decides.
    """
    kernels = reader.rows(model.Kernel)
    calls = call_counts(reader)
    callers: dict[tuple[int, str, str], list[model.Kernel]] = {}
    for kernel in kernels:
        for name in kernel.runs:
            graph = (kernel.compilation, kernel.direction, name)
            callers.setdefault(graph, []).append(kernel)
    runs: dict[int, int] = {}
    for kernel in kernels:
        count = _runs_of_graph(kernel, callers, calls, frozenset())
        if count is not None:
            runs[kernel.id] = count * calls.get(kernel.id, 1)
    return runs


def _runs_of_graph(
    kernel: model.Kernel,
    callers: dict[tuple[int, str, str], list[model.Kernel]],
    calls: dict[int, int],
    seen: frozenset[int],
) -> int | None:
    """Return how often the graph of a kernel runs; None where the data decides."""
    if not kernel.subgraph:
        return 1
    around = callers.get((kernel.compilation, kernel.direction, kernel.subgraph), [])
    total = 0
    for caller in around:
        if caller.name in ("torch.cond", "torch.while_loop") or caller.id in seen:
            return None
        outer = _runs_of_graph(caller, callers, calls, seen | {caller.id})
        if outer is None:
            return None
        total += outer * calls.get(caller.id, 1)
    return total or None
