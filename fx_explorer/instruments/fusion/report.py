"""This module makes the JSON of pairs of kernels that were not fused."""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.instruments.fusion.figures import CallOfKernel, Unfused, distinct_pairs


def pairs_of_report(pairs: Sequence[Unfused]) -> list[dict[str, object]]:
    """Return one object for each distinct pair, in the order that they have."""
    return [_pair(pair, count) for pair, count in distinct_pairs(pairs)]


def _pair(pair: Unfused, count: int) -> dict[str, object]:
    row = pair.pair
    return {
        "first": pair.first.kernel.name,
        "second": pair.second.kernel.name,
        "direction": pair.first.kernel.direction,
        "first_line": _line(pair.first),
        "second_line": _line(pair.second),
        "why": pair.cause.kind,
        "sentence": pair.cause.text,
        "inductor_says": row.reason,
        "check": row.check,
        "names": list(row.names),
        "state": row.state,
        "is_dependent": row.is_dependent,
        "is_exact": row.is_exact,
        "saved_bytes": row.saved_bytes,
        "saved_seconds": pair.saved_s or None,
        "buffers": list(row.buffers),
        "first_loops": row.first_loops,
        "second_loops": row.second_loops,
        "may_change_it": pair.cause.change,
        "times": count,
    }


def _line(call: CallOfKernel) -> str:
    if call.line is None:
        return ""
    file, line = call.line
    return f"{file}:{line}"
