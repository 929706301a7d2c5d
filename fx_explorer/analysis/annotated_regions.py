"""This module follows regions marked by ``torch.fx.traceback.annotate`` through every stage down to
the kernels. It finds the nodes of a region in one graph and at a place; segments, and the operators
that fall back, are regions too. Nested compile regions are for ``nested_regions.py``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

from fx_explorer import model
from fx_explorer.analysis import module_paths as modules
from fx_explorer.analysis.documents import Document, Place, node_at, places_of_nodes
from fx_explorer.analysis.lineage import origin_of, root_name
from fx_explorer.analysis.selected_nodes import nodes_at
from fx_explorer.analysis.words import annotation_text
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import compilation_names, origins_of_variants
from fx_explorer.session.queries.kernels import kernel_nodes
from fx_explorer.session.queries.regions import (
    ShownSupport,
    annotated_nodes,
    annotated_operations,
    annotated_rows,
    annotations_of_computed_nodes,
    annotations_of_nodes,
    every_annotated,
    every_annotation,
    first_annotated,
    kernels_by_subgraph,
    nodes_in_segment,
    support_of_nodes,
)

REGIONAL_KEY = "compile_with_inductor"
"""Key of the annotation that regional compilation uses."""


@dataclass(frozen=True, slots=True)
class Lowering:
    """A region in one direction, compiled on its own or not."""

    compilation: str
    row: model.RegionLowering
    kernels: tuple[str, ...]
    """Kernels in the order of their first call; empty when the region was not compiled."""


@dataclass(frozen=True, slots=True)
class EagerNodes:
    """Nodes of a forward or backward graph that run eagerly in a regional compilation."""

    compilation: str
    direction: model.Direction
    nodes: int
    ops: dict[str, int]
    """Operation → how many, most frequent first."""


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes with the same annotation: ``key`` → ``value``."""

    key: str
    value: str
    name: str
    """The annotation's value, with the key in front when another key has the same value."""
    nodes: dict[str, int]
    """``stage`` or ``stage/direction`` → number of nodes with the annotation there."""
    kernels: tuple[str, ...]
    """Kernels that compute at least one of its nodes."""
    forward_kernels: tuple[str, ...] = ()
    """The kernels among them that run in a forward, or in code without a direction."""
    backward_kernels: tuple[str, ...] = ()
    """The kernels among them that run in a backward. A library call may be in both."""
    lowerings: tuple[Lowering, ...] = ()
    """The results of regional compilation for the region; empty if the whole graph went to
    Inductor, or nothing was compiled.
    """
    eager: tuple[EagerNodes, ...] = ()
    """Its nodes that regional compilation left in eager mode, if any."""
    first_node: int = 0
    """The region's first operation, at the earliest stage that has it."""

    @property
    def is_compiled(self) -> bool:
        """Return whether kernels were generated for it."""
        return bool(self.kernels)


def regions(reader: SessionReader) -> list[Region]:
    """List the regions in the order their annotations first occur."""
    counts, first = _counts(reader)
    kernels = _kernels_by_region(reader) if counts else {}
    lowered = lowerings(reader) if counts else []
    lowered_names = {lowering.row.name for lowering in lowered}
    values = Counter(value for _, value in counts)
    shown = []
    for (key, value), nodes in counts.items():
        of_region = kernels.get((key, value), [])
        of_this = []
        if key == REGIONAL_KEY:
            of_this = [row for row in lowered if _stands_for(row.row, value, lowered_names)]
        name = f"{key}: {value}" if values[value] > 1 else value
        region = Region(
            key,
            value,
            name,
            dict(nodes),
            tuple(dict.fromkeys(name for name, _ in of_region)),
            tuple(name for name, is_backward in of_region if not is_backward),
            tuple(name for name, is_backward in of_region if is_backward),
            tuple(of_this),
            tuple(_eager_of(reader, lowered, key, value)),
            first[key, value],
        )
        shown.append(region)
    return shown


_Pair = tuple[str, str]
"""Key and value of an annotation."""


def _counts(reader: SessionReader) -> tuple[dict[_Pair, Counter[str]], dict[_Pair, int]]:
    """Return how many nodes each annotation has by stage and direction, and its first operation.

    Where a compilation has several variants, the newest one that has nodes there counts. A graph
    that was edited counts once.
    """
    roots = {variant: root_name(name) for variant, name in compilation_names(reader).items()}
    newest: dict[tuple[_Pair, str, str], tuple[int, int]] = {}
    first: dict[_Pair, int] = {}
    for annotated, variant, stage, direction, count, node in annotated_nodes(reader):
        place = f"{stage}/{direction}" if direction else stage
        for pair in named_annotations(annotated):
            slot = (pair, roots.get(variant, ""), place)
            counted_variant, so_far = newest.get(slot, (variant, 0))
            if counted_variant == variant:
                newest[slot] = (variant, so_far + count)
            elif counted_variant < variant:
                newest[slot] = (variant, count)
            first.setdefault(pair, node)
    counts: dict[_Pair, Counter[str]] = {}
    for (pair, _, where), (_, count) in newest.items():
        counts.setdefault(pair, Counter())[where] += count
    return counts, first


