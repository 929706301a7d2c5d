"""This module writes the report as JSON: the contract ``fx-explorer/report/1``, described by
``docs/reference/report-schema.json``.

Within a version fields are only added. Whatever a session cannot know is empty or null here, never
guessed.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import regions
from fx_explorer.analysis.cuda_graph_states import CudaGraph, CudaGraphReason, cuda_graphs
from fx_explorer.analysis.lineage import first_variants
from fx_explorer.analysis.link_explanations import LinkCoverage, link_coverage
from fx_explorer.analysis.measured_times import call_time
from fx_explorer.analysis.other_variants import other_variants
from fx_explorer.analysis.stage_data import FATES, StageWork
from fx_explorer.analysis.stage_work import MOST_COMPILATIONS, points_in_use, stage_work
from fx_explorer.analysis.step_record import COMPILED_GRAPH, read_record
from fx_explorer.analysis.whole_session import is_log, not_in_text
from fx_explorer.findings.every_kind import findings, search
from fx_explorer.findings.report import finding_object
from fx_explorer.instruments.backends.amounts import summaries
from fx_explorer.instruments.backends.report import backends_of_report, support_object
from fx_explorer.instruments.backends.support import backend_support
from fx_explorer.instruments.bench.cells import bench_figures
from fx_explorer.instruments.bench.report import bench_object
from fx_explorer.instruments.breaks.call_tree import call_trees, distinct_fallbacks
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.compile_time.cache_report import caches_of_report
from fx_explorer.instruments.guards.symbols import ExplainedSymbol, symbols
from fx_explorer.instruments.ledger.figures import ledger_figures
from fx_explorer.instruments.ledger.report import ledger_object
from fx_explorer.instruments.memory.report import memory_of_report, saved_tensors
from fx_explorer.instruments.memory.snapshot_figures import figures_of as snapshot_figures_of
from fx_explorer.instruments.memory.snapshot_report import snapshot_object
from fx_explorer.instruments.numerics.figures import numerics_of
from fx_explorer.instruments.numerics.report import numerics_object
from fx_explorer.instruments.options.explained_options import explained_options
from fx_explorer.instruments.options.report import compile_option
from fx_explorer.instruments.recompiles.causes import limit_hits, recompiles
from fx_explorer.model.study import META, parts_as_json, parts_from_json
from fx_explorer.overview.child_processes import children
from fx_explorer.overview.ending import ExplainedFailure, failures
from fx_explorer.overview.plugin_tables import plugin_sections
from fx_explorer.report.asked_beside import asked_beside
from fx_explorer.report.compilation_entries import (
    compilation,
    intervention,
    other_variant,
    total_figures,
)
from fx_explorer.report.compiler_decisions import (
    collectives_of_report,
    decisions_of_whole_report,
    decompositions_of_report,
    fusion_of_report,
    passes_of_report,
    side_effects_of_report,
    values_of_report,
)
from fx_explorer.report.instrument_entries import (
    called,
    fallback,
    front_ends,
    graph_break,
    limit_hit,
    measured_call,
    recompile,
    region,
)
from fx_explorer.report.sections import MOST_ROWS, section_object, section_of
from fx_explorer.session import SessionReader


def cuda_graphs_of_report(reader: SessionReader) -> dict[str, object] | None:
    """Return what happened to each graph; None if no CUDA graphs were requested."""
    graphs = cuda_graphs(reader)
    if not graphs.asked and not graphs.graphs:
        return None
    return {
        "asked": graphs.asked or None,
        "has_run": graphs.has_run,
        "graphs": [_graph(graph) for graph in graphs.graphs],
    }


def _graph(graph: CudaGraph) -> dict[str, object]:
    return {
        "graph": graph.name,
        "state": graph.state,
        "reasons": [_reason(reason) for reason in graph.reasons],
        "parts": graph.parts,
        "recorded": graph.recorded,
        "replayed": graph.replayed,
        "sizes": graph.sizes,
        "why_again": list(graph.why_again),
        "mutated": graph.mutated or None,
    }


def _reason(reason: CudaGraphReason) -> dict[str, object]:
    return {"reason": reason.text, "file": reason.file or None, "line": reason.line or None}


def _outcome(reader: SessionReader) -> object:
    """Return how the program ended; None for a log that was read to its end: it does not say."""
    outcome = reader.meta("outcome")
    if outcome and is_log(reader) and model.Outcome.from_json(outcome).went_well:
        return None
    return outcome


def environment(reader: SessionReader) -> dict[str, object]:
    """Return the recorded environment. ``gpu`` is the virtual GPU of the capture, null without one;
    ``gpu_present`` is the machine's own.
    """
    # A session that was cut off before the program began has no environment.
    recorded: dict[str, object] = dict(reader.meta("environment") or {})
    present, virtual = recorded.pop("gpu", None), recorded.pop("virtual_gpu", None)
    capture = reader.meta("virtual_gpu")
    if not capture:
        return {**recorded, "gpu": virtual, "gpu_present": present}
    emulated = {name: capture[name] for name in ("feeding", "reason", "questions")}
    for name in ("placeholders", "unsaved"):
        emulated[name] = capture.get(name, [])
    # What makes the code that of the GPU, where the program asks about the device.
    if capture["questions"]:
        emulated["advice"] = "--no-weights"
    return {**recorded, "gpu": virtual, "gpu_present": present, "virtual_gpu": emulated}


def target(reader: SessionReader) -> dict[str, object]:
    """Return the captured target, by the name that the user typed if the worker did not find it."""
    recorded: dict[str, object] = dict(reader.meta("target") or {})
    request = reader.meta("request") or {}
    return {
        "name": request.get("target", ""),
        **recorded,
        "build": bool(reader.meta("build", False)),
    }


SCHEMA = "fx-explorer/report/1"

Json = dict[str, object]


def json_report(reader: SessionReader) -> Json:
    """Return the whole session in figures. All of it is read from one moment, even if the session
    is being written. A half of the time goes into memory, which a second process computes.
    """
    with asked_beside(reader, _memory) as memory, reader.snapshot():
        report: Json = {
            "schema": SCHEMA,
            "fx_explorer": reader.meta("fx_explorer", ""),
            "environment": environment(reader),
            "target": target(reader),
            "outcome": _outcome(reader),
            "totals": total_figures(reader),
            "not_in_text": not_in_text(reader),
            "compilations": [compilation(reader, row) for row in first_variants(reader)],
            "variants": [other_variant(reader, variant) for variant in other_variants(reader)],
            "interventions": [intervention(reader, row) for row in reader.rows(model.Intervention)],
            "graph_breaks": [graph_break(reader, distinct) for distinct in distinct_breaks(reader)],
            "findings": [finding_object(finding) for finding in findings(reader)],
            "looked_for": list(search(reader).looked_for),
            "not_looked_for": list(search(reader).not_looked_for),
            "measured_call": measured_call(call_time(reader)),
            "eager_functions": [fallback(distinct) for distinct in distinct_fallbacks(reader)],
            "calls": [called(call) for call in call_trees(reader)],
            "child_processes": [child_process(process) for process in children(reader).everyone],
            "recompiles": [recompile(explained) for explained in recompiles(reader)],
            "recompile_limits": [limit_hit(hit) for hit in limit_hits(reader)],
            "symbols": [symbol(explained) for explained in symbols(reader)],
            "stages": stages_of_report(reader),
            "fusion": fusion_of_report(reader),
            "passes": passes_of_report(reader),
            "decompositions": decompositions_of_report(reader),
            "side_effects": side_effects_of_report(reader),
            "decisions": decisions_of_whole_report(reader),
            "values": values_of_report(reader),
            "collectives": collectives_of_report(reader),
            "saved_tensors": None,
            "regions": [region(kind) for kind in regions(reader)],
            "links": _links(reader),
            "failures": [failure(explained) for explained in failures(reader)],
            "bytecode_run": bytecode_run(reader),
            "backends": backends_of_report(reader),
            "bench": _bench(reader),
            "numerics": _numerics(reader),
            "study": _study(reader),
            "ledger": _ledger(reader),
            "memory": None,
            "memory_snapshot": _memory_snapshot(reader),
            "cuda_graphs": cuda_graphs_of_report(reader),
            "support": support_object(summaries(reader), backend_support(reader)),
            "front_ends": front_ends(reader),
            "caches": caches_of_report(reader),
            "compile_options": [compile_option(option) for option in explained_options(reader)],
            "plugins": [
                section_object(section_of(reader, table.name), MOST_ROWS)
                for table in plugin_sections()
            ],
        }
        report.update(memory())  # in their places
        return report


def _memory(reader: SessionReader) -> Json:
    """Return the sections that follow from when each tensor is allocated and freed."""
    return {"saved_tensors": saved_tensors(reader), "memory": memory_of_report(reader)}


def _links(reader: SessionReader) -> dict[str, Json]:
    """Return how many places of each direction are linked."""
    links: dict[str, Json] = {}
    for coverage in link_coverage(reader):
        if coverage.direction:
            links[coverage.direction] = linked(coverage)
    return links


def _numerics(reader: SessionReader) -> Json | None:
    """Return the session's comparison with eager mode; None without one."""
    numerics = numerics_of(reader)
    return numerics_object(numerics) if numerics else None


