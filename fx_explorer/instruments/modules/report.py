"""The tree of modules as text for a program, markdown, CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict

from fx_explorer.analysis.module_paths import in_words
from fx_explorer.analysis.words import seconds, size
from fx_explorer.highlight import printable
from fx_explorer.instruments.kernels.roofline import microseconds
from fx_explorer.instruments.modules.figures import ModuleFigures
from fx_explorer.instruments.modules.listed import ModuleList
from fx_explorer.instruments.modules.tree import ModuleRow
from fx_explorer.output.formats import csv_text, json_text, markdown_list, markdown_table
from fx_explorer.output.table import Cells, Column, Table
from fx_explorer.output.text import text_of

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
    """Return the name of a module with its class: ``attn (Attention)``; of alike layers how many
    there are.
    """
    return f"{row.title} ({row.type})" if row.type else row.title


def modules_text(found: ModuleList) -> str:
    """Return the tree in columns that a program can take apart, then what the figures are."""
    if not found.rows:
        return text_of(found.sentences)
    return text_of([_table(found, INDENT), "", *differences(found), *found.sentences])


def _table(found: ModuleList, indent: str) -> Table:
    """Return the tree as a table whose names are indented by their depth, with the sum in the last
    row.
    """
    shown = shown_figures(found)
    columns = [Column("module")]
    columns += [
        Column(title, is_number=True, is_always_shown=name in ALWAYS) for title, name in shown
    ]
    rows: list[Cells] = [
        (indent * row.depth + title_of(row), *_cells(row.figures, shown)) for row in found.rows
    ]
    return Table(columns, [*rows, ("all together", *_cells(found.whole, shown))])


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
    if row.is_fold:
        return f"{in_words(row.path[:-1])}: {row.title}"
    return in_words(row.path) or row.name


def modules_markdown(found: ModuleList) -> str:
    """Return the tree as a table, to be put into an issue."""
    lines = markdown_list([*differences(found), *found.sentences])
    if found.rows:
        lines += ["", *markdown_table(_table(found, "&nbsp;&nbsp;"))]
    return "\n".join(lines) + "\n"


def modules_csv(found: ModuleList) -> str:
    """Return a line for each row of the tree. A row of repeated layers has their sum and their
    number.
    """
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
    return json_text(whole)


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
