"""This module treats segments, and the operators that fall back, as regions of a graph: it finds
their nodes, as for annotated regions.
"""

from __future__ import annotations

from collections.abc import Iterable

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.regions import ShownSupport, nodes_in_segment, support_of_nodes

KEY = "segment"
"""The key of such a region, in place of an annotation's key."""

FALLS_BACK = "falls back"


def region_of(shown: ShownSupport) -> str:
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
    return {node: region_of(shown) for node, shown in support.items()}


def nodes_in(reader: SessionReader, value: str) -> list[int]:
    """Return the ids of all nodes in the region, ascending."""
    number = value.removeprefix("segment ")
    segment = int(number) if number.isdecimal() else 0
    return nodes_in_segment(reader, segment)
