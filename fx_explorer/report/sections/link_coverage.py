"""How much of the graphs and kernels is linked, in the JSON report."""

from __future__ import annotations

from fx_explorer.analysis.links.coverage import LinkCoverage

Json = dict[str, object]


def linked(one: LinkCoverage) -> Json:
    """Return how many nodes and lines of one direction are linked."""
    return {
        "nodes": one.nodes,
        "compute_nodes": one.compute_nodes,
        "to_source": one.to_source,
        "to_kernel": one.to_kernel,
        "kernel_lines": one.kernel_lines,
        "kernel_lines_linked": one.kernel_lines_linked,
    }
