"""This module is the view of the user's modules: a tree with the results of torch.compile for
each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import overload

from fx_explorer.analysis.annotated_regions import RegionKey
from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.module_paths import (
    belongs,
    describe_module_path,
    is_module,
    path_of,
    region_of,
)
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import bar, counted, seconds, share, size
from fx_explorer.cut_text import cell_count
from fx_explorer.drawing.view_table import (
    INDENT,
    LEAF,
    Detail,
    TableColumn,
    TableRow,
    Tree,
    ViewTable,
    folded_to_fit,
)
from fx_explorer.instruments.kernels.gpu_limits import microseconds
from fx_explorer.instruments.modules.tree import (
    NO_MODULES,
    NOTHING,
    ModuleFigures,
    ModuleRow,
    ModuleTree,
    describe_times,
    explained,
    module_tree,
)
from fx_explorer.session import SessionReader

BAR_CELLS = 8

FIRST_ROWS = 24
"""Number of rows that are unfolded at first: about as many as a small terminal shows."""

MODULE = TableColumn("module", "strong", min_width=22, max_width=60, keeps="name")
WIDEST_NAMES = 28
"""Maximum width in cells of the names of modules for which other columns are left out."""

TYPE = TableColumn("class", "type", min_width=8, max_width=24, priority=9)
DIFFERENCE = TableColumn("layers differ in", "annotation", min_width=12, max_width=60, priority=10)


def modules_table(reader: SessionReader) -> ViewTable:
    tree = module_tree(reader)
    shown = _Shown(tree)
    if reader.meta("outcome") is not None:
        empty = OF_A_LOG if is_log(reader) else NO_MODULES
    else:
        empty = "Nothing yet: modules are known when Dynamo has finished."
    return ViewTable(
        shows="Your modules, each with its submodules. Enter narrows every view to one; ← folds, "
        "→ unfolds.",
        notice=_notice(reader, tree),
        origin="the modules that Dynamo recorded for each node, and links from there",
        columns=shown.columns,
        rows=shown,
        empty=empty,
        tree=Tree(
            [row.depth for row in tree.rows],
            [_key(row) for row in tree.rows],
            [row.title for row in tree.rows],
            _folded(tree.rows),
            shown.totals,
        ),
        within=lambda _, region: _within(tree.rows, region),
        answer=_most_expensive(tree),
    )


OF_A_LOG = (
    "This log does not record the modules of operations. Kernels (6) and source (2) show what the "
    "lines were compiled to. Capture the program to see its modules."
)


def _most_expensive(tree: ModuleTree) -> str:
    """Return the module that costs most: the innermost one with at least half of what is compared,
    else the largest.
    """
    figure = next((name for name in _TELLING if getattr(tree.whole, name)), "")
    modules = [row for row in tree.rows if row.path]
    if not figure or not modules:
        return ""
    whole = getattr(tree.whole, figure)
    in_all = f"{_IN_ALL[figure]} ({write(tree.whole, figure)})"
    inner = [row for row in modules if row.depth > 0]
    if not inner:
        return f"{_name(modules[0])} is the only module, with {in_all}."
    halves = [row for row in inner if 2 * getattr(row.figures, figure) >= whole]
    if halves:
        most = max(halves, key=lambda row: row.depth)
    else:
        most = max(inner, key=lambda row: getattr(row.figures, figure))
    part = share(getattr(most.figures, figure), whole)
    return f"Most expensive: {_name(most)}, {part} of {in_all}."


def _name(row: ModuleRow) -> str:
    """Return ``blocks.0.mlp``; of several rows, ``the 12 modules 0 … 11 of blocks together``."""
    if row.is_fold:
        inside = describe_module_path(row.path[:-1])
        of = f" of {inside}" if inside else ""
        return f"the {row.count} modules {row.name}{of} together"
    return describe_module_path(row.path) or row.name


_IN_ALL = {
    "time_s": "the kernel time",
    "saved_bytes": "the bytes saved for the backward",
    "operations": "the operations",
}


def _key(row: ModuleRow) -> str:
    return ".".join(row.path) + f"×{row.count}" * row.is_fold


def _folded(rows: Sequence[ModuleRow]) -> frozenset[int]:
    """Return the rows that are folded at first: repeated layers, and enough others to fit the rest
    on the screen.
    """
    repeated = frozenset(at for at, row in enumerate(rows) if row.is_fold)
    return folded_to_fit([row.depth for row in rows], repeated, FIRST_ROWS)


def _within(rows: Sequence[ModuleRow], region: RegionKey) -> list[int] | None:
    """Return the rows of a module and of its descendants."""
    if not is_module(region):
        return None
    path, is_within = path_of(region), belongs(region)
    rows_within = []
    for at, row in enumerate(rows):
        # A row of several layers stands for all of them, and is in what is around them.
        is_fold_of_region = row.is_fold and row.path == path
        if is_within(row.path) and not is_fold_of_region:
            rows_within.append(at)
    return rows_within


class _Shown(Sequence[TableRow]):
    """The rows of the table, each made when it is needed: there may be 10,000 modules."""

    def __init__(self, tree: ModuleTree) -> None:
        self._tree = tree
        always = ("operations", "calls", "breaks")
        self._figures: list[tuple[str, str]] = []
        for title, name, _ in _FIGURES:
            has_figure = bool(getattr(tree.whole, name))
            if has_figure or name in always:
                self._figures.append((title, name))
        self._has_difference = any(row.difference for row in tree.rows)

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        columns = [replace(MODULE, min_width=self._width_of_names()), TYPE]
        priorities = {name: priority for _, name, priority in _FIGURES}
        for title, name in self._figures:
            least = 8 if name in _IN_UNITS else 6
            width = max(least, len(title))
            columns.append(
                TableColumn(title, is_number=True, min_width=width, priority=priorities[name])
            )
            if getattr(self._tree.whole, name):
                columns.append(self._bar(title, name, priorities[name]))
        if self._has_difference:
            columns.append(DIFFERENCE)
        return tuple(columns)

    def _width_of_names(self) -> int:
        """Return the width in cells that shows the names of modules whole, up to a limit: less
        important columns are left out for it.
        """
        longest = 0
        for row in self._tree.rows:
            longest = max(longest, len(INDENT) * row.depth + len(LEAF) + cell_count(row.title))
        return max(MODULE.min_width, min(longest, WIDEST_NAMES))

    def _bar(self, title: str, name: str, priority: int) -> TableColumn:
        """Return the column with the bars of a figure. The bars of the most important figure are
        shown on every screen.
        """
        telling = (figure for figure in _TELLING if getattr(self._tree.whole, figure))
        is_first = name == next(telling, "")
        priority = BAR_PRIORITY if is_first else MORE_BARS + priority
        heading = _bar_title(title)
        cells = max(BAR_CELLS, len(heading))
        return TableColumn(
            heading, "bar", is_bar=True, bar_of=title, min_width=cells, priority=priority
        )

    def totals(self, shown: Sequence[int]) -> str:
        """Return the sums of rows that do not contain each other."""
        figures = sum((self._tree.rows[at].figures for at in shown), NOTHING)
        parts = [f"{title} {write(figures, name)}" for title, name in self._figures]
        return " · ".join(["all together", *parts])

    def __len__(self) -> int:
        return len(self._tree.rows)

    @overload
    def __getitem__(self, at: int) -> TableRow: ...
    @overload
    def __getitem__(self, at: slice) -> list[TableRow]: ...
    def __getitem__(self, at: int | slice) -> TableRow | list[TableRow]:
        rows = self._tree.rows[at]
        if isinstance(rows, ModuleRow):
            return self._row(rows)
        return [self._row(row) for row in rows]

    def _row(self, row: ModuleRow) -> TableRow:
        if row.is_fold:
            name = f"{describe_module_path(row.path[:-1])}: {row.title}"
            narrows_to = None
        else:
            name = describe_module_path(row.path) or row.name
            narrows_to = region_of(row.path)
        cells = [name, row.type]
        values: dict[str, float] = {}
        for title, figure in self._figures:
            value, most = getattr(row.figures, figure), getattr(self._tree.whole, figure)
            text = write(row.figures, figure) if value else ""
            cells.append(text)
            values[title] = value
            if most:
                cells.append(bar(value, most, BAR_CELLS))
                values[_bar_title(title)] = value
        if self._has_difference:
            cells.append(row.difference)
        return TableRow(
            tuple(cells),
            detail=lambda: Detail("\n".join(explained(row))),
            values=values,
            narrows_to=narrows_to,
        )


_FIGURES: tuple[tuple[str, str, int], ...] = (
    ("breaks", "breaks", 3),
    ("operations", "operations", 5),
    ("calls", "calls", 4),
    ("time", "time_s", 0),
    ("saved", "saved_bytes", 1),
    ("≈ compile", "compile_s", 6),
)
"""(title, name in ModuleFigures, priority of the column)."""

_IN_UNITS = ("time_s", "saved_bytes", "compile_s")
"""Figures that are written with a unit."""

_TELLING = ("time_s", "saved_bytes", "operations")
"""Figures in the order of preference for the bars."""

BAR_PRIORITY, MORE_BARS = 1, 11
"""Priorities of the first column with bars, and of further ones, which are left out before columns
of numbers where there is no room.
"""


def _bar_title(title: str) -> str:
    return f"of {title.removeprefix('≈ ')}"


def write(figures: ModuleFigures, name: str) -> str:
    """Return one figure as every view writes it."""
    value = getattr(figures, name)
    if name == "time_s":
        return microseconds(value)
    if name == "compile_s":
        return seconds(value)
    if name == "saved_bytes":
        return size(value)
    return f"{value:,}"


def _notice(reader: SessionReader, tree: ModuleTree) -> str:
    if not tree.rows:
        return ""
    shared = "Compile time is divided by operations (≈)."
    return (
        f"{counted(tree.module_count, 'module')}. "
        f"{describe_times(tree, has_gpu=session_gpu(reader) is not None)} {shared}"
    )