def lowerings(reader: SessionReader) -> list[Lowering]:
    """Return every region that regional compilation reached, in that order."""
    names = compilation_names(reader)
    origins = origins_of_variants(reader)
    kernels = kernels_by_subgraph(reader)

    def kernels_of(row: model.RegionLowering) -> tuple[str, ...]:
        if not row.subgraph:
            return ()
        variant = row.compilation
        # What was not lowered again has its kernels at the variant that it was taken from.
        while (
            row.is_reused
            and variant in origins
            and (variant, row.direction, row.subgraph) not in kernels
        ):
            variant = origins[variant]
        return tuple(dict.fromkeys(kernels.get((variant, row.direction, row.subgraph), ())))

    return [
        Lowering(names.get(row.compilation, ""), row, kernels_of(row))
        for row in reader.rows(model.RegionLowering)
    ]


def eager_nodes(reader: SessionReader) -> list[EagerNodes]:
    """Return the nodes outside of all regions in regional compilation, one entry per compilation
    and direction; empty without it.
    """
    return _eager(reader, lowerings(reader), lambda annotated: True)


def _eager_of(
    reader: SessionReader, lowered: list[Lowering], key: str, value: str
) -> list[EagerNodes]:
    if not lowered:
        return []
    return _eager(reader, lowered, lambda annotated: (key, value) in annotated)


def _eager(
    reader: SessionReader,
    lowered: list[Lowering],
    is_wanted: Callable[[list[tuple[str, str]]], bool],
) -> list[EagerNodes]:
    """Count the wanted operations that no compiled region has, by compilation and direction."""
    named = {lowering.row.name for lowering in lowered}
    by_graph: dict[tuple[int, model.Direction], list[Lowering]] = {}
    for lowering in lowered:
        graph = (lowering.row.compilation, lowering.row.direction)
        by_graph.setdefault(graph, []).append(lowering)
    eager = []
    for (compilation, direction), of_graph in by_graph.items():
        compiled = [lowering.row for lowering in of_graph if lowering.row.subgraph]
        ops: Counter[str] = Counter()
        for target, annotated in _calls(reader, compilation, direction):
            pairs = named_annotations(annotated) if annotated else []
            if is_wanted(pairs) and not _is_compiled(pairs, compiled, named):
                ops[target] += 1
        if ops:
            by_count = dict(ops.most_common())
            eager.append(EagerNodes(of_graph[0].compilation, direction, ops.total(), by_count))
    return eager


def _is_compiled(
    pairs: list[tuple[str, str]], compiled: list[model.RegionLowering], named: set[str]
) -> bool:
    values = [value for key, value in pairs if key == REGIONAL_KEY]
    return any(_stands_for(row, value, named) for row, value in product(compiled, values))


def _calls(
    reader: SessionReader, compilation: int, direction: model.Direction
) -> list[tuple[str, str | None]]:
    """Return operation and annotations of the nodes in the forward or backward graph, even if
    another variant shares the graph.
    """
    stage: model.Stage = "backward" if direction == "backward" else "forward"
    variant = reader.get(model.Compilation, compilation)
    # A variant that set out behind the partition has no such graph of its own.
    while not reader.count(model.Graph, compilation=variant.id, stage=stage, direction=direction):
        origin = origin_of(reader, variant)
        if origin is None:
            return []
        variant = origin
    return annotated_operations(reader, variant.id, stage, direction)


def _stands_for(row: model.RegionLowering, value: str, named: set[str]) -> bool:
    """Return whether the row is about nodes annotated with ``value``. torch treats all annotations
    without a name as one region.
    """
    if row.name:
        return row.name == value
    return value not in named


def named_annotations(annotated: str) -> list[tuple[str, str]]:
    """Return key and value of each annotation of a node (JSON). The dict given to regional Inductor
    may have the region's name in it.
    """
    return [(str(key), region_value(value)) for key, value in json.loads(annotated).items()]


def region_value(value: object) -> str:
    """Return an annotation as the name of a region: ``mlp`` for ``"mlp"`` and for
    ``{"inductor_region": "mlp"}``.
    """
    if isinstance(value, dict) and isinstance(value.get("inductor_region"), str):
        return str(value["inductor_region"])
    return annotation_text(value)


