"""This module is ``fx-explorer profile X TRACE``: it shows where the time of a profile of
torch.profiler went, beside the session of its program.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path

from fx_explorer.command_line.given_session import is_session
from fx_explorer.command_line.profile_files import FOR_SESSIONS, session_with_profile
from fx_explorer.errors import UsageError
from fx_explorer.output.terminal import width_for
from fx_explorer.session import SessionReader

EPILOG = """\
The times of the profile are joined to the calls of kernels in the session: by the launch of each kernel, the compiled graph
around it, and its place among the calls of the generated code, confirmed by the names. ~ marks a time that is divided equally
among several calls of one name, because their order does not identify them. ≈ marks code that differs in the number of its
name. What ran outside of compiled graphs (optimizer, code that was not compiled, Python at graph breaks) is listed apart.
Everything adds up to the GPU's time in the profile.

The profile is kept in the session, and the app shows its times as well: fx-explorer SESSION --profile TRACE.

examples:
  fx-explorer run train.py                        record it; a torch.profiler in it may write trace.json.gz meanwhile
  fx-explorer profile train.fxs trace.json.gz     where the time went: your lines, modules, kernels; idle times of the GPU
  fx-explorer profile trace.log trace.json.gz     the same with a TORCH_TRACE log of the program
  fx-explorer profile train.fxs --all             the profile that the session has, every row
  fx-explorer profile train.fxs t.json --format json

exit codes: 0 fine · 1 nothing could be joined · 2 bad usage · 5 a file cannot be read, or is no profile
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "target", metavar="X", help="a session (file.fxs) or a TORCH_TRACE log of the program"
    )
    parser.add_argument(
        "trace",
        metavar="TRACE",
        type=Path,
        nargs="?",
        default=None,
        help="what torch.profiler wrote with export_chrome_trace (.json, .json.gz); default: "
        "the profile that X has",
    )
    parser.add_argument(
        "--format",
        choices=["text", "json", "csv", "markdown"],
        default="text",
        help="text (default), or another",
    )
    parser.add_argument(
        "--all",
        dest="every",
        action="store_true",
        help="every row, and not only the most expensive",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the profile. Returns 1 where no part of it could be joined. Raises UsageError if X is
    not a session, or if neither a trace is given nor X has a profile.
    """
    from fx_explorer.instruments.profile.figures import profile_figures
    from fx_explorer.instruments.profile.report import FORMATS, profile_text

    if not is_session(arguments.target):
        raise UsageError(FOR_SESSIONS.format(target=arguments.target))
    with contextlib.ExitStack() as until:
        session = Path(arguments.target)
        if arguments.trace:
            session = session_with_profile(arguments.target, arguments.trace, until)
        with SessionReader(session) as reader:
            figures = profile_figures(reader)
            if figures is None:
                raise UsageError(
                    f"{session} has no profile. Give one: fx-explorer profile {session} TRACE"
                )
            if arguments.format == "text":
                sys.stdout.write(profile_text(figures, arguments.every, width_for(sys.stdout)))
            else:
                sys.stdout.write(FORMATS[arguments.format](figures, arguments.every))
    return int(not figures.kernels)
