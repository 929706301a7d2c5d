"""The report as JSON: the contract ``fx-explorer/report/1``, described by
``docs/report-schema.json``.

Within a version fields are only added. Whatever a session cannot know is empty or null here, never
guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fx_explorer import model
from fx_explorer.analysis.backends.amounts import summaries
from fx_explorer.analysis.backends.support import backend_support
from fx_explorer.analysis.bench.cells import bench_figures
from fx_explorer.analysis.breaks.grouped import distinct_breaks
from fx_explorer.analysis.call_tree import call_trees
from fx_explorer.analysis.guards.kinds import guard_kinds
from fx_explorer.analysis.guards.symbols import ExplainedSymbol, symbols
from fx_explorer.analysis.kernels.candidates import session_gpu
from fx_explorer.analysis.kernels.costs import kernel_costs
from fx_explorer.analysis.ledger.figures import ledger_figures
from fx_explorer.analysis.links.coverage import LinkCoverage, link_coverage
from fx_explorer.analysis.links.own_kernels import definition
from fx_explorer.analysis.measured_times import call_time, measured
from fx_explorer.analysis.memory.choices import choices, why
from fx_explorer.analysis.naming.functions import function_of
from fx_explorer.analysis.options.explained_options import explained_options
from fx_explorer.analysis.overview.children import children
from fx_explorer.analysis.overview.console import ExplainedFailure, failures
from fx_explorer.analysis.overview.fallbacks import left_to_python
from fx_explorer.analysis.recompiles.causes import ExplainedRecompile, LimitHit, limit_hits, recompiles
from fx_explorer.analysis.recompiles.changes import GuardChange
from fx_explorer.analysis.regions.annotated_regions import Lowering, Region, regions
from fx_explorer.analysis.saved_values import SavedValue, kept_bytes, saved_values, user_names
from fx_explorer.analysis.timing import stage_times
from fx_explorer.analysis.totals import totals
from fx_explorer.analysis.variants.lineage import first_variants
from fx_explorer.analysis.variants.other_variants import OtherVariant, other_variants
from fx_explorer.report.backends import backends_of_report
from fx_explorer.report.bytecode_run import bytecode_run
from fx_explorer.report.compile_options import compile_option
from fx_explorer.report.front_ends import front_ends
from fx_explorer.report.graph_breaks import called, fallback, graph_break, measured_call
from fx_explorer.report.kernel_configs import kernel_configs, kernel_estimate, kernel_launches
from fx_explorer.report.kernel_costs import kernel_cost
from fx_explorer.report.performance.bench_report import bench_object
from fx_explorer.report.performance.ledger_report import ledger_object
from fx_explorer.report.performance.memory_report import memory_of_report
from fx_explorer.report.stages import stages_of_report
from fx_explorer.report.support_report import support_object
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graphs import target_counts
from fx_explorer.session.queries.guards import check_count, filtered
from fx_explorer.session.queries.kernels import kernel_nodes
from fx_explorer.session.queries.regions import annotated_count
from fx_explorer.session.queries.sources import source_paths

SCHEMA = "fx-explorer/report/1"

Json = dict[str, object]


def json_report(reader: SessionReader) -> Json:
    """Return everything that the session knows, in figures. All of it comes from one moment, also
    while the session is being written.
    """
    with reader.snapshot():
        return {
            "schema": SCHEMA,
            "fx_explorer": reader.meta("fx_explorer", ""),
            "environment": _environment(reader),
            "target": _target(reader),
            "outcome": reader.meta("outcome"),
            "totals": _totals(reader),
            "compilations": [_compilation(reader, row) for row in first_variants(reader)],
            "variants": [_other_variant(reader, one) for one in other_variants(reader)],
            "interventions": [_intervention(reader, one) for one in reader.rows(model.Intervention)],
            "graph_breaks": [graph_break(one) for one in distinct_breaks(reader)],
            "measured_call": measured_call(call_time(reader)),
            "left_to_python": [fallback(one) for one in left_to_python(reader)],
            "calls": [called(one) for one in call_trees(reader)],
            "child_processes": [_child_process(one) for one in children(reader).everyone],
            "recompiles": [_recompile(one) for one in recompiles(reader)],
            "recompile_limits": [_limit_hit(one) for one in limit_hits(reader)],
            "symbols": [_symbol(one) for one in symbols(reader)],
            "stages": stages_of_report(reader),
            "saved_tensors": _saved_tensors(reader),
            "regions": [_region(one) for one in regions(reader)],
            "links": {one.direction: _links(one) for one in link_coverage(reader) if one.direction},
            "failures": [_failure(one) for one in failures(reader)],
            "bytecode_run": bytecode_run(reader),
            "backends": backends_of_report(reader),
            "bench": _bench(reader),
            "ledger": _ledger(reader),
            "memory": memory_of_report(reader),
            "support": support_object(summaries(reader), backend_support(reader)),
            "front_ends": front_ends(reader),
            "compile_options": [compile_option(one) for one in explained_options(reader)],
        }


def _bench(reader: SessionReader) -> Json | None:
    """Return the session's last bench; None when it has none."""
    figures = bench_figures(reader)
    return bench_object(figures) if figures else None


