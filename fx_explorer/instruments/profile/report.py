"""A profile beside a session as text, markdown, CSV and JSON: the verdict first, then lines,
modules, kernels, operations, what ran elsewhere, and when the GPU was idle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from fx_explorer.instruments.profile.figures import KernelShare, ProfileFigures, module_name
from fx_explorer.instruments.profile.table import ProfileTable, tables
from fx_explorer.instruments.profile.verdict import verdict
from fx_explorer.output.formats import (
    csv_text,
    in_markdown,
    json_text,
    markdown_list,
    markdown_table,
)
from fx_explorer.output.table import Table
from fx_explorer.output.text import Block, text_of

SCHEMA = "fx-explorer/profile/1"

MOST_ROWS = 10
"""Rows of each table, unless all are asked for."""

INDENT = 2

Format = Callable[[ProfileFigures, bool], str]


def profile_text(figures: ProfileFigures, every: bool, width: int | None = None) -> str:
    """Return the verdict and the tables in columns; ``every`` row of them, or the most expensive.
    Lines have at most ``width`` cells, None where a program reads.
    """
    blocks: list[Block] = [*verdict(figures)]
    for table in tables(figures):
        blocks += ["", f"{table.title}:", _shown(table, every)]
    return text_of(blocks, width)


def profile_markdown(figures: ProfileFigures, every: bool) -> str:
    """Return the verdict as a list and the tables, to be put into an issue."""
    lines = markdown_list(verdict(figures))
    for table in tables(figures):
        lines += ["", f"**{in_markdown(table.title)}**", "", *markdown_table(_shown(table, every))]
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
    return json_text(whole)


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


def _shown(table: ProfileTable, every: bool) -> Table:
    """Return the rows that are shown: ``every`` one, or the most expensive."""
    rows = table.rows if every else table.rows[:MOST_ROWS]
    more = len(table.rows) - len(rows)
    note = f"and {more:,} more (--all shows them)" if more else ""
    return Table(table.columns, rows, INDENT, note)
