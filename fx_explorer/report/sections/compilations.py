"""Compilations in the JSON report, with their other variants, what was changed by hand, and the totals of all."""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.compile_time.timing import stage_times
from fx_explorer.analysis.guards.kinds import guard_kinds
from fx_explorer.analysis.measured_times import measured
from fx_explorer.analysis.naming.functions import function_of
from fx_explorer.analysis.variants.other_variants import OtherVariant
from fx_explorer.analysis.whole_session.figures import totals
from fx_explorer.report.sections.kernels import kernels_of
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graph.graphs import target_counts
from fx_explorer.session.queries.graph.regions import annotated_count
from fx_explorer.session.queries.guards import check_count, filtered

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
        "guard_kinds": {one.kind: one.count for one in guard_kinds(reader, row.id)},
        "dropped_guards": {one.filter: one.dropped for one in filtered(reader, row.id)},
        "seconds": {stage or "other": round(spent, 6) for stage, spent in times.by_stage.items()},
        "total_s": round(times.total_s, 6),
        "measured": _measured(reader, row),
    }


def other_variant(reader: SessionReader, one: OtherVariant) -> Json:
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
        "graphs": [
            _graph(reader, graph) for graph in reader.rows(model.Graph, compilation=variant.id)
        ],
    }


def intervention(reader: SessionReader, one: model.Intervention) -> Json:
    """Return what the user changed at a gate, and how many nodes the graph had before and after."""
    sizes = {
        graph.id: graph.node_count for graph in reader.by_ids(model.Graph, (one.before, one.after))
    }
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


def _measured(reader: SessionReader, variant: model.Compilation) -> Json:
    """Return what was measured of a variant, by what was run; empty when nothing was."""
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
