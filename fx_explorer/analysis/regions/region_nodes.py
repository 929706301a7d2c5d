"""Which nodes belong to a region: those of one graph, and the regions of what stands at a place."""

from __future__ import annotations

import json
from collections import Counter

from fx_explorer import model
from fx_explorer.analysis.documents import Document, Place, places_of_nodes
from fx_explorer.analysis.links.selection import id_list, nodes_at
from fx_explorer.analysis.regions.followed import named_annotations
from fx_explorer.session import SessionReader

RegionKey = tuple[str, str]
"""Key and value of an annotation: what tells one region from another, also in the next capture."""


def regions_at(reader: SessionReader, place: Place) -> list[RegionKey]:
    """Regions of the nodes at a place, the one with the most nodes first."""
    found = reader.query(
        "SELECT node.annotations, count(*) FROM json_each(?) AS wanted JOIN node ON node.id = wanted.value "
        "WHERE node.annotations IS NOT NULL GROUP BY 1 ORDER BY min(node.id)",
        (id_list(nodes_at(reader, place)),),
    )
    counts: Counter[RegionKey] = Counter()
    for annotated, count in found:
        counts.update(dict.fromkeys(named_annotations(annotated), count))
    return [region for region, _ in counts.most_common()]


def positions_in(reader: SessionReader, document: Document, region: RegionKey) -> list[int]:
    """Rows of a graph whose nodes carry the region, ascending."""
    graph = reader.get(model.Graph, document.id)
    found = reader.query(
        "SELECT position FROM node WHERE id >= ? AND id < ? AND annotations IN (SELECT value FROM json_each(?)) ORDER BY id",
        (graph.first_node, graph.first_node + graph.node_count, json.dumps(_annotations_with(reader, region))),
    )
    return [row[0] for row in found]


def first_place(reader: SessionReader, region: RegionKey) -> Place | None:
    """The region's first operation, in the earliest stage that has one."""
    found = reader.query(
        "SELECT id FROM node WHERE annotations IN (SELECT value FROM json_each(?)) ORDER BY op NOT LIKE 'call_%', id LIMIT 1",
        (json.dumps(_annotations_with(reader, region)),),
    )
    return next(iter(places_of_nodes(reader, [row[0] for row in found])), None)


def has_region(reader: SessionReader, region: RegionKey) -> bool:
    """Whether any node of the session carries it."""
    return bool(_annotations_with(reader, region))


def _annotations_with(reader: SessionReader, region: RegionKey) -> list[str]:
    """Every distinct set of annotations (JSON, as it is stored) that names the region."""
    found = reader.query("SELECT DISTINCT annotations FROM node WHERE annotations IS NOT NULL")
    return [annotated for (annotated,) in found if region in named_annotations(annotated)]
