"""The calls that the session's generated code makes, graph by graph, and which graph a call in a
trace is of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer.analysis.lineage import in_use
from fx_explorer.instruments.profile.alignment import Named
from fx_explorer.instruments.profile.graph_calls import ProfiledGraphCall
from fx_explorer.instruments.profile.names import key_of_call, without_number
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.profiles import calls_in_order

BY_NAME = 0.6
"""Share of the generated kernels that must be alike where the trace names the compiled function:
every program has a ``0/0``, and the code of another process may differ in some kernels.
"""

BY_CODE = 0.9
"""The same where only the code tells which graph it is."""


@dataclass(frozen=True, slots=True)
class CompiledGraph:
    """The generated code of one graph."""

    compilation: str
    """Name of the compiled function as torch says it, ``0/1``. After ``torch._dynamo.reset()``
    torch gives its names again, and DistributedDataParallel has several graphs under one: these are
    told apart by their code.
    """
    is_backward: bool
    calls: tuple[Named, ...]
    ids: tuple[tuple[int, int], ...]
    """(Kernel, KernelCall) of each call."""


def compiled_graphs(reader: SessionReader) -> list[CompiledGraph]:
    """Return the graphs of the variants in use, each with its calls in the order of its code."""
    used = in_use(reader)
    found: dict[tuple[str, bool, int], list[tuple[Named, tuple[int, int]]]] = {}
    for row in calls_in_order(reader):
        if used is None or row.kernel in used.kernels:
            named = Named(key_of_call(row.name), row.language == "extern")
            graph = (row.compilation, row.direction == "backward", row.output_code)
            found.setdefault(graph, []).append((named, (row.kernel, row.call)))
    return [
        CompiledGraph(
            name.partition("#")[0],
            is_backward,
            tuple(named for named, _ in calls),
            tuple(ids for _, ids in calls),
        )
        for (name, is_backward, _), calls in found.items()
    ]


def graphs_of(call: ProfiledGraphCall, graphs: Sequence[CompiledGraph]) -> list[CompiledGraph]:
    """Return the graph that a call in a trace is of; several whose code is the same where nothing
    tells them apart; none where it is of another program.
    """
    there = [graph for graph in graphs if graph.is_backward == call.is_backward]
    named, fit = _most_alike(
        call, [graph for graph in there if graph.compilation == call.compilation]
    )
    if fit >= BY_CODE:
        return named
    found, fit_of_any = _most_alike(
        call, there
    )  # in another process the same name may be another function's
    if fit_of_any >= BY_CODE:
        return found
    return named if fit >= BY_NAME else []


def _most_alike(
    call: ProfiledGraphCall, graphs: Sequence[CompiledGraph]
) -> tuple[list[CompiledGraph], float]:
    """Return the graphs that are most like a call, and how much."""
    fits = [(alike(call, graph), graph) for graph in graphs]
    best = max((fit for fit, _ in fits), default=0.0)
    return [graph for fit, graph in fits if fit == best], best


def alike(call: ProfiledGraphCall, graph: CompiledGraph) -> float:
    """Return the share of generated kernels, by name without its number, that both have, from 0 to
    1. Where neither has one, 1 for the same library calls in the same order, else 0.
    """
    ran = Counter(without_number(ran.named.key) for ran in call.ran if not ran.named.is_library)
    calls = Counter(without_number(named.key) for named in graph.calls if not named.is_library)
    most = max(ran.total(), calls.total())
    if most:
        return (ran & calls).total() / most
    is_same = bool(call.ran) and [ran.named.key for ran in call.ran] == [
        named.key for named in graph.calls
    ]
    return float(is_same)
