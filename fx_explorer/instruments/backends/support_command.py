"""This module is ``fx-explorer support X --backend B``: it shows what a backend supports of a
target's graphs, and where it splits them.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from
from fx_explorer.command_line.outputs import add_force_argument, add_format_argument, session_output
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import print_fitted, width_for

if TYPE_CHECKING:
    from fx_explorer.session import SessionReader

EPILOG = """\
Lists every operator of the backend's graphs: how often it is called, its share of FLOPs and bytes,
supported or not, and why. Then it lists the segments that the backend compiles, the bytes that
cross their borders, the operators between them that fall back to PyTorch, and the operators that
split them. Support is known if the backend asks torch's partitioner (CapabilityBasedPartitioner)
while it compiles. Otherwise fx-explorer asks the operator_support that the backend's function or
file declares. Otherwise it is unknown. docs/reference/support.md has the
details.

examples:
  fx-explorer support model.py --backend mine.py:my_backend      a backend of your own
  fx-explorer support model.py --backend aot_eager               any that is registered
  fx-explorer support model.py --backend openvino --python ../venv/bin/python    one of another \
interpreter
  fx-explorer support model.py --backend mine.py:my_backend -o model.fxs         keep it: \
fx-explorer model.fxs shows it (v u)
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    group = parser.add_argument_group("what to tell")
    add_format_argument(group)
    group.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="save the capture as a session"
    )
    add_force_argument(group)
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is supported. Returns the exit code of the capture; 2 where no backend could be
    asked.
    """
    printed: list[bool] = []
    code = answer_from(
        arguments,
        lambda reader: printed.append(_print_support(reader, arguments)),
        session_output(arguments),
    )
    if code:
        return code
    has_answer = bool(printed) and printed[0]
    return 0 if has_answer else 2


def _print_support(reader: SessionReader, arguments: argparse.Namespace) -> bool:
    """Print the support; or print the reason on stderr why there is none, and return False."""
    from fx_explorer.instruments.backends.amounts import reports_to_show, summaries_of
    from fx_explorer.instruments.backends.report import FORMATS, support_text
    from fx_explorer.instruments.backends.support import support_of
    from fx_explorer.instruments.backends.verdict import of_other_variants, why_unknown

    reports = reports_to_show(reader)
    graphs = support_of(reader, reports)
    if not graphs:
        print_fitted(printable(why_unknown(reader)), sys.stderr)
        return False
    for text in of_other_variants(reader):
        print_fitted(f"fx-explorer: {printable(text)}", sys.stderr)
    answer = str(arguments.target), summaries_of(reader, reports), graphs
    if arguments.format == "text":
        sys.stdout.write(support_text(*answer, width_for(sys.stdout)))
    else:
        sys.stdout.write(FORMATS[arguments.format](*answer))
    return True
