"""This module writes regions of graphs for the JSON report, with how each was compiled by
itself.
"""

from __future__ import annotations

from fx_explorer.analysis.regions.annotated_regions import Lowering, Region

Json = dict[str, object]


def region(one: Region) -> Json:
    """Return one region, and what happened to its nodes."""
    return {
        "name": one.name,
        "key": one.key,
        "value": one.value,
        "nodes": one.nodes,
        "compiled": one.is_compiled,
        "kernels": list(one.kernels),
        "lowerings": [_lowering(lowering) for lowering in one.lowerings],
        "eager_nodes": sum(eager.nodes for eager in one.eager),
    }


def _lowering(lowering: Lowering) -> Json:
    row = lowering.row
    return {
        "compilation": lowering.compilation,
        "direction": row.direction,
        "subgraph": row.subgraph or None,
        "nodes": row.nodes,
        "configs": row.configs or {},
        "reused": row.is_reused,
        "seconds": round(row.duration_s, 6),
        "kernels": list(lowering.kernels),
        "reason": row.reason or None,
    }
