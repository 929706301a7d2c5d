"""This module writes compilations for the JSON report, with their other variants, changes by hand,
and the totals of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fx_explorer import model
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.measured_times import measured
from fx_explorer.analysis.naming import function_of
from fx_explorer.analysis.other_variants import OtherVariant
from fx_explorer.analysis.selected_nodes import definition
from fx_explorer.analysis.whole_session import totals
from fx_explorer.instruments.compile_time.timing import stage_times
from fx_explorer.instruments.guards.kinds import guard_kinds
from fx_explorer.instruments.kernels.candidates import Candidate, builds, candidates, estimate
from fx_explorer.instruments.kernels.costs import kernel_costs
from fx_explorer.instruments.kernels.gpu_limits import Occupancy, card
from fx_explorer.instruments.kernels.launched import real_builds, real_candidates
from fx_explorer.instruments.kernels.report import kernel_cost
from fx_explorer.model import Gpu
from fx_explorer.model.rows.kernels import NOT_KNOWN
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import check_count, filtered, source_paths
from fx_explorer.session.queries.graphs import target_counts
from fx_explorer.session.queries.kernels import kernel_nodes
from fx_explorer.session.queries.regions import annotated_count

Json = dict[str, object]


def total_figures(reader: SessionReader) -> Json:
    """Return the figures of the whole session."""
    counted = totals(reader)
    return {
        "compilations": counted.compilations,
        "graphs": counted.graphs,
        "graph_breaks": counted.graph_breaks,
        "graph_break_hits": counted.graph_break_hits,
        "recompiles": counted.recompiles,
        "kernels": counted.kernels,
        "compile_s": round(counted.compile_s, 6),
        "skipped_records": counted.skipped_records,
    }


def compilation(reader: SessionReader, row: model.Compilation) -> Json:
    """Return one compilation: how it ended, its graphs, kernels and guards, and the seconds per
    stage.
    """
    times = stage_times(reader, row.id)
    return {
        "id": row.name,
        "function": row.function,
        "function_in_words": function_of(row),
        "file": row.file,
        "line": row.line,
        "status": row.status,
        "error": row.error or None,
        "backend": row.backend,
        "attempts": row.attempts,
        "restart_reasons": list(row.restart_reasons),
        "missing_stages": row.missing_stages or {},
        "graphs": [_graph(reader, graph) for graph in reader.rows(model.Graph, compilation=row.id)],
        "kernels": kernels_of(reader, row),
        "guards": check_count(reader, row.id),
        "guard_kinds": {kind.kind: kind.count for kind in guard_kinds(reader, row.id)},
        "dropped_guards": {drop.filter: drop.dropped for drop in filtered(reader, row.id)},
        "seconds": {stage or "other": round(spent, 6) for stage, spent in times.by_stage.items()},
        "total_s": round(times.total_s, 6),
        "measured": _measured(reader, row),
    }


def other_variant(reader: SessionReader, other: OtherVariant) -> Json:
    """Return the JSON of another variant. ``kernels`` are all kernels that it runs, including
    shared ones; ``graphs`` are only its own.
    """
    variant = other.variant
    graphs = reader.rows(model.Graph, compilation=variant.id)
    return {
        "id": variant.name,
        "of": variant.variant_of,
        "from": variant.variant_from,
        "changes": variant.changes or {},
        "status": variant.status,
        "error": variant.error or None,
        "in_use": variant.in_use,
        "seconds": round(other.seconds, 6),
        "saved_s": round(variant.saved_s, 6),
        "measured": _measured(reader, variant),
        "kernels": list(other.kernels),
        "graphs": [_graph(reader, graph) for graph in graphs],
    }


def intervention(reader: SessionReader, row: model.Intervention) -> Json:
    """Return the user's change at a gate, and how many nodes the graph had before and after."""
    graphs = reader.by_ids(model.Graph, (row.before, row.after))
    sizes = {graph.id: graph.node_count for graph in graphs}
    owners = [owner.name for owner in reader.by_ids(model.Compilation, [row.compilation])]
    compilation = owners[0] if owners else None
    return {
        "compilation": compilation,
        "gate": row.gate,
        "direction": row.direction or None,
        "kind": row.kind,
        "title": row.title,
        "nodes_before": sizes.get(row.before),
        "nodes_after": sizes.get(row.after),
    }


def _measured(reader: SessionReader, variant: model.Compilation) -> Json:
    """Return the measurements of a variant, by what was run; empty without any."""
    return {
        what: {"median_s": row.median_s, "iqr_s": row.iqr_s, "runs": row.runs, "device": row.device}
        for what, row in measured(reader, variant).items()
    }


def _graph(reader: SessionReader, graph: model.Graph) -> Json:
    return {
        "stage": graph.stage,
        "direction": graph.direction or None,
        "name": graph.name or None,
        "nodes": graph.node_count,
        "ops": target_counts(reader, graph.id),
        "annotated_nodes": annotated_count(reader, graph.id),
    }


# The kernels of a compilation in the JSON report, in the order in which they run, with the lines
# that they compute.