def _kernels_by_region(reader: SessionReader) -> dict[_Pair, list[tuple[str, bool]]]:
    """Return (name, whether it is of the backward) of the kernels of each region, each once."""
    kernels = {
        kernel.id: (kernel.name, kernel.direction == "backward")
        for kernel in reader.rows(model.Kernel)
    }
    annotated = annotations_of_computed_nodes(reader)
    by_region: dict[_Pair, dict[tuple[str, bool], None]] = {}
    for kernel, nodes in kernel_nodes(reader).items():
        for node in nodes:
            if node not in annotated:
                continue
            for pair in named_annotations(annotated[node]):
                by_region.setdefault(pair, {})[kernels[kernel]] = None
    return {pair: list(of_region) for pair, of_region in by_region.items()}


# The nodes of a region.


SEGMENT_KEY = "segment"
"""The key of such a region, in place of an annotation's key."""

FALLS_BACK = "falls back"


def segment_region(shown: ShownSupport) -> str:
    """Return the name of the region that a node is in: ``segment 2`` or ``falls back``."""
    if not shown.segment:
        return FALLS_BACK
    return f"segment {shown.segment}"


def regions_of_nodes(reader: SessionReader, nodes: Iterable[model.Node]) -> dict[int, str]:
    """Return the region of each node of one graph, by its id, for nodes in a region."""
    of_graph = list(nodes)
    if not of_graph:
        return {}
    support = support_of_nodes(reader, of_graph[0].graph, [node.id for node in of_graph])
    return {node: segment_region(shown) for node, shown in support.items()}


def segment_nodes(reader: SessionReader, value: str) -> list[int]:
    """Return the ids of all nodes in the region, ascending."""
    number = value.removeprefix("segment ")
    segment = int(number) if number.isdecimal() else 0
    return nodes_in_segment(reader, segment)


RegionKey = tuple[str, str]
"""(key, value) of an annotation, of a backend's segment or of a module of the
user's (module_paths.py), which identifies the region, also in the next capture.
"""


def regions_at(reader: SessionReader, place: Place) -> list[RegionKey]:
    """Return the regions of the nodes at a place, the one with the most nodes first."""
    counts: Counter[RegionKey] = Counter()
    for annotated, count in annotations_of_nodes(reader, nodes_at(reader, place)).items():
        counts.update(dict.fromkeys(named_annotations(annotated), count))
    segments_of_nodes = regions_of_nodes(reader, _nodes_of(reader, place))
    counts.update((SEGMENT_KEY, region) for region in segments_of_nodes.values())
    return [region for region, _ in counts.most_common()]


def positions_in(reader: SessionReader, document: Document, region: RegionKey) -> list[int]:
    """Return the rows of a graph whose nodes belong to the region, ascending."""
    graph = reader.get(model.Graph, document.id)
    if modules.is_module(region):
        return modules.positions(reader, graph, region)
    if region[0] == SEGMENT_KEY:
        end = graph.first_node + graph.node_count
        of_segment = segment_nodes(reader, region[1])
        return [node - graph.first_node for node in of_segment if graph.first_node <= node < end]
    return annotated_rows(reader, graph, _annotations_with(reader, region))


def first_place(reader: SessionReader, region: RegionKey) -> Place | None:
    """Return the region's first operation, in the earliest stage with one."""
    if modules.is_module(region):
        first = modules.first_node(reader, region)
    elif region[0] == SEGMENT_KEY:
        first = segment_nodes(reader, region[1])[:1]
    else:
        first = first_annotated(reader, _annotations_with(reader, region))
    return next(iter(places_of_nodes(reader, first)), None)


def has_region(reader: SessionReader, region: RegionKey) -> bool:
    """Return whether any node of the session belongs to the region."""
    if modules.is_module(region):
        return bool(modules.first_node(reader, region))
    if region[0] == SEGMENT_KEY:
        return bool(segment_nodes(reader, region[1]))
    return bool(_annotations_with(reader, region))


def nodes_in(reader: SessionReader, region: RegionKey) -> frozenset[int]:
    """Return the ids of all nodes that belong to the region."""
    if modules.is_module(region):
        return frozenset(modules.nodes_in(reader, region))
    if region[0] == SEGMENT_KEY:
        return frozenset(segment_nodes(reader, region[1]))
    return frozenset(every_annotated(reader, _annotations_with(reader, region)))


def _nodes_of(reader: SessionReader, place: Place) -> list[model.Node]:
    """Return the node on a row of a graph; empty for other places."""
    node = node_at(reader, place)
    return [node] if node else []


def _annotations_with(reader: SessionReader, region: RegionKey) -> list[str]:
    """Return every distinct set of annotations (stored JSON) that names the region."""
    annotations = every_annotation(reader)
    return [text for text in annotations if region in named_annotations(text)]
