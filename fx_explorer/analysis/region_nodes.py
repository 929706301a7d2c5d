"""This module finds the nodes of a region, in one graph and at a place. Segments, and the operators
that fall back, are regions as annotated ones are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fx_explorer import model
from fx_explorer.analysis import module_paths as modules
from fx_explorer.analysis.annotated_regions import named_annotations
from fx_explorer.analysis.documents import Document, Place, node_at, places_of_nodes
from fx_explorer.analysis.selected_nodes import nodes_at
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.regions import (
    ShownSupport,
    annotated_rows,
    annotations_of_nodes,
    every_annotated,
    every_annotation,
    first_annotated,
    nodes_in_segment,
    support_of_nodes,
)

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
