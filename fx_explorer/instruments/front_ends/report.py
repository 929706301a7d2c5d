"""This module writes other front ends for the JSON report: their graphs in figures, line by line
beside Dynamo's, and in words.
"""

from __future__ import annotations

from fx_explorer import model
from fx_explorer.instruments.front_ends.answers import LineOfBoth, Seen, refusal, seen_by_dynamo
from fx_explorer.instruments.front_ends.differences import compare_with_dynamo, differences
from fx_explorer.session import SessionReader

Json = dict[str, object]


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
