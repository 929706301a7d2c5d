"""This module is ``fx-explorer modules X``: it prints the user's modules as a tree, with the
results of torch.compile for each.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fx_explorer.analysis.words import bar
from fx_explorer.argument_types import count
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from
from fx_explorer.command_line.outputs import add_force_argument, add_format_argument, session_output
from fx_explorer.cut_text import cut_in_middle
from fx_explorer.highlight import printable
from fx_explorer.instruments.modules.report import (
    INDENT,
    ModuleList,
    describe_figure,
    differences,
    shown_figures,
)
from fx_explorer.instruments.modules.tree import ModuleFigures, ModuleRow

if TYPE_CHECKING:
    from fx_explorer.session import SessionReader


SORTS = ("order", "breaks", "operations", "kernels", "time", "saved", "compile")

EPILOG = """\
Each module has a row, which includes its submodules: graph breaks, operations that Dynamo captured,
kernel calls and their time, tensors it saves for the backward, and its share of compile time, by
operations. Kernel times are measured if the session has a measurement, otherwise they are lower
bounds from the data sheet. Modules are sorted within their parent. Repeated layers are one row,
with a label such as "0 … 11 ×12, alike" or their differences. The app has the same tree (key 0),
where enter narrows every view to a module.

examples:
  fx-explorer modules model.py                          the tree, repeated layers folded
  fx-explorer modules model.py --gpu h100 --sort time   with estimated times, the most expensive \
first
  fx-explorer modules model.fxs --depth 2 --all         of a saved session: two levels, every layer
  fx-explorer modules model.fxs --format csv            a line for each module; also json, markdown

exit codes: 0 fine · 1 the compiled code called no module · 2 to 5 as for every command
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    shown = parser.add_argument_group("what to show")
    add_format_argument(shown)
    shown.add_argument(
        "--all",
        dest="every",
        action="store_true",
        help="a row for every layer; repeated layers are not folded",
    )
    shown.add_argument(
        "--depth", metavar="N", type=count, default=None, help="only modules down to this depth"
    )
    shown.add_argument(
        "--sort",
        choices=SORTS,
        default="order",
        help="sort by this figure, largest first; order (default): in call order",
    )
    shown.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="save the capture as a session"
    )
    add_force_argument(shown)
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the tree. Returns the exit code of the capture; 1 where there is no module."""
    were_printed: list[bool] = []
    code = answer_from(
        arguments,
        lambda reader: were_printed.append(_print_modules(reader, arguments)),
        session_output(arguments),
    )
    return code or int(not all(were_printed))


def _print_modules(reader: SessionReader, arguments: argparse.Namespace) -> bool:
    from fx_explorer.instruments.modules.report import FORMATS, module_list
    from fx_explorer.output.terminal import width_for

    listed = module_list(reader, every=arguments.every, depth=arguments.depth, sort=arguments.sort)
    if arguments.format == "text" and listed.rows and width_for(sys.stdout) is not None:
        print_modules(listed)
    else:
        sys.stdout.write(FORMATS[arguments.format](listed))
    if not listed.rows and arguments.format == "csv":
        sys.stderr.write(f"{listed.sentences[0]}\n")
    return bool(listed.rows)


BAR_CELLS = 12
LEAST_NAME_CELLS = 24
GAP = 2

FIRST_TO_GO = ("compile_s", "breaks", "operations", "saved_bytes", "calls", "time_s")
"""Figures that are left out where the table is too wide, in this order. The figure with the bar
always stays.
"""


def print_modules(listed: ModuleList) -> None:
    """Print the table as wide as the terminal, and an explanation of the figures below it."""
    console = Console(file=sys.stdout, highlight=False)
    for line in (*_table(listed, console.width), *listed.sentences):
        console.print(line)


def barred(listed: ModuleList) -> str:
    """Return the figure to draw as a bar: the sort column, else the time, else the first figure
    that any module has.
    """
    wanted = (listed.sort, "time_s", "saved_bytes", "operations")
    return next((name for name in wanted if name and getattr(listed.whole, name)), "operations")


def _table(listed: ModuleList, width: int) -> list[Table | str]:
    with_bar = barred(listed)
    shown = _fitting(listed, with_bar, width)
    room = width - BAR_CELLS - GAP - sum(_cells_of(listed, *column) + GAP for column in shown)
    table = Table(
        box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="bold", collapse_padding=True
    )
    table.add_column("module", no_wrap=True)
    for heading, name in shown:
        table.add_column(
            heading, justify="right", no_wrap=True, min_width=_cells_of(listed, heading, name)
        )
        if name == with_bar:
            table.add_column("", no_wrap=True, min_width=BAR_CELLS)
    for row in listed.rows:
        table.add_row(_named(row, room), *_cells(row.figures, listed, shown, with_bar))
    table.add_row(
        Text("all together", style="bold"), *_cells(listed.whole, listed, shown, with_bar)
    )
    return [table, "", *differences(listed)]


def _named(row: ModuleRow, room: int) -> Text:
    """Return the name of a module, cut in the middle where it has no room, and its type where that
    has room too.
    """
    indent = INDENT * row.depth
    title = Text(indent + cut_in_middle(printable(row.title), room - len(indent)))
    type_name = f" {printable(row.type)}" if row.type else ""
    kind = Text(type_name, style="dim")
    if title.cell_len + kind.cell_len <= room:
        return title + kind
    return title


def _cells(
    figures: ModuleFigures, listed: ModuleList, shown: Sequence[tuple[str, str]], with_bar: str
) -> list[Text]:
    cells: list[Text] = []
    for _, name in shown:
        cells.append(Text(describe_figure(figures, name)))
        if name == with_bar:
            if figures is listed.whole:
                drawn = ""
            else:
                drawn = bar(getattr(figures, name), getattr(listed.whole, name), BAR_CELLS)
            cells.append(Text(drawn, style="green"))
    return cells


def _fitting(listed: ModuleList, with_bar: str, width: int) -> list[tuple[str, str]]:
    """Return the figures for which there is room beside a name."""
    shown = shown_figures(listed)
    widths = {name: _cells_of(listed, heading, name) for heading, name in shown}
    for name in FIRST_TO_GO:
        if LEAST_NAME_CELLS + BAR_CELLS + GAP + sum(widths[one] + GAP for _, one in shown) <= width:
            break
        shown = [(heading, one) for heading, one in shown if one != name or one == with_bar]
    return shown


def _cells_of(listed: ModuleList, heading: str, name: str) -> int:
    """Return the cells that a figure takes in the widest row."""
    rows = [listed.whole, *(row.figures for row in listed.rows)]
    return max(len(heading), *(len(describe_figure(row, name)) for row in rows))
