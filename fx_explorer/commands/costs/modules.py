"""``fx-explorer modules X``: the user's modules as a tree, with what torch.compile made of each of
them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.argument_types import count
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from
from fx_explorer.command_line.outputs import add_force_argument, session_output

if TYPE_CHECKING:
    from fx_explorer.session import SessionReader

SORTS = ("order", "breaks", "operations", "kernels", "time", "saved", "compile")

EPILOG = """\
Each module is told with all that is in it: graph breaks, operations that Dynamo captured, calls of kernels and their time
(measured where there is a measurement, else the least that the data sheet allows), what it saves for the backward, and its
share of compile time, by operations. Modules in one another are sorted among their neighbours. Repeated layers are one row:
"0 … 11 ×12, alike", or in what they differ. The app has the same tree (v d), where enter narrows every view to a module.

examples:
  fx-explorer modules model.py                          the tree, repeated layers folded
  fx-explorer modules model.py --gpu h100 --sort time   with estimated times, the most expensive first
  fx-explorer modules model.fxs --depth 2 --all         of a saved session: two levels, every layer
  fx-explorer modules model.fxs --format csv            a line for each module; also json, markdown

exit codes: 0 told · 1 no module was called in what was compiled · 2 to 5 as of every command
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    told = parser.add_argument_group("what to tell")
    told.add_argument(
        "--format",
        choices=["text", "json", "csv", "markdown"],
        default="text",
        help="text (default), or another",
    )
    told.add_argument(
        "--all",
        dest="every",
        action="store_true",
        help="every layer by itself, and not repeated ones as one",
    )
    told.add_argument(
        "--depth", metavar="N", type=count, default=None, help="only modules so many levels deep"
    )
    told.add_argument(
        "--sort",
        choices=SORTS,
        default="order",
        help="the most first; order (default): as they are called",
    )
    told.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="keep the capture as a session"
    )
    add_force_argument(told)
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tell the tree. Returns the exit code of the capture; 1 where there is no module."""
    told: list[bool] = []
    code = answer_from(
        arguments, lambda reader: told.append(_tell(reader, arguments)), session_output(arguments)
    )
    return code or int(not all(told))


def _tell(reader: SessionReader, arguments: argparse.Namespace) -> bool:
    from fx_explorer.analysis.modules.listed import module_list
    from fx_explorer.output.terminal import width_for
    from fx_explorer.report.performance.modules_report import FORMATS

    found = module_list(reader, every=arguments.every, depth=arguments.depth, sort=arguments.sort)
    if arguments.format == "text" and found.rows and width_for(sys.stdout) is not None:
        from fx_explorer.command_line.module_table import print_modules

        print_modules(found)
    else:
        sys.stdout.write(FORMATS[arguments.format](found))
    if not found.rows and arguments.format == "csv":
        sys.stderr.write(f"{found.sentences[0]}\n")
    return bool(found.rows)