def _memory_snapshot(reader: SessionReader) -> Json | None:
    """Return the session's CUDA memory snapshot; None without one."""
    figures = snapshot_figures_of(reader)
    return snapshot_object(reader, figures) if figures else None


def _study(reader: SessionReader) -> list[Json]:
    """Return the parts of a study, and how each ended; nothing without one."""
    return parts_as_json(parts_from_json(reader.meta(META) or []))


def _bench(reader: SessionReader) -> Json | None:
    """Return the session's last bench; None without one."""
    figures = bench_figures(reader)
    return bench_object(figures) if figures else None


def _ledger(reader: SessionReader) -> Json | None:
    """Return the session's last ledger; None without one."""
    figures = ledger_figures(reader)
    return ledger_object(figures) if figures else None


# What failed, in the JSON report.


def failure(explained_failure: ExplainedFailure) -> Json:
    """Return the JSON of one failure, with the user's innermost line and its traceback."""
    return {
        "compilation": explained_failure.compilation or None,
        "where": explained_failure.failure.where,
        "stage": explained_failure.failure.stage,
        "kind": explained_failure.failure.kind,
        "message": explained_failure.failure.message,
        "file": explained_failure.file or None,
        "line": explained_failure.line or None,
        "traceback": explained_failure.traceback,
    }


