"""``fx-explorer memory X``: what a step of X needs at its peak, what makes it up, and what is held from
kernel to kernel, as it is predicted from the compiled code.
"""

from __future__ import annotations

import argparse
import sys

from fx_explorer.command_line.capture_options import add_allow_argument, add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from
from fx_explorer.session import SessionReader

EPILOG = """\
Nothing is built and nothing is measured: the wrapper that Inductor writes is read statement by statement, so that the answer
for a GPU is there without one (--gpu h100). A step is a call and its backward, with no gradients before it.

examples:
  fx-explorer memory model.py                            the peak of a training step, and the timeline
  fx-explorer memory model.py --gpu h100 --no-weights    as it would be on an H100
  fx-explorer memory model.fxs --format csv              every kernel call with the bytes of each kind

exit codes: 0 predicted · 1 no graph could be read · 2 to 5 as of every command
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    parser.add_argument(
        "--format", choices=["text", "json", "csv", "markdown"], default="text", help="text (default), or another"
    )
    add_allow_argument(parser)
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print what is predicted. Returns 1 where no graph could be read."""
    known: list[bool] = []
    ended = answer_from(arguments, lambda reader: known.append(_tell(reader, arguments.format)))
    return ended or int(not all(known))


def _tell(reader: SessionReader, format_: str) -> bool:
    from fx_explorer.report.memory_report import FORMATS, memory_report

    report = memory_report(reader)
    sys.stdout.write(FORMATS[format_](report))
    return report.memory.is_known