def _ledger(reader: SessionReader) -> Json | None:
    """Return the session's last ledger; None when it has none."""
    figures = ledger_figures(reader)
    return ledger_object(figures) if figures else None


def _symbol(one: ExplainedSymbol) -> Json:
    """Return a dynamic size; ``became`` is null for one that stayed free, ``fixed_at`` null where
    it is not known who fixed it.
    """
    symbol, fixed, (file, line) = one.symbol, one.specialized, one.made_at
    return {
        "compilation": one.compilation,
        "name": symbol.name,
        "user_name": one.name,
        "sources": list(symbol.sources),
        "hint": symbol.hint or None,
        "range": symbol.final_range or symbol.range,
        "became": symbol.became or None,
        "file": file,
        "line": line,
        "fixed_at": {"file": fixed.file, "line": fixed.line} if fixed and fixed.file else None,
        "guards": len(one.guards),
    }


def _advice(told: Json) -> Json:
    """Return what makes the code that of the GPU, where the program asks about the device."""
    return {"advice": "--no-weights"} if told["questions"] else {}


def _environment(reader: SessionReader) -> Json:
    """Return the environment as recorded. ``gpu`` is the virtual one the capture was made for, null
    without one; ``gpu_present`` is the machine's own.
    """
    # A session that was cut off before the program began has no environment.
    recorded: Json = dict(reader.meta("environment") or {})
    present, virtual = recorded.pop("gpu", None), recorded.pop("virtual_gpu", None)
    told = reader.meta("virtual_gpu")
    emulated = (
        {"virtual_gpu": {name: told[name] for name in ("feeding", "reason", "questions")} | _advice(told)} if told else {}
    )
    return {**recorded, "gpu": virtual, "gpu_present": present, **emulated}


def _target(reader: SessionReader) -> Json:
    target: Json = dict(reader.meta("target") or {})
    request = reader.meta("request") or {}
    return {"name": request.get("target", ""), **target, "build": bool(reader.meta("build", False))}


def _totals(reader: SessionReader) -> Json:
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


def _compilation(reader: SessionReader, row: model.Compilation) -> Json:
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
        "kernels": _kernels(reader, row),
        "guards": check_count(reader, row.id),
        "guard_kinds": {one.kind: one.count for one in guard_kinds(reader, row.id)},
        "dropped_guards": {one.filter: one.dropped for one in filtered(reader, row.id)},
        "seconds": {stage or "other": round(spent, 6) for stage, spent in times.by_stage.items()},
        "total_s": round(times.total_s, 6),
        "measured": _measured(reader, row),
    }


def _measured(reader: SessionReader, variant: model.Compilation) -> Json:
    """Return what was measured of a variant, by what was run; empty when nothing was."""
    return {
        what: {"median_s": row.median_s, "iqr_s": row.iqr_s, "runs": row.runs, "device": row.device}
        for what, row in measured(reader, variant).items()
    }


def _other_variant(reader: SessionReader, one: OtherVariant) -> Json:
    """Return another variant. ``kernels`` are all that run when it does; ``graphs`` are those that
    are its own.
    """
    variant = one.variant
    return {
        "id": variant.name,
        "of": variant.variant_of,
        "from": variant.variant_from,
        "changes": variant.changes or {},
        "status": variant.status,
        "error": variant.error or None,
        "in_use": variant.in_use,
        "seconds": round(one.seconds, 6),
        "saved_s": round(variant.saved_s, 6),
        "measured": _measured(reader, variant),
        "kernels": list(one.kernels),
        "graphs": [_graph(reader, graph) for graph in reader.rows(model.Graph, compilation=variant.id)],
    }


