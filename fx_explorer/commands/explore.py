"""``fx-explorer TARGET``: the app on a target or a saved session; without a terminal, the overview
as text.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.outputs import add_force_argument
from fx_explorer.command_line.profile_files import add_profile_argument
from fx_explorer.command_line.starting_app import add_theme_argument, explore

EPILOG = """\
examples:
  fx-explorer model.py                                   pauses after Dynamo: . steps, r compiles \
to the end
  fx-explorer model.py --run                             straight to the end
  fx-explorer model.py --call 'Net(2)' --inputs 'torch.randn(4, 32)'
  fx-explorer model.py --gpu h100                        the kernels of a GPU that is not there
  fx-explorer model.fxs                                  a session that was saved
  fx-explorer model.fxs --profile trace.json.gz          with the times of a torch.profiler trace \
of the program
  fx-explorer dedicated_log_torch_trace.log              what torch wrote for TORCH_TRACE
  fx-explorer dedicated_log_triton_trace.ndjson          what tritonparse wrote about Triton's \
kernels
  fx-explorer trace.json.gz                              a profile of torch.profiler alone
  fx-explorer snapshot.pickle                            what torch.cuda.memory._dump_snapshot wrote
  fx-explorer --follow /tmp/trace                        what a job with TORCH_TRACE=/tmp/trace \
compiles, as it goes
  fx-explorer /tmp/trace                                 the TORCH_TRACE logs of a job's ranks, \
side by side
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="file.py, file.py:object, package.module:object, model.pt2, a session.fxs, a "
        "TORCH_TRACE log (- for one "
        "that comes from another program), printed TORCH_LOGS, a log of tritonparse, a "
        "debug directory, a profile, a CUDA memory snapshot, or a directory of logs",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=None,
        help="save the session in this file (default: only in the history)",
    )
    parser.add_argument(
        "--save",
        type=Path,
        default=None,
        metavar="FILE",
        help="save what is read from a log as a session",
    )
    add_force_argument(parser)
    add_profile_argument(parser)
    add_theme_argument(parser)
    stops = parser.add_argument_group("where the compiler pauses").add_mutually_exclusive_group()
    stops.add_argument(
        "--run",
        action="store_true",
        help="compile without pausing (default: pause when Dynamo has made the first graph)",
    )
    stops.add_argument("--step", action="store_true", help="pause after every stage")
    parser.add_argument(
        "--follow",
        action="store_true",
        help="TARGET is a TORCH_TRACE log that a job is writing, or the directory of its logs: "
        "show entries as they arrive",
    )
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Show the app on a terminal, and otherwise print the overview. Raises UsageError for options
    that do not fit the target.
    """
    return explore(arguments)
