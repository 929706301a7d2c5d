"""This module is ``fx-explorer dynamic TARGET``: it compares dynamic=None, True, False and
mark_dynamic on one program, and on other inputs.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

from fx_explorer.command_line.capture_options import add_capture_arguments, request_from
from fx_explorer.highlight import printable
from fx_explorer.instruments.dynamic.trial import (
    COLUMNS,
    DynamicTrial,
    advice,
    cells,
    try_dynamic,
    verdict,
)
from fx_explorer.model import CaptureRequest
from fx_explorer.output.formats import TextTable, text_table
from fx_explorer.output.table import IN_A_FILE, Table
from fx_explorer.output.terminal import print_fitted, width_for
from fx_explorer.trials import forking_worker

EPILOG = """\
examples:
  fx-explorer dynamic model.py                           on your inputs, and on twice the batch
  fx-explorer dynamic model.py --others 'torch.randn(7, 32)'
  fx-explorer dynamic model.py --no-train                without the backward

Each setting is captured in its own worker; nothing is built. The guards show whether the other
inputs would recompile, without running the program on them. mark_dynamic marks the dimensions in
which the other inputs differ.
"""

_WIDEST = (
    "dynamic=False",
    "9 (8 again)",
    "999",
    "9,999",
    "99",
    "99",
    "999",
    "99.9",
    "recompiled: this check fails",
)
"""The widest expected row. Each row is printed as soon as it is known, so that the widths must be
set before.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "target", metavar="TARGET", help="file.py, file.py:object or package.module:object"
    )
    parser.add_argument(
        "--others",
        metavar="EXPR",
        default="",
        help="other inputs, as for --inputs (default: the same with twice the batch)",
    )
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compare the ways. Returns 1 when one of them did not run to its end. Raises UsageError for a
    script.
    """
    return asyncio.run(_compare(request_from(arguments), arguments))


async def _compare(request: CaptureRequest, arguments: argparse.Namespace) -> int:
    """Print each way when it is done. Returns 1 when one of them did not run to its end."""
    worker = forking_worker(arguments.python, arguments.timeout)
    trials: list[DynamicTrial] = []
    width = width_for(sys.stdout)
    laid_out = _laid_out([], width)
    async for trial in try_dynamic(request, arguments.others, worker=worker):
        laid_out = _laid_out([cells(trial)], width)
        if not trials:
            print(*laid_out.titles, sep="\n")
        print(*laid_out.rows[0], sep="\n", flush=True)
        trials.append(trial)
    for sentence in laid_out.below:
        print_fitted(sentence)
    print_fitted(f"\n{printable(verdict(trials))}")
    for line in advice(trials).splitlines():
        print_fitted(f"  {printable(line)}")
    return int(not all(trial.is_whole for trial in trials))


def _laid_out(rows: list[tuple[str, ...]], width: int | None) -> TextTable:
    """Return the rows as a text table. Its columns are as wide as the widest expected row needs,
    because further rows follow.
    """
    return text_table(Table(COLUMNS, [*rows, _WIDEST], elsewhere=IN_A_FILE), width)
