"""A profile beside a session as text, markdown, CSV and JSON: the verdict first, then lines, modules, kernels,
operations, what ran elsewhere, and when the GPU was idle.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from fx_explorer.analysis.profiles.figures import KernelShare, ProfileFigures, module_name
from fx_explorer.analysis.profiles.table import Cells, tables
from fx_explorer.analysis.profiles.verdict import verdict
from fx_explorer.highlight import printable
from fx_explorer.report.csv_text import csv_text

SCHEMA = "fx-explorer/profile/1"

MOST_ROWS = 10
"""Rows of each table, unless all are asked for."""

LONGEST_CELL = 72

RIGHT = frozenset(("time", "share", "runs", "forward", "backward", "itself", "with all in it", "for"))

Format = Callable[[ProfileFigures, bool], str]


def profile_text(figures: ProfileFigures, every: bool) -> str:
    """Return the verdict and the tables in columns; ``every`` row of them, or the dearest."""
    lines = [*verdict(figures)]
    for table in tables(figures):
        lines += ["", f"{table.title}:", *_columns(table.header, _most(table.rows, every)), *_left(table.rows, every)]
    return "\n".join(map(printable, lines)) + "\n"


def profile_markdown(figures: ProfileFigures, every: bool) -> str:
    """Return the verdict as a list and the tables, to be put into an issue."""
    lines = [f"- {_in_markdown(sentence)}" for sentence in verdict(figures)]
    for table in tables(figures):
        marks = ["---:" if name in RIGHT else "---" for name in table.header]
        lines += ["", f"**{table.title}**", "", _row(table.header), _row(marks)]
        lines += [_row(map(_in_markdown, row)) for row in _most(table.rows, every)]
    return "\n".join(lines) + "\n"


def profile_csv(figures: ProfileFigures, every: bool) -> str:
    """Return a line for each kernel, with times in seconds; all of them in any case."""
    names = ["kernel", "frame", "direction", "seconds", "shared_seconds", "similar", "runs", "file", "line", "module"]
    rows = ([*_kernel(one).values()] for one in figures.kernels)
    return csv_text(names, ([*row[:7], *(row[7] or ("", "")), row[8]] for row in rows))  # type: ignore[misc]


def profile_json(figures: ProfileFigures, every: bool) -> str:
    """Return everything as JSON."""
    whole = {
        "schema": SCHEMA,
        "verdict": verdict(figures),
        "profile": {name: value for name, value in asdict(figures.profile).items() if name != "id"},
        "profiles": figures.profiles,
        "at_operation_s": figures.at_node_s,
        "at_line_s": figures.at_line_s,
        "lines": [
            {"file": one.line[0], "line": one.line[1], "forward_s": one.forward_s, "backward_s": one.backward_s}
            for one in figures.lines
        ],
        "modules": [
            {
                "module": module_name(row),
                "layers": row.count,
                "depth": row.depth,
                "own_s": row.own.time_s,
                "s": row.figures.time_s,
            }
            for row in figures.modules
        ],
        "kernels": [
            {**_kernel(one), "line": {"file": one.cost.lines[0][0], "line": one.cost.lines[0][1]} if one.cost.lines else None}
            for one in figures.kernels
        ],
        "operations": [
            {"node": one.node.name, "graph": one.node.graph, "seconds": one.seconds, "among": one.among}
            for one in figures.nodes
        ],
        "elsewhere": [_without_ids(asdict(one)) for one in figures.others],
        "idle_s": figures.idle_s,
        "gaps": [_without_ids(asdict(one)) for one in figures.gaps],
    }
    return json.dumps(whole, indent=2) + "\n"


FORMATS: dict[str, Format] = {
    "text": profile_text,
    "json": profile_json,
    "csv": profile_csv,
    "markdown": profile_markdown,
}


def _kernel(one: KernelShare) -> dict[str, object]:
    kernel, time = one.cost.use.kernel, one.time
    return {
        "kernel": kernel.name,
        "frame": one.cost.version.name if one.cost.version else None,
        "direction": kernel.direction,
        "seconds": time.seconds,
        "shared_seconds": time.shared_s,
        "is_similar": time.is_similar,
        "runs": time.runs,
        "line": one.cost.lines[0] if one.cost.lines else None,
        "module": one.cost.modules[0] if one.cost.modules else None,
    }


def _without_ids(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in ("id", "profile", "position")}


def _most(rows: Sequence[Cells], every: bool) -> Sequence[Cells]:
    return rows if every else rows[:MOST_ROWS]


def _left(rows: Sequence[Cells], every: bool) -> list[str]:
    left = 0 if every else max(0, len(rows) - MOST_ROWS)
    return [f"  and {left:,} more (--all shows them)"] if left else []


def _columns(header: Cells, rows: Sequence[Cells]) -> list[str]:
    """Return the rows in columns. A name that is too long is cut in its middle; the last column has room."""
    cut = [[*(_cut(cell) for cell in row[:-1]), row[-1]] for row in [header, *rows]]
    widths = [max(len(row[at]) for row in cut) for at in range(len(header))]
    return ["  " + "  ".join(map(_aligned, row, widths, header)).rstrip() for row in cut]


def _aligned(cell: str, width: int, heading: str) -> str:
    return cell.rjust(width) if heading in RIGHT else cell.ljust(width)


def _cut(cell: str) -> str:
    half = (LONGEST_CELL - 1) // 2
    return cell if len(cell) <= LONGEST_CELL else f"{cell[:half]}…{cell[-half:]}"


def _row(cells: Sequence[str] | map[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _in_markdown(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("<", "&lt;")
