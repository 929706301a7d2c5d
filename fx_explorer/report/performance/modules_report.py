"""The tree of modules as text for a program, markdown, CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict

from fx_explorer.analysis.kernels.roofline import microseconds
from fx_explorer.analysis.modules.figures import ModuleFigures
from fx_explorer.analysis.modules.listed import ModuleList
from fx_explorer.analysis.modules.paths import in_words
from fx_explorer.analysis.modules.tree import ModuleRow
from fx_explorer.analysis.words import seconds, size
from fx_explorer.highlight import printable
from fx_explorer.output.formats import csv_text

SCHEMA = "fx-explorer/modules/1"

FIGURES: tuple[tuple[str, str], ...] = (
    ("breaks", "breaks"),
    ("operations", "operations"),
    ("kernel calls", "calls"),
    ("time", "time_s"),
    ("saved", "saved_bytes"),
    ("≈ compile", "compile_s"),
)
"""(heading, name in ModuleFigures)."""

ALWAYS = ("operations", "calls")
"""Figures that are shown also where no module has any."""

INDENT = "  "


def shown_figures(found: ModuleList) -> list[tuple[str, str]]:
    """Return the figures that have something in them."""
    return [
        (heading, name) for heading, name in FIGURES if name in ALWAYS or getattr(found.whole, name)
    ]


def figure_in_words(figures: ModuleFigures, name: str) -> str:
    """Write one figure as the app does; empty for nothing."""
    value = getattr(figures, name)
    if not value:
        return ""
    if name == "time_s":
        return microseconds(value)
    if name == "compile_s":
        return seconds(value)
    return size(value) if name == "saved_bytes" else f"{value:,}"


def title_of(row: ModuleRow) -> str:
    """Return the name of a module with its class: ``attn (Attention)``; of alike layers how many there are."""
    return f"{row.title} ({row.type})" if row.type else row.title


def modules_text(found: ModuleList) -> str:
    """Return the tree in columns that a program can take apart, then what the figures are."""
    if not found.rows:
        return "".join(f"{sentence}\n" for sentence in found.sentences)
    shown = shown_figures(found)
    rows = [["module", *(heading for heading, _ in shown)]]
    rows += [
        [INDENT * row.depth + printable(title_of(row)), *_cells(row.figures, shown)]
        for row in found.rows
    ]
    rows.append(["all together", *_cells(found.whole, shown)])
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    return "\n".join([*lines, "", *differences(found), *found.sentences]) + "\n"


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *others = row
    cells = (f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True))
    return "  ".join([f"{first:<{widths[0]}}", *cells]).rstrip()


def _cells(figures: ModuleFigures, shown: Sequence[tuple[str, str]]) -> list[str]:
    return [figure_in_words(figures, name) for _, name in shown]


def differences(found: ModuleList) -> list[str]:
    """Say of repeated layers in what they differ, a sentence each."""
    return [
        f"{printable(whole_name(row))} differ in {row.difference}."
        for row in found.rows
        if row.difference
    ]


def whole_name(row: ModuleRow) -> str:
    """Return the whole name: ``layers: 0 … 11 ×12`` for several."""
    return (
        f"{in_words(row.path[:-1])}: {row.title}" if row.is_fold else in_words(row.path) or row.name
    )


def modules_markdown(found: ModuleList) -> str:
    """Return the tree as a table, to be put into an issue."""
    told = [f"- {_in_markdown(sentence)}" for sentence in [*differences(found), *found.sentences]]
    if not found.rows:
        return "\n".join(told) + "\n"
    shown = shown_figures(found)
    rows = [["module", *(heading for heading, _ in shown)], ["---", *["---:"] * len(shown)]]
    rows += [
        ["&nbsp;&nbsp;" * row.depth + _in_markdown(title_of(row)), *_cells(row.figures, shown)]
        for row in found.rows
    ]
    rows.append(["all together", *_cells(found.whole, shown)])
    return "\n".join([*told, "", *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def _in_markdown(text: str) -> str:
    return printable(text).replace("|", "\\|").replace("<", "&lt;")


def modules_csv(found: ModuleList) -> str:
    """Return a line for each row of the tree. A row of repeated layers has their sum and their number."""
    names = [name for _, name in FIGURES]
    return csv_text(
        [
            "module",
            "class",
            "depth",
            "layers",
            *names,
            *(f"own_{name}" for name in names),
            "differ_in",
        ],
        (
            [whole_name(row), row.type, row.depth, row.count]
            + [getattr(row.figures, name) for name in names]
            + [getattr(row.own, name) for name in names]
            + [row.difference]
            for row in found.rows
        ),
    )


def modules_json(found: ModuleList) -> str:
    """Return everything as JSON."""
    whole = {
        "schema": SCHEMA,
        "sentences": list(found.sentences),
        "time_kinds": list(found.time_kinds),
        "whole": asdict(found.whole),
        "modules": [_object(row) for row in found.rows],
    }
    return json.dumps(whole, indent=2) + "\n"


def _object(row: ModuleRow) -> dict[str, object]:
    return {
        "module": in_words(row.path) if row.path else None,
        "name": row.title,
        "class": row.type or None,
        "depth": row.depth,
        "layers": row.count,
        "differ_in": row.difference or None,
        "with_all_in_it": asdict(row.figures),
        "own": asdict(row.own),
    }


FORMATS: dict[str, Callable[[ModuleList], str]] = {
    "text": modules_text,
    "json": modules_json,
    "csv": modules_csv,
    "markdown": modules_markdown,
}
