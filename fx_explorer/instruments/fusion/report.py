"""This module makes the JSON and the printed table of pairs of kernels that were not fused."""

from __future__ import annotations

from collections.abc import Sequence

from fx_explorer.analysis.words import size
from fx_explorer.instruments.fusion.figures import CallOfKernel, Unfused, distinct_pairs
from fx_explorer.instruments.fusion.loop_nest_reasons import NestPair
from fx_explorer.instruments.fusion.printed_reasons import PrintedPair
from fx_explorer.instruments.fusion.tried_fusions import describe_tried
from fx_explorer.instruments.kernels.gpu_limits import microseconds
from fx_explorer.output.table import Column, Table
from fx_explorer.session import SessionReader
from fx_explorer.session.file_names import in_file

_COLUMNS = (
    Column("saves", is_number=True),
    Column("time", is_number=True, priority=2),
    Column("why apart"),
    Column("first", narrowing="cut", least=20),
    Column("second", narrowing="cut", least=20),
    Column("your lines", narrowing="cut", least=12, priority=1),
    Column("times", is_number=True, priority=3),
)


def pairs_as_table(pairs: Sequence[Unfused], limit: int) -> Table:
    """Return the distinct pairs, at most ``limit``, with the numbers that ``--together`` takes."""
    distinct = distinct_pairs(pairs)
    rows = []
    for pair, count in distinct[:limit]:
        lines = [in_file(*call.line) for call in (pair.first, pair.second) if call.line]
        rows.append(
            (
                size(pair.pair.saved_bytes),
                microseconds(pair.saved_s) if pair.saved_s else "",
                pair.cause.kind,
                f"#{pair.first.kernel.id} {pair.first.kernel.name}",
                f"#{pair.second.kernel.id} {pair.second.kernel.name}",
                " · ".join(dict.fromkeys(lines)),
                f"{count:,}",
            )
        )
    more = len(distinct) - len(rows)
    return Table(_COLUMNS, rows, note=f"{more:,} more: --limit" if more else "")


def pairs_of_report(reader: SessionReader, pairs: Sequence[Unfused]) -> list[dict[str, object]]:
    """Return one object for each distinct pair, in the order that they have."""
    return [_pair(reader, pair, count) for pair, count in distinct_pairs(pairs)]


def _pair(reader: SessionReader, pair: Unfused, count: int) -> dict[str, object]:
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
        "tried": describe_tried(reader, pair),
        "times": count,
    }


def nest_pairs_of_report(pairs: Sequence[NestPair]) -> list[dict[str, object]]:
    """Return one object for each two loop nests of a C++ kernel that were not merged."""
    rows: list[dict[str, object]] = []
    for pair in pairs:
        row = pair.pair
        kernel = pair.first.kernel
        rows.append(
            {
                "first": kernel.name,
                "second": kernel.name,
                "in_one_kernel": True,
                "first_loops_are": pair.first.name,
                "second_loops_are": pair.second.name,
                "direction": kernel.direction,
                "first_lines": [f"{file}:{line}" for file, line in pair.first.lines],
                "second_lines": [f"{file}:{line}" for file, line in pair.second.lines],
                "why": pair.cause.kind,
                "sentence": pair.cause.text,
                "inductor_says": row.reason,
                "check": row.check,
                "names": list(row.names),
                "state": row.state,
                "is_dependent": row.is_dependent,
                "is_exact": row.is_exact,
                "saved_bytes": row.saved_bytes,
                "buffers": list(row.buffers),
                "first_loops": row.first_loops,
                "second_loops": row.second_loops,
                "may_change_it": pair.cause.change,
                "times": 1,
            }
        )
    return rows


def printed_pairs_of_report(pairs: Sequence[PrintedPair]) -> list[dict[str, object]]:
    """Return one object for each two nodes of which a log says why they were not fused."""
    return [
        {
            "first": pair.first.name,
            "second": pair.second.name,
            "compilation": pair.compilation,
            "graph": pair.graph,
            "first_lines": [f"{file}:{line}" for file, line in pair.first.lines],
            "second_lines": [f"{file}:{line}" for file, line in pair.second.lines],
            "first_is": pair.first.what,
            "second_is": pair.second.what,
            "why": pair.cause.kind,
            "sentence": pair.cause.text,
            "inductor_says": pair.reason,
            "is_exact": pair.is_exact,
            "may_change_it": pair.cause.change,
        }
        for pair in pairs
    ]


def _line(call: CallOfKernel) -> str:
    if call.line is None:
        return ""
    file, line = call.line
    return f"{file}:{line}"