def kernels_of(reader: SessionReader, compilation: model.Compilation) -> list[Json]:
    """Return the kernels and library calls of a compilation, with the nodes and lines that each
    computes.
    """
    computed = kernel_nodes(reader, compilation.id)
    # All nodes at once: one query per kernel would be thousands for a large model.
    numbers = set().union(*computed.values())
    nodes = {node.id: node for node in reader.by_ids(model.Node, numbers)}
    graphs = reader.by_ids(model.Graph, {node.graph for node in nodes.values()})
    captured = {graph.id for graph in graphs if graph.stage in ("dynamo", "pre_grad")}
    paths = source_paths(reader)
    rows = reader.rows(model.Kernel, compilation=compilation.id)
    rows.sort(key=lambda row: (model.DIRECTIONS.index(row.direction), row.position))
    gpu = session_gpu(reader)
    costs = {cost.use.kernel.id: cost for cost in kernel_costs(reader, compilation.id)}
    kernels = []
    for row in rows:
        nodes_of_kernel = [nodes[number] for number in computed.get(row.id, ())]
        kernel = _kernel(row, nodes_of_kernel, captured, paths)
        kernel["written_at"] = _written_at(reader, row)
        kernel["configs"] = kernel_configs(reader, row, gpu)
        kernel["launches"] = kernel_launches(reader, row)
        kernel["estimate"] = kernel_estimate(reader, row, gpu)
        if row.id in costs:
            kernel |= kernel_cost(costs[row.id])
        kernels.append(kernel)
    return kernels


def _kernel(
    kernel: model.Kernel, nodes: list[model.Node], captured: set[int], paths: dict[int, str]
) -> Json:
    """Return a kernel with its nodes. ``captured`` are the graphs before AOTAutograd: the comments
    of generated code in a log name their nodes.
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
    """Return the place of a user's Triton kernel in the user's file; None for any other kernel."""
    place = definition(reader, kernel.artifact)
    if not place:
        return None
    path = reader.get(model.SourceFile, place.document.id).path
    return {"file": path, "line": place.line + 1}


def _sources(nodes: Iterable[model.Node], paths: dict[int, str]) -> list[Json]:
    """Return the distinct user lines, most frequent first."""
    lines = Counter((paths[node.file], node.line) for node in nodes if node.file in paths)
    return [{"file": file, "line": line} for (file, line), _ in lines.most_common()]


# Kernels that were built, in the JSON report: every configuration with its resources, and the
# estimate.


def kernel_configs(reader: SessionReader, kernel: model.Kernel, gpu: Gpu | None) -> list[Json]:
    """Return the configurations of a kernel: for a virtual GPU those that were requested, else
    those that a real one built and ran.
    """
    if gpu and kernel.language == "triton":
        rows = candidates(reader, kernel, gpu)
    else:
        rows = real_candidates(reader, kernel)
    # No pick at all: nothing was timed, and "not picked" would be wrong of every row.
    is_known = any(row.build.is_picked for row in rows)
    return [_config(row, is_known) for row in rows if row.build.state != "candidate"]


def kernel_launches(reader: SessionReader, kernel: model.Kernel) -> list[Json]:
    """Return the launches of a kernel on a real GPU: one row per size of its arguments."""
    rows = reader.rows(model.KernelLaunch, kernel=kernel.id)
    return [
        {"count": row.count, "grid": list(row.grid), "arguments": list(row.arguments)}
        for row in rows
    ]


def _config(candidate: Candidate, is_pick_known: bool) -> Json:
    """Return one configuration; null means not known."""
    build = candidate.build
    occupancy = _occupancy(candidate.occupancy) if candidate.occupancy else None
    is_picked = build.is_picked if is_pick_known else None
    return {
        "config": build.position,
        "origin": build.origin,
        "options": build.options,
        "gpu": build.gpu,
        "toolchain": build.toolchain or None,
        "threads": _known(build.threads),
        "registers": _known(build.registers),
        "spills": _known(build.spill_bytes),
        "shared_bytes": _known(build.shared_bytes),
        "ptx_lines": candidate.ptx_lines or None,
        "occupancy": occupancy,
        "picked": is_picked,
        "autotuner_s": build.timing_s or None,
        "error": build.error or None,
    }


def _known(number: int) -> int | None:
    return None if number == NOT_KNOWN else number


def _occupancy(occupancy: Occupancy) -> Json:
    return {
        "share": round(occupancy.share, 4),
        "blocks": occupancy.blocks,
        "warps": occupancy.warps,
        "limited_by": list(occupancy.limited_by),
    }


def kernel_estimate(reader: SessionReader, kernel: model.Kernel, gpu: Gpu | None) -> Json | None:
    """Return the estimate for a GPU; ``gpu`` is the virtual one. It is None if too little is known
    of the GPU, or if Inductor estimated no bytes.
    """
    shown_gpu = gpu or card(reader)
    if shown_gpu is None or kernel.estimated_bytes < 0:
        return None
    if gpu:
        rows = builds(reader, kernel, gpu)
    else:
        rows = real_builds(reader, kernel)
    built = [row for row in rows if row.state == "built"]
    # The configuration that runs, where the autotuner has picked one.
    built.sort(key=lambda row: not row.is_picked)
    build = built[0] if built else None
    roofline = estimate(reader, kernel, shown_gpu, build)
    if not roofline.estimated_s:
        return None
    bound = None if roofline.bound == "unknown" else roofline.bound
    return {
        "bytes": kernel.estimated_bytes,
        "flops": _known(kernel.estimated_flops),
        "kind": roofline.kind,
        "bound": bound,
        "memory_s": roofline.memory_s,
        "arithmetic_s": roofline.arithmetic_s,
        "seconds": roofline.estimated_s,
    }
