"""The tree of modules is written here as text, markdown, CSV and JSON: folded, cut at a depth and
sorted as asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.module_paths import describe_module_path
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted, seconds, size
from fx_explorer.highlight import printable
from fx_explorer.instruments.kernels.gpu_limits import microseconds
from fx_explorer.instruments.modules.tree import (
    NO_MODULES,
    ModuleFigures,
    ModuleRow,
    ModuleTree,
    describe_times,
    module_tree,
)
from fx_explorer.output.formats import csv_text, json_text, markdown_list, markdown_table, text_of
from fx_explorer.output.table import Cells, Column, Table
from fx_explorer.session import SessionReader

FIGURE_OF: dict[str, str] = {
    "breaks": "breaks",
    "operations": "operations",
    "kernels": "calls",
    "time": "time_s",
    "saved": "saved_bytes",
    "compile": "compile_s",
}
"""Value of ``--sort`` → the field of ModuleFigures."""

NO_TIMES = (
    "Kernel times are not known: a capture with --gpu h100 estimates them, fx-explorer "
    "ledger measures them."
)

SHARED_OUT = "Compile time is divided by operations (≈)."

NO_MODULE_IN_A_LOG = (
    "This log names no modules, because torch does not write them there. Capture the program to "
    "see its modules."
)


@dataclass(frozen=True, slots=True)
class ModuleList:
    rows: Sequence[ModuleRow]
    whole: ModuleFigures
    sentences: Sequence[str]
    """Sentences on the meaning of the figures and on what is not known; or on why there are no
    rows.
    """
    time_kinds: Sequence[str]
    """How the times of kernels were obtained."""
    sort: str
    """The figure that they are sorted by, as in ModuleFigures; empty for the order of the calls."""


def module_list(
    reader: SessionReader, *, every: bool = False, depth: int | None = None, sort: str = "order"
) -> ModuleList:
    """Return the modules of a session. ``every`` shows each repeated layer; ``depth`` limits the
    number of levels; ``sort`` is one of FIGURE_OF, or ``order``.
    """
    tree = module_tree(reader)
    figure = FIGURE_OF.get(sort, "")
    kinds = sorted(kind for kind in tree.time_kinds if kind)
    if not tree.rows:
        why = NO_MODULE_IN_A_LOG if is_log(reader) else NO_MODULES
        return ModuleList((), tree.whole, [why], kinds, figure)
    if every:
        rows = list(_every(tree.rows))
    else:
        rows = list(_folded(tree.rows))
    if depth is not None:
        rows = [row for row in rows if row.depth < depth]
    if figure:
        rows = _sorted(rows, figure)
    return ModuleList(rows, tree.whole, _sentences(reader, tree), kinds, figure)


def _sentences(reader: SessionReader, tree: ModuleTree) -> list[str]:
    if any(tree.time_kinds):
        times = describe_times(tree, has_gpu=session_gpu(reader) is not None)
    else:
        times = NO_TIMES
    return [f"{counted(tree.module_count, 'module')}. {times} {SHARED_OUT}"]


def _folded(rows: Sequence[ModuleRow]) -> Iterator[ModuleRow]:
    """Yield the rows with repeated layers folded into one row."""
    hidden_below: int | None = None
    for row in rows:
        if hidden_below is not None and row.depth > hidden_below:
            continue
        hidden_below = row.depth if row.is_fold else None
        yield row


def _every(rows: Sequence[ModuleRow]) -> Iterator[ModuleRow]:
    """Yield each module at its full depth, without the rows that stand for several."""
    for row in rows:
        if not row.is_fold:
            yield replace(row, depth=max(0, len(row.path) - 1))


def _sorted(rows: Sequence[ModuleRow], figure: str) -> list[ModuleRow]:
    """Return the rows with the most first, each before those in it."""
    parts: dict[int, list[int]] = {}
    open_rows: list[int] = []
    for at, row in enumerate(rows):
        while open_rows and rows[open_rows[-1]].depth >= row.depth:
            open_rows.pop()
        around = open_rows[-1] if open_rows else -1
        parts.setdefault(around, []).append(at)
        open_rows.append(at)
    sorted_rows: list[ModuleRow] = []
    pending = _least_first(rows, parts.get(-1, []), figure)
    while pending:
        at = pending.pop()
        sorted_rows.append(rows[at])
        pending += _least_first(rows, parts.get(at, []), figure)
    return sorted_rows


def _least_first(rows: Sequence[ModuleRow], places: Sequence[int], figure: str) -> list[int]:
    """Return the positions in ascending order of the figure; among equal ones the first comes
    last.
    """
    most_first = sorted(places, key=lambda at: getattr(rows[at].figures, figure), reverse=True)
    return most_first[::-1]


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


def shown_figures(listed: ModuleList) -> list[tuple[str, str]]:
    """Return (heading, name) of the figures that any module has, and of those that are always
    shown.
    """
    whole = listed.whole
    return [(heading, name) for heading, name in FIGURES if name in ALWAYS or getattr(whole, name)]


def describe_figure(figures: ModuleFigures, name: str) -> str:
    """Return one figure as the app writes it; empty for zero."""
    value = getattr(figures, name)
    if not value:
        return ""
    if name == "time_s":
        return microseconds(value)
    if name == "compile_s":
        return seconds(value)
    if name == "saved_bytes":
        return size(value)
    return f"{value:,}"


def title_of(row: ModuleRow) -> str:
    """Return the name of a module with its class, ``attn (Attention)``; for alike layers with their
    number.
    """
    if row.type:
        return f"{row.title} ({row.type})"
    return row.title


def modules_text(listed: ModuleList) -> str:
    """Return the tree in columns for other programs, then an explanation of the figures."""
    if not listed.rows:
        return text_of(listed.sentences)
    return text_of([_table(listed, INDENT), "", *differences(listed), *listed.sentences])


def _table(listed: ModuleList, indent: str) -> Table:
    """Return the tree as a table whose names are indented by their depth, with the sum in the last
    row.
    """
    shown = shown_figures(listed)
    columns = [Column("module")]
    columns += [
        Column(title, is_number=True, is_always_shown=name in ALWAYS) for title, name in shown
    ]
    rows: list[Cells] = [
        (indent * row.depth + title_of(row), *_cells(row.figures, shown)) for row in listed.rows
    ]
    return Table(columns, [*rows, ("all together", *_cells(listed.whole, shown))])


def _cells(figures: ModuleFigures, shown: Sequence[tuple[str, str]]) -> list[str]:
    return [describe_figure(figures, name) for _, name in shown]


def differences(listed: ModuleList) -> list[str]:
    """Return a sentence for each repeated layer on how its modules differ."""
    differing = [row for row in listed.rows if row.difference]
    return [f"{printable(whole_name(row))} differ in {row.difference}." for row in differing]


def whole_name(row: ModuleRow) -> str:
    """Return the whole name: ``layers: 0 … 11 ×12`` for several."""
    if row.is_fold:
        return f"{describe_module_path(row.path[:-1])}: {row.title}"
    return describe_module_path(row.path) or row.name


def modules_markdown(listed: ModuleList) -> str:
    """Return the tree as a table, to be put into an issue."""
    lines = markdown_list([*differences(listed), *listed.sentences])
    if listed.rows:
        lines += ["", *markdown_table(_table(listed, "&nbsp;&nbsp;"))]
    return "\n".join(lines) + "\n"


def modules_csv(listed: ModuleList) -> str:
    """Return a line for each row of the tree. A row of repeated layers has their sum and their
    number.
    """
    names = [name for _, name in FIGURES]
    own_names = [f"own_{name}" for name in names]
    heading = ["module", "class", "depth", "layers", *names, *own_names, "differ_in"]
    return csv_text(heading, (_csv_row(row, names) for row in listed.rows))


def _csv_row(row: ModuleRow, names: Sequence[str]) -> list[object]:
    figures = [getattr(row.figures, name) for name in names]
    own_figures = [getattr(row.own, name) for name in names]
    whole = [whole_name(row), row.type, row.depth, row.count]
    return [*whole, *figures, *own_figures, row.difference]


def modules_json(listed: ModuleList) -> str:
    """Return everything as JSON."""
    whole = {
        "schema": SCHEMA,
        "sentences": list(listed.sentences),
        "time_kinds": list(listed.time_kinds),
        "whole": asdict(listed.whole),
        "modules": [_object(row) for row in listed.rows],
    }
    return json_text(whole)


def _object(row: ModuleRow) -> dict[str, object]:
    module = describe_module_path(row.path) if row.path else None
    return {
        "module": module,
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