# How much of the graphs and kernels is linked, in the JSON report.


def linked(coverage: LinkCoverage) -> Json:
    """Return how many nodes and lines of one direction are linked."""
    return {
        "nodes": coverage.nodes,
        "compute_nodes": coverage.compute_nodes,
        "to_source": coverage.to_source,
        "to_kernel": coverage.to_kernel,
        "kernel_lines": coverage.kernel_lines,
        "kernel_lines_linked": coverage.kernel_lines_linked,
    }


# Processes that the program started, in the JSON report.


def child_process(process: model.ChildProcess) -> Json:
    """Return one process, with its compilations."""
    return {
        "pid": process.pid or None,
        "beginning": process.beginning,
        "command": process.command,
        "unseen": process.unseen or None,
        "compilations": process.compilations,
        "graphs": process.graphs,
        "graph_break_hits": process.graph_breaks,
        "recompiles": process.recompiles,
    }


# The recorded run of Dynamo's bytecode, in figures; its steps are for the app.


def bytecode_run(reader: SessionReader) -> Json | None:
    """Return the recorded run of bytecode; None without one."""
    record = read_record(reader)
    if record is None:
        return None
    run, functions = record.run, {step.call: step.function for step in record.steps}
    calls = [step.calls for step in record.steps]
    return {
        "inputs": run.inputs,
        "ended": run.ended or None,
        "steps": len(record.steps),
        "in_words": run.said or None,
        "functions": list(functions.values()),
        "graphs_called": [call for call in calls if call.startswith(COMPILED_GRAPH)],
    }


# Dynamic sizes in the JSON report.


def symbol(explained_symbol: ExplainedSymbol) -> Json:
    """Return a dynamic size; ``became`` is null for a size that stayed dynamic, ``fixed_at`` null
    if the place of the specialization is not known.
    """
    symbol = explained_symbol.symbol
    fixed = explained_symbol.specialized
    file, line = explained_symbol.made_at
    fixed_at = {"file": fixed.file, "line": fixed.line} if fixed and fixed.file else None
    return {
        "compilation": explained_symbol.compilation,
        "restarted": explained_symbol.is_of_given_up_attempt,
        "name": symbol.name,
        "user_name": explained_symbol.name,
        "sources": list(symbol.sources),
        "hint": symbol.hint or None,
        "range": symbol.final_range or symbol.range,
        "became": symbol.became or None,
        "file": file,
        "line": line,
        "fixed_at": fixed_at,
        "guards": len(explained_symbol.guards),
    }


# What each stage did, in the report.

MOST_NODES = 500_000


def stages_of_report(reader: SessionReader) -> list[Json] | None:
    """Return the stages of all compilations; None if there are too many."""
    nodes = sum(graph.node_count for graph in reader.rows(model.Graph))
    if nodes > MOST_NODES or reader.count(model.Compilation) > MOST_COMPILATIONS:
        return None
    restarted = {row.name for row in reader.rows(model.Compilation, status="restarted")}
    return [_stage(stage_work(reader, point), restarted) for point in points_in_use(reader)]


def _stage(work: StageWork, restarted: set[str]) -> Json:
    point = work.point
    return {
        "compilation": point.owner,
        "restarted": point.owner in restarted,
        "stage": point.key,
        "title": point.title,
        "direction": point.direction or None,
        "before": work.before,
        "after": work.after,
        "became": {fate: work.became[fate] for fate in FATES if work.became.get(fate)},
        "made": {fate: work.made[fate] for fate in FATES if work.made.get(fate)},
        "sentence": work.sentence,
    }
