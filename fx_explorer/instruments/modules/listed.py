"""The tree of modules as a list to be printed: folded, cut at a depth and sorted as asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.whole_session import is_log
from fx_explorer.analysis.words import counted
from fx_explorer.instruments.modules.figures import ModuleFigures
from fx_explorer.instruments.modules.tree import (
    NO_MODULES,
    ModuleRow,
    ModuleTree,
    module_tree,
    times_in_words,
)
from fx_explorer.session import SessionReader

FIGURE_OF: dict[str, str] = {
    "breaks": "breaks",
    "operations": "operations",
    "kernels": "calls",
    "time": "time_s",
    "saved": "saved_bytes",
    "compile": "compile_s",
}
"""What modules can be sorted by → the figure."""

NO_TIMES = (
    "Kernel times are not known: a capture with --gpu h100 estimates them, fx-explorer "
    "ledger measures them."
)

SHARED_OUT = "Compile time is shared out by operations (≈)."

NO_MODULE_IN_A_LOG = (
    "The log names no module: torch writes none of them there. Capture the program to see "
    "its modules."
)


@dataclass(frozen=True, slots=True)
class ModuleList:
    rows: Sequence[ModuleRow]
    whole: ModuleFigures
    sentences: Sequence[str]
    """What the figures are, and what is not known; why there is no row, where there is none."""
    time_kinds: Sequence[str]
    """How the times of kernels are known."""
    sort: str
    """The figure that they are sorted by, as in ModuleFigures; empty for the order of the calls."""


def module_list(
    reader: SessionReader, *, every: bool = False, depth: int | None = None, sort: str = "order"
) -> ModuleList:
    """Return the modules of a session. ``every`` shows each repeated layer; ``depth`` cuts below so
    many levels; ``sort`` is one of FIGURE_OF, or ``order``.
    """
    tree = module_tree(reader)
    figure = FIGURE_OF.get(sort, "")
    kinds = sorted(kind for kind in tree.time_kinds if kind)
    if not tree.rows:
        return ModuleList(
            (), tree.whole, [NO_MODULE_IN_A_LOG if is_log(reader) else NO_MODULES], kinds, figure
        )
    rows = list(_every(tree.rows) if every else _folded(tree.rows))
    if depth is not None:
        rows = [row for row in rows if row.depth < depth]
    rows = _sorted(rows, figure) if figure else rows
    return ModuleList(rows, tree.whole, _sentences(reader, tree), kinds, figure)


def _sentences(reader: SessionReader, tree: ModuleTree) -> list[str]:
    if any(tree.time_kinds):
        times = times_in_words(tree, has_gpu=session_gpu(reader) is not None)
    else:
        times = NO_TIMES
    return [f"{counted(tree.module_count, 'module')}. {times} {SHARED_OUT}"]


def _folded(rows: Sequence[ModuleRow]) -> Iterator[ModuleRow]:
    """Yield the rows without what is in several layers: one row stands for them."""
    hidden_below: int | None = None
    for row in rows:
        if hidden_below is not None and row.depth > hidden_below:
            continue
        hidden_below = row.depth if row.is_fold else None
        yield row


def _every(rows: Sequence[ModuleRow]) -> Iterator[ModuleRow]:
    """Yield each module, as deep as it lies, without the rows that stand for several."""
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
        parts.setdefault(open_rows[-1] if open_rows else -1, []).append(at)
        open_rows.append(at)
    found: list[ModuleRow] = []
    pending = _least_first(rows, parts.get(-1, []), figure)
    while pending:
        at = pending.pop()
        found.append(rows[at])
        pending += _least_first(rows, parts.get(at, []), figure)
    return found


def _least_first(rows: Sequence[ModuleRow], places: Sequence[int], figure: str) -> list[int]:
    """Return the places so that the last has the most, and of equal ones the first in order."""
    most_first = sorted(places, key=lambda at: getattr(rows[at].figures, figure), reverse=True)
    return most_first[::-1]
