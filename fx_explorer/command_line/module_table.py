"""The tree of modules for a person at a terminal: a table that fits, with a bar of what it is
sorted by.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fx_explorer.analysis.modules.figures import ModuleFigures
from fx_explorer.analysis.modules.listed import ModuleList
from fx_explorer.analysis.modules.tree import ModuleRow
from fx_explorer.analysis.words import bar
from fx_explorer.cut_text import cut_in_middle
from fx_explorer.highlight import printable
from fx_explorer.report.performance.modules_report import (
    INDENT,
    differences,
    figure_in_words,
    shown_figures,
)

BAR_CELLS = 12
LEAST_NAME_CELLS = 24
GAP = 2

FIRST_TO_GO = ("compile_s", "breaks", "operations", "saved_bytes", "calls", "time_s")
"""Where there is no room for all, these figures are left out, the first of them first; the one that
has the bar stays.
"""


def print_modules(found: ModuleList) -> None:
    """Print the table as wide as the terminal, and what the figures are below it."""
    console = Console(file=sys.stdout, highlight=False)
    for line in (*_table(found, console.width), *found.sentences):
        console.print(line)


def barred(found: ModuleList) -> str:
    """Return the figure that has a bar: that which the rows are sorted by, else the time, or what
    else there is.
    """
    wanted = (found.sort, "time_s", "saved_bytes", "operations")
    return next((name for name in wanted if name and getattr(found.whole, name)), "operations")


def _table(found: ModuleList, width: int) -> list[Table | str]:
    with_bar = barred(found)
    shown = _fitting(found, with_bar, width)
    room = width - BAR_CELLS - GAP - sum(_cells_of(found, *one) + GAP for one in shown)
    table = Table(
        box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold", collapse_padding=True
    )
    table.add_column("module", no_wrap=True)
    for heading, name in shown:
        table.add_column(
            heading, justify="right", no_wrap=True, min_width=_cells_of(found, heading, name)
        )
        if name == with_bar:
            table.add_column("", no_wrap=True, min_width=BAR_CELLS)
    for row in found.rows:
        table.add_row(_named(row, room), *_cells(row.figures, found, shown, with_bar))
    table.add_row(Text("all together", style="bold"), *_cells(found.whole, found, shown, with_bar))
    return [table, "", *differences(found)]


def _named(row: ModuleRow, room: int) -> Text:
    """Return the name of a module, cut in the middle where it has no room, and its type where that
    has room too.
    """
    indent = INDENT * row.depth
    title = Text(indent + cut_in_middle(printable(row.title), room - len(indent)))
    kind = Text(f" {printable(row.type)}" if row.type else "", style="dim")
    return title + kind if title.cell_len + kind.cell_len <= room else title


def _cells(
    figures: ModuleFigures, found: ModuleList, shown: Sequence[tuple[str, str]], with_bar: str
) -> list[Text]:
    cells: list[Text] = []
    for _, name in shown:
        cells.append(Text(figure_in_words(figures, name)))
        if name == with_bar:
            if figures is found.whole:
                drawn = ""
            else:
                drawn = bar(getattr(figures, name), getattr(found.whole, name), BAR_CELLS)
            cells.append(Text(drawn, style="green"))
    return cells


def _fitting(found: ModuleList, with_bar: str, width: int) -> list[tuple[str, str]]:
    """Return the figures that there is room for beside a name."""
    shown = shown_figures(found)
    widths = {name: _cells_of(found, heading, name) for heading, name in shown}
    for name in FIRST_TO_GO:
        if LEAST_NAME_CELLS + BAR_CELLS + GAP + sum(widths[one] + GAP for _, one in shown) <= width:
            break
        shown = [(heading, one) for heading, one in shown if one != name or one == with_bar]
    return shown


def _cells_of(found: ModuleList, heading: str, name: str) -> int:
    """Return the cells that a figure takes in the widest row."""
    rows = [found.whole, *(row.figures for row in found.rows)]
    return max(len(heading), *(len(figure_in_words(one, name)) for one in rows))
