"""Collectives for whose result the generated code waits at once, although the graph has work that
does not depend on it and could run meanwhile.

A collective that all other work depends on, as in tensor parallel layers, is no finding: nothing
can be done in the meantime.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.documents import place_of_node
from fx_explorer.analysis.words import counted, listed, size
from fx_explorer.findings.finding import Finding, Remedy
from fx_explorer.instruments.memory.sizes import UnknownSize, shape_bytes
from fx_explorer.instruments.values.collectives import Collective, collectives
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernels import nodes_of_calls
from fx_explorer.session.queries.regions import edges_of_graph

LEAST_BYTES = 1_000_000
"""Bytes below which a collective takes as long as its start does: about 20 µs at the 50 GB/s of a
network card, which is what launching it takes.
"""

_OVERLAP = "torch._inductor.config.aten_distributed_optimizations.enable_overlap_scheduling"

_SETTING = "inductor.aten_distributed_optimizations.enable_overlap_scheduling"


@dataclass(frozen=True, slots=True)
class _Waiting:
    collective: Collective
    work_bytes: int
    """Bytes that the kernels move which do not depend on it, nor it on them."""
    work: tuple[str, ...]
    """Those kernels."""


def find_waited_for_collectives(reader: SessionReader) -> Iterator[Finding]:
    alone = [collective for collective in collectives(reader) if _is_waited_for(collective)]
    if not alone:
        return
    kernels = _kernels_by_node(reader)
    waiting = []
    for collective in alone:
        independent = _independent_work(reader, collective, kernels)
        work_bytes = sum(independent.values())
        # Less work than the tensor is large would hide nothing of it.
        if work_bytes >= collective.size_bytes:
            waiting.append(_Waiting(collective, work_bytes, tuple(independent)))
    if waiting:
        yield _finding(reader, waiting)


def _is_waited_for(collective: Collective) -> bool:
    between = collective.between
    if between is None or not between.is_of_code or between.names:
        return False
    return collective.size_bytes >= LEAST_BYTES


def _kernels_by_node(reader: SessionReader) -> dict[int, list[model.Kernel]]:
    kernels = {kernel.id: kernel for kernel in reader.rows(model.Kernel)}
    by_node: dict[int, list[model.Kernel]] = {}
    for kernel, _, nodes in nodes_of_calls(reader):
        for node in nodes:
            by_node.setdefault(node, []).append(kernels[kernel])
    return by_node


def _independent_work(
    reader: SessionReader, collective: Collective, kernels: dict[int, list[model.Kernel]]
) -> dict[str, int]:
    """Return the kernels of the graph that compute nothing that the collective needs or that needs
    it, by name, with the bytes that they move. Where Inductor estimates none, as for a processor,
    it is the largest tensor that they compute.
    """
    graph = reader.get(model.Graph, collective.node.graph)
    takes: dict[int, list[int]] = {}
    gives: dict[int, list[int]] = {}
    for producer, consumer in edges_of_graph(reader, graph):
        takes.setdefault(consumer, []).append(producer)
        gives.setdefault(producer, []).append(consumer)
    related = _reached(collective.node.id, takes) | _reached(collective.node.id, gives)
    mixed: set[int] = set()
    found: dict[int, model.Kernel] = {}
    largest: dict[int, int] = {}
    for node in reader.nodes(graph):
        for kernel in kernels.get(node.id, ()):
            if node.id in related:
                mixed.add(kernel.id)
            else:
                found.setdefault(kernel.id, kernel)
                largest[kernel.id] = max(largest.get(kernel.id, 0), _bytes(node))
    moved: dict[str, int] = {}
    for number, kernel in found.items():
        if number not in mixed:
            of_kernel = kernel.estimated_bytes
            moved[kernel.name] = of_kernel if of_kernel >= 0 else largest[number]
    return moved


def _bytes(node: model.Node) -> int:
    """Return the bytes of a node's tensor; 0 where they are not known."""
    try:
        return shape_bytes(node.dtype, node.shape, {}) if node.shape is not None else 0
    except UnknownSize:
        return 0


def _reached(start: int, steps: dict[int, list[int]]) -> set[int]:
    reached = {start}
    pending = [start]
    while pending:
        for node in steps.get(pending.pop(), ()):
            if node not in reached:
                reached.add(node)
                pending.append(node)
    return reached


def _finding(reader: SessionReader, waiting: Sequence[_Waiting]) -> Finding:
    largest = max(waiting, key=lambda each: each.collective.size_bytes)
    collective = largest.collective
    total = sum(each.collective.size_bytes for each in waiting)
    where = f" ({collective.at})" if collective.at else ""
    how_many = counted(len(waiting), "collective")
    return Finding(
        kind="waited-for collective",
        text=f"Nothing runs during {how_many}, {size(total)}, although other work could: the "
        f"largest is {collective.operator}{where}.",
        urgency="slow",
        severity="notice",
        topic="graphs",
        place=place_of_node(reader, collective.node),
        view="collectives",
        evidence=(
            f"The program waits for {collective.operator} of {size(collective.size_bytes)} over "
            f"{collective.group_text} right after starting it. {listed(largest.work)} move "
            f"{size(largest.work_bytes)} and do not depend on it.",
        ),
        explanation="A collective overlaps with the kernels between its start and the wait for "
        "its result in the generated code.",
        remedies=(Remedy(f"Set {_OVERLAP} = True.", changes={"settings": {_SETTING: True}}),),
        count=len(waiting),
    )
