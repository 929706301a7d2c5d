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
from fx_explorer.text_table import ColumnRules, text_table

SCHEMA = "fx-explorer/profile/1"

MOST_ROWS = 10
"""Rows of each table, unless all are asked for."""

RIGHT = frozenset(
    ("time", "share", "runs", "forward", "backward", "itself", "with all in it", "for")
)

COLUMNS = ColumnRules(
    right=RIGHT,
    names={
        "kernel": 24,
        "operation": 24,
        "operator": 16,
        "your line": 18,
        "line": 18,
        "module": 14,
    },
    prose={"what": 18, "where": 22, "meanwhile the program": 24},
    first_to_go=("runs", "frame", "direction", "part of its kernel"),
)
INDENT = 2

Format = Callable[[ProfileFigures, bool], str]


def profile_text(figures: ProfileFigures, every: bool, width: int | None = None) -> str:
    """Return the verdict and the tables in columns; ``every`` row of them, or the dearest. The tables have at most ``width``
    cells, None where a program reads.
    """
    lines = [*verdict(figures)]
    for table in tables(figures):
        shown = text_table(table.header, _most(table.rows, every), COLUMNS, width, INDENT)
        lines += ["", f"{table.title}:", *shown.lines, *_left(table.rows, every)]
        lines += [" " * INDENT + sentence for sentence in shown.left_out_in_words()]
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
    names = [
        "kernel",
        "frame",
        "direction",
        "seconds",
        "shared_seconds",
        "similar",
        "runs",
        "file",
        "line",
        "module",
    ]
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
            {
                "file": one.line[0],
                "line": one.line[1],
                "forward_s": one.forward_s,
                "backward_s": one.backward_s,
            }
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
            {
                **_kernel(one),
                "line": {"file": one.cost.lines[0][0], "line": one.cost.lines[0][1]}
                if one.cost.lines
                else None,
            }
            for one in figures.kernels
        ],
        "operations": [
            {
                "node": one.node.name,
                "graph": one.node.graph,
                "seconds": one.seconds,
                "among": one.among,
            }
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


def _row(cells: Sequence[str] | map[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _in_markdown(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("<", "&lt;")