def _intervention(reader: SessionReader, one: model.Intervention) -> Json:
    sizes = {graph.id: graph.node_count for graph in reader.by_ids(model.Graph, (one.before, one.after))}
    owners = [owner.name for owner in reader.by_ids(model.Compilation, [one.compilation])]
    return {
        "compilation": owners[0] if owners else None,
        "gate": one.gate,
        "direction": one.direction or None,
        "kind": one.kind,
        "title": one.title,
        "nodes_before": sizes.get(one.before),
        "nodes_after": sizes.get(one.after),
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


def _kernels(reader: SessionReader, compilation: model.Compilation) -> list[Json]:
    computed = kernel_nodes(reader, compilation.id)
    # All nodes at once: one query per kernel would be thousands for a large model.
    every = {node for nodes in computed.values() for node in nodes}
    nodes = {node.id: node for node in reader.by_ids(model.Node, every)}
    paths = source_paths(reader)
    kernels = reader.rows(model.Kernel, compilation=compilation.id)
    kernels.sort(key=lambda k: (model.DIRECTIONS.index(k.direction), k.position))
    gpu = session_gpu(reader)
    costs = {one.use.kernel.id: one for one in kernel_costs(reader, compilation.id)}
    found = [_kernel(kernel, [nodes[i] for i in computed.get(kernel.id, ())], paths) for kernel in kernels]
    for kernel, one in zip(kernels, found, strict=True):
        one["written_at"] = _written_at(reader, kernel)
        one["configs"] = kernel_configs(reader, kernel, gpu)
        one["launches"] = kernel_launches(reader, kernel)
        one["estimate"] = kernel_estimate(reader, kernel, gpu)
        one |= kernel_cost(costs[kernel.id]) if kernel.id in costs else {}
    return found


def _written_at(reader: SessionReader, kernel: model.Kernel) -> Json | None:
    """Return where a Triton kernel of the user's own is in the user's file; None for any other
    kernel.
    """
    place = definition(reader, kernel.artifact)
    path = reader.get(model.SourceFile, place.document.id).path if place else ""
    return {"file": path, "line": place.line + 1} if place else None


def _kernel(kernel: model.Kernel, nodes: list[model.Node], paths: dict[int, str]) -> Json:
    return {
        "name": kernel.name,
        "language": kernel.language,
        "direction": kernel.direction or None,
        "nodes": [node.name for node in nodes],
        "sources": _sources(nodes, paths),
    }


def _sources(nodes: Iterable[model.Node], paths: dict[int, str]) -> list[Json]:
    """Return the distinct user lines, most frequent first."""
    lines = Counter((paths[node.file], node.line) for node in nodes if node.file in paths)
    return [{"file": file, "line": line} for (file, line), _ in lines.most_common()]


def _recompile(one: ExplainedRecompile) -> Json:
    """Return one recompile: what changed, what it became, and what avoids it."""
    return {
        "compilation": one.compilation,
        "of": one.of,
        "is_cause": one.is_cause,
        "times": one.times,
        "reason": one.reason,
        "in_words": one.in_words,
        "guard": one.guard,
        "file": one.file,
        "line": one.line,
        "change": _change(one.change),
        "called_from": _place(*one.called_from),
        "graphs": one.graphs,
        "remedy": one.remedy,
    }


def _change(one: GuardChange) -> Json:
    return {
        "kind": one.kind,
        "name": one.name,
        "where": one.where or None,
        "index": one.index,
        "old": one.old or None,
        "new": one.new or None,
    }


def _child_process(one: model.ChildProcess) -> Json:
    return {
        "pid": one.pid or None,
        "beginning": one.beginning,
        "command": one.command,
        "unseen": one.unseen or None,
        "compilations": one.compilations,
        "graphs": one.graphs,
        "graph_break_hits": one.graph_breaks,
        "recompiles": one.recompiles,
    }


def _place(file: str, line: int) -> Json | None:
    return {"file": file, "line": line} if file else None


def _limit_hit(one: LimitHit) -> Json:
    return {
        "compilation": one.compilation,
        "function": one.function,
        "file": one.file,
        "line": one.line,
        "option": one.option,
        "limit": one.limit,
        "compiled": one.compiled,
        "raises": one.is_error,
        "in_words": one.in_words,
    }


def _saved_tensors(reader: SessionReader) -> list[Json]:
    decided, values = choices(reader), saved_values(reader)
    names = user_names(reader, values)
    return [
        _saved_tensor(one, decided.get((one.saved.compilation, one.saved.name)), names.get(one.saved.id, one.saved.name))
        for one in values
    ]


def _saved_tensor(one: SavedValue, choice: model.PartitionChoice | None, name: str) -> Json:
    """Return one value that the forward saves. A size that is a symbol stays text."""
    saved = one.saved
    return {
        "compilation": one.compilation,
        "name": saved.name,
        "user_name": name,
        "kind": saved.kind,
        "shape": [int(dim) if dim.isdecimal() else dim for dim in saved.shape],
        "dtype": saved.dtype,
        "bytes": saved.size_bytes,
        "storage": saved.storage or None,
        "storage_bytes": kept_bytes(saved),
        "why": why(choice) if choice else None,
        "weight": choice.weight if choice and choice.weight >= 0 else None,
        "producer": one.producer or None,
        "file": one.file or None,
        "line": one.line or None,
        "consumers": list(one.consumers),
    }


def _region(one: Region) -> Json:
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


def _lowering(one: Lowering) -> Json:
    row = one.row
    return {
        "compilation": one.compilation,
        "direction": row.direction,
        "subgraph": row.subgraph or None,
        "nodes": row.nodes,
        "configs": row.configs or {},
        "reused": row.is_reused,
        "seconds": round(row.duration_s, 6),
        "kernels": list(one.kernels),
        "reason": row.reason or None,
    }


def _links(one: LinkCoverage) -> Json:
    return {
        "nodes": one.nodes,
        "compute_nodes": one.compute_nodes,
        "to_source": one.to_source,
        "to_kernel": one.to_kernel,
        "kernel_lines": one.kernel_lines,
        "kernel_lines_linked": one.kernel_lines_linked,
    }


def _failure(one: ExplainedFailure) -> Json:
    return {
        "compilation": one.compilation or None,
        "where": one.failure.where,
        "stage": one.failure.stage,
        "kind": one.failure.kind,
        "message": one.failure.message,
        "traceback": one.traceback,
    }
