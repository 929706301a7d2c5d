"""Regions: what ``torch.fx.traceback.annotate`` marked, followed through every stage down to the kernels."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass

from fx_explorer.analysis.kernels import kernel_nodes
from fx_explorer.analysis.words import annotation_text
from fx_explorer.session import SessionReader


@dataclass(frozen=True, slots=True)
class Region:
    """Nodes that carry one annotation: ``key`` → ``value``."""

    key: str
    value: str
    name: str
    """The value; with the key in front when another key has the same value."""
    nodes: dict[str, int]
    """``stage`` or ``stage/direction`` → how many nodes carry it there."""
    kernels: tuple[str, ...]
    """Kernels that compute at least one of its nodes."""

    @property
    def is_compiled(self) -> bool:
        """Kernels were generated for it."""
        return bool(self.kernels)


def regions(reader: SessionReader) -> list[Region]:
    """In the order the annotations first occur."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    found = reader.query(
        "SELECT node.annotations, graph.stage, graph.direction, count(*) FROM node JOIN graph ON graph.id = node.graph "
        "WHERE node.annotations IS NOT NULL GROUP BY 1, 2, 3 ORDER BY min(node.id)"
    )
    for annotated, stage, direction, count in found:
        where = f"{stage}/{direction}" if direction else stage
        for pair in named_annotations(annotated):
            counts.setdefault(pair, Counter())[where] += count
    kernels = _kernels_by_region(reader) if counts else {}
    values = Counter(value for _, value in counts)
    return [
        Region(key, value, f"{key}: {value}" if values[value] > 1 else value, dict(nodes), tuple(kernels.get((key, value), ())))
        for (key, value), nodes in counts.items()
    ]


def named_annotations(annotated: str) -> list[tuple[str, str]]:
    """Key and value of each annotation of a node (JSON). The dict given to regional Inductor may carry the region's name."""
    return [(str(key), _region_name(value)) for key, value in json.loads(annotated).items()]


def _region_name(value: object) -> str:
    if isinstance(value, dict) and isinstance(value.get("inductor_region"), str):
        return str(value["inductor_region"])
    return annotation_text(value)


def _kernels_by_region(reader: SessionReader) -> dict[tuple[str, str], list[str]]:
    names = dict(reader.query("SELECT id, name FROM kernel"))
    annotated = dict(
        reader.query(
            "SELECT DISTINCT node.id, node.annotations FROM line_node JOIN node ON node.id = line_node.node "
            "WHERE node.annotations IS NOT NULL"
        )
    )
    found: dict[tuple[str, str], dict[str, None]] = {}
    for kernel, nodes in kernel_nodes(reader).items():
        for node in nodes:
            for pair in named_annotations(annotated[node]) if node in annotated else ():
                found.setdefault(pair, {})[names[kernel]] = None
    return {pair: list(kernels) for pair, kernels in found.items()}
