"""The JSON report gets other front ends than Dynamo from this module: their graphs in figures, line
by line beside Dynamo's, and in words.
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
    told = refusal(row)
    both = compare_with_dynamo(reader, row, dynamo) if row.graph else None
    return {
        "name": row.name,
        "function": model.FRONT_END_CALLS[row.name],
        "state": row.state,
        "seconds": row.duration_s,
        "nodes": len(both.other.nodes) if both else 0,
        "ops": both.other.operators if both else {},
        "opcodes": _opcodes(both.other) if both else {},
        "beside_dynamo": differences(both) if both else [],
        "lines": [_line(line) for line in both.lines] if both else [],
        "inputs": row.inputs or {},
        "outputs": row.outputs or {},
        "ranges": row.ranges or {},
        "error": row.error or None,
        "explanation": told.why if told else None,
        "advice": told.advice or None if told else None,
        "file": row.file,
        "line": row.line,
        "code": row.code,
        "remarks": list(row.remarks),
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
