"""This module writes graph breaks for the JSON report: the cause, the cost, the parts that run in
eager mode, and the calls around the break.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.analysis.naming import plain_code, plain_function
from fx_explorer.instruments.breaks.break_cost import BreakCost
from fx_explorer.instruments.breaks.call_tree import DistinctFallback, FunctionCall
from fx_explorer.instruments.breaks.cut_tensors import KeptAcross, Tensors
from fx_explorer.instruments.breaks.grouped import DistinctBreak
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
