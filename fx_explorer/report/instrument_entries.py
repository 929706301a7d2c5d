"""This module writes what instruments found for the JSON report: graph breaks with their cause,
their cost and the calls of functions; recompiles and how to avoid them; regions; other front ends
beside Dynamo.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.annotated_regions import Lowering, Region
from fx_explorer.analysis.naming import plain_code, plain_function
from fx_explorer.instruments.breaks.break_cost import BreakCost
from fx_explorer.instruments.breaks.call_tree import DistinctFallback, FunctionCall
from fx_explorer.instruments.breaks.cut_tensors import KeptAcross, Tensors
from fx_explorer.instruments.breaks.grouped import DistinctBreak
from fx_explorer.instruments.front_ends.answers import LineOfBoth, Seen, refusal, seen_by_dynamo
from fx_explorer.instruments.front_ends.scope_differences import compare_with_dynamo, differences
from fx_explorer.instruments.recompiles.causes import ExplainedRecompile, LimitHit
from fx_explorer.instruments.recompiles.guard_changes import GuardChange
from fx_explorer.session import SessionReader

Json = dict[str, object]


def graph_break(reader: SessionReader, distinct_break: DistinctBreak) -> Json:
    """Return a graph break as JSON: its cause, the graphs and tensors around it, its cost, and the
    parts that run in eager mode.
    """
    return {
        "id": distinct_break.registry_id or None,
        "reason": distinct_break.reason,
        "explanation": distinct_break.explanation,
        "hints": list(distinct_break.hints),
        "torch_hints": list(distinct_break.torch_hints),
        "file": distinct_break.file,
        "line": distinct_break.line,
        "column": distinct_break.column or None,
        "code": distinct_break.code,
        "carets": distinct_break.carets,
        "chain": [
            {"file": f.file, "line": f.line, "function": f.function, "code": f.code}
            for f in distinct_break.chain
        ],
        "count": distinct_break.count,
        "compilations": list(distinct_break.compilations),
        "resume_functions": list(distinct_break.resume_functions),
        "goes_on_in": [plain_function(name) for name in distinct_break.resume_functions],
        "eager_rests": [
            {"function": rest.function, "line": rest.line or None}
            for rest in distinct_break.eager_rests
        ],
        "not_resumed": list(distinct_break.not_resumed),
        "cost": _cost(reader, distinct_break.cost),
    }


def _cost(reader: SessionReader, cost: BreakCost) -> Json:
    iqr_s = cost.run.iqr_s if cost.run else None
    calls = cost.run.call.runs if cost.run else None
    return {
        "functions_in_python": cost.functions_in_python,
        "rests_in_python": cost.rests_in_python,
        "extra_graphs": cost.extra_graphs,
        "read_again": _tensors(cost.read_again),
        "handed_over": _tensors(cost.handed_over),
        "saved": _tensors(cost.saved),
        "kept_twice": _tensors(cost.kept_twice),
        "kept_across": [_kept(reader, kept_across) for kept_across in cost.kept_across],
        "kernels": cost.kernels,
        "run_s": cost.run_s,
        "run_iqr_s": iqr_s,
        "run_calls": calls,
    }


def _dimension(dim: str) -> int | str:
    """Return a size as a number; a dynamic one by its name."""
    return int(dim) if dim.isdecimal() else dim


def _kept(reader: SessionReader, kept_across: KeptAcross) -> Json:
    row = kept_across.kept_behind[0]
    behind = next(iter(reader.by_ids(model.Compilation, [row.compilation])), None)
    return {
        "source": plain_code(kept_across.source, behind),
        "shape": [_dimension(dim) for dim in row.shape],
        "dtype": row.dtype,
        "bytes": row.size_bytes or None,
        "crosses": kept_across.crosses,
        "kept_before": [kept.name for kept in kept_across.kept_before],
        "kept_behind": [kept.name for kept in kept_across.kept_behind],
    }


def measured_call(call: model.CallTime | None) -> Json | None:
    if call is None:
        return None
    return {
        "median_s": call.median_s,
        "iqr_s": call.iqr_s,
        "graphs_s": call.graphs_s,
        "calls": call.runs,
        "device": call.device,
    }


def _tensors(tensors: Tensors) -> Json:
    return {
        "tensors": tensors.count,
        "bytes": tensors.size_bytes,
        "unknown_sizes": tensors.unknown_sizes,
    }


def fallback(distinct_fallback: DistinctFallback) -> Json:
    return {
        "kind": distinct_fallback.kind,
        "function": distinct_fallback.function,
        "file": distinct_fallback.file,
        "line": distinct_fallback.line,
        "id": distinct_fallback.registry_id or None,
        "reason": distinct_fallback.reason,
        "explanation": distinct_fallback.explanation,
        "hints": list(distinct_fallback.hints),
        "count": distinct_fallback.count,
        "nothing_to_compile": distinct_fallback.has_nothing_to_compile,
    }


DEEPEST = 100
"""Deepest nesting of the JSON. Many readers refuse more, so deeper calls are put in one list."""


def called(call: FunctionCall, depth: int = 0) -> Json:
    if depth < DEEPEST:
        below = [called(inner, depth + 1) for inner in call.calls]
    else:
        below = [_alone(each) for each in call.walk()][1:]
    return {**_alone(call), "calls": below}


def _alone(call: FunctionCall) -> Json:
    return {
        "function": call.function,
        "file": call.file,
        "line": call.line,
        "called_at": call.called_at or None,
        "resume": call.is_resume,
        "compilations": [row.name for row in call.compilations],
        "graphs": len(call.graphs),
        "calls": [],
    }


def recompile(explained_recompile: ExplainedRecompile) -> Json:
    """Return one recompile as JSON: the change, and how to avoid it."""
    return {
        "compilation": explained_recompile.compilation,
        "of": explained_recompile.of,
        "is_cause": explained_recompile.is_cause,
        "times": explained_recompile.times,
        "reason": explained_recompile.reason,
        "in_words": explained_recompile.description,
        "guard": explained_recompile.guard,
        "file": explained_recompile.file,
        "line": explained_recompile.line,
        "change": _change(explained_recompile.change),
        "called_from": _place(*explained_recompile.called_from),
        "graphs": explained_recompile.graphs,
        "remedy": explained_recompile.remedy,
    }


def _change(change: GuardChange) -> Json:
    return {
        "kind": change.kind,
        "name": change.name,
        "where": change.where or None,
        "index": change.index,
        "old": change.old or None,
        "new": change.new or None,
    }


def _place(file: str, line: int) -> Json | None:
    return {"file": file, "line": line} if file else None


def limit_hit(hit: LimitHit) -> Json:
    """Return the JSON of a recompile limit that was hit: the function, and the option that sets the
    limit.
    """
    return {
        "compilation": hit.compilation,
        "function": hit.function,
        "file": hit.file,
        "line": hit.line,
        "option": hit.option,
        "limit": hit.limit,
        "compiled": hit.compiled,
        "raises": hit.is_error,
        "in_words": hit.description,
    }


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


def front_ends(reader: SessionReader) -> list[Json]:
    """Return an object for each front end that was asked (``--frontend``), in the order in which
    they were.
    """
    rows = reader.rows(model.FrontEnd)
    dynamo = seen_by_dynamo(reader) if rows else None
    return [_front_end(reader, row, dynamo) for row in rows if dynamo]


def _front_end(reader: SessionReader, row: model.FrontEnd, dynamo: Seen) -> Json:
    refused = refusal(row)
    explanation = refused.why if refused else None
    advice = refused.advice if refused else ""
    return {
        "name": row.name,
        "function": model.FRONT_END_CALLS[row.name],
        "state": row.state,
        "seconds": row.duration_s,
        **_graph(reader, row, dynamo),
        "inputs": row.inputs or {},
        "outputs": row.outputs or {},
        "ranges": row.ranges or {},
        "error": row.error or None,
        "explanation": explanation,
        "advice": advice or None,
        "file": row.file,
        "line": row.line,
        "code": row.code,
        "remarks": list(row.remarks),
    }


def _graph(reader: SessionReader, row: model.FrontEnd, dynamo: Seen) -> Json:
    """Return the content of a front end's graph as JSON; empty for a front end without a graph."""
    if not row.graph:
        return {"nodes": 0, "ops": {}, "opcodes": {}, "beside_dynamo": [], "lines": []}
    both = compare_with_dynamo(reader, row, dynamo)
    return {
        "nodes": len(both.other.nodes),
        "ops": both.other.operators,
        "opcodes": _opcodes(both.other),
        "beside_dynamo": differences(both),
        "lines": [_line(line) for line in both.lines],
    }


def _opcodes(seen: Seen) -> dict[str, int]:
    counts: dict[str, int] = {}
    for node in seen.nodes:
        counts[node.op] = counts.get(node.op, 0) + 1
    return counts


def _line(line: LineOfBoth) -> Json:
    return {
        "file": line.file,
        "line": line.line,
        "dynamo": list(line.dynamo),
        "front_end": list(line.other),
    }
