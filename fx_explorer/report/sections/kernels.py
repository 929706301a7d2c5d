"""The kernels of a compilation in the JSON report, in the order in which they run, with the lines that they compute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fx_explorer import model
from fx_explorer.analysis.kernels.candidates import session_gpu
from fx_explorer.analysis.kernels.costs import kernel_costs
from fx_explorer.analysis.links.own_kernels import definition
from fx_explorer.report.sections.kernel_configs import (
    kernel_configs,
    kernel_estimate,
    kernel_launches,
)
from fx_explorer.report.sections.kernel_costs import kernel_cost
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.kernel.kernels import kernel_nodes
from fx_explorer.session.queries.sources import source_paths

Json = dict[str, object]


def kernels_of(reader: SessionReader, compilation: model.Compilation) -> list[Json]:
    """Return the kernels and library calls of a compilation, with the nodes and lines that each computes."""
    computed = kernel_nodes(reader, compilation.id)
    # All nodes at once: one query per kernel would be thousands for a large model.
    every = {node for nodes in computed.values() for node in nodes}
    nodes = {node.id: node for node in reader.by_ids(model.Node, every)}
    graphs = reader.by_ids(model.Graph, {node.graph for node in nodes.values()})
    captured = {graph.id for graph in graphs if graph.stage in ("dynamo", "pre_grad")}
    paths = source_paths(reader)
    kernels = reader.rows(model.Kernel, compilation=compilation.id)
    kernels.sort(key=lambda k: (model.DIRECTIONS.index(k.direction), k.position))
    gpu = session_gpu(reader)
    costs = {one.use.kernel.id: one for one in kernel_costs(reader, compilation.id)}
    found = [
        _kernel(kernel, [nodes[i] for i in computed.get(kernel.id, ())], captured, paths)
        for kernel in kernels
    ]
    for kernel, one in zip(kernels, found, strict=True):
        one["written_at"] = _written_at(reader, kernel)
        one["configs"] = kernel_configs(reader, kernel, gpu)
        one["launches"] = kernel_launches(reader, kernel)
        one["estimate"] = kernel_estimate(reader, kernel, gpu)
        one |= kernel_cost(costs[kernel.id]) if kernel.id in costs else {}
    return found


def _kernel(
    kernel: model.Kernel, nodes: list[model.Node], captured: set[int], paths: dict[int, str]
) -> Json:
    """Return a kernel with its nodes. ``captured`` are the graphs before AOTAutograd: the comments of generated code in a
    log name their nodes.
    """
    return {
        "name": kernel.name,
        "language": kernel.language,
        "direction": kernel.direction or None,
        "nodes": [node.name for node in nodes if node.graph not in captured],
        "dynamo_nodes": [node.name for node in nodes if node.graph in captured],
        "sources": _sources(nodes, paths),
    }


def _written_at(reader: SessionReader, kernel: model.Kernel) -> Json | None:
    """Return where a Triton kernel of the user's own is in the user's file; None for any other
    kernel.
    """
    place = definition(reader, kernel.artifact)
    path = reader.get(model.SourceFile, place.document.id).path if place else ""
    return {"file": path, "line": place.line + 1} if place else None


def _sources(nodes: Iterable[model.Node], paths: dict[int, str]) -> list[Json]:
    """Return the distinct user lines, most frequent first."""
    lines = Counter((paths[node.file], node.line) for node in nodes if node.file in paths)
    return [{"file": file, "line": line} for (file, line), _ in lines.most_common()]
