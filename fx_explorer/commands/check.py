"""``fx-explorer check X``: for CI. Whether X, a target or a session, meets the conditions, and is
not worse than a baseline; a line for each that it does not. Without X, all targets of the project's
table.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fx_explorer import model
from fx_explorer.argument_types import count
from fx_explorer.client.process_outcomes import exit_code
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.check_output import (
    CheckOutput,
    add_output_arguments,
    checked_target,
)
from fx_explorer.command_line.given_session import (
    add_target_argument,
    answer_from,
    is_session,
    shown_name,
)
from fx_explorer.command_line.judging import Judge, add_condition_arguments
from fx_explorer.command_line.outputs import session_output
from fx_explorer.command_line.several_targets import check_table
from fx_explorer.errors import UsageError
from fx_explorer.session import SessionReader

EPILOG = """\
examples:
  fx-explorer check model.py --max-graph-breaks 0        exit code 1 when there is one
  fx-explorer check train.fxs --max-recompiles 2 --junit check.xml
  fx-explorer check model.py --expect-graphs 1 --github  annotations for GitHub Actions
  fx-explorer check model.py --baseline model.baseline.json --update   accept the current figures
  fx-explorer check model.py --baseline model.baseline.json   not worse than that
  fx-explorer check                       all targets of [tool.fx-explorer.check] in pyproject.toml

Each unmet condition is one line on stdout, with file and line; everything else goes to stderr.
Compilations in child processes count, too. A check also fails when nothing was compiled, when the
program left early, when compiling raised an error, and when a child process could not be observed.
Each of these can be allowed.

exit codes: 0 all are met · 1 one is not · 3 the program raised · 4 the worker died or timed out, or
the session is not complete · 2 and 5 as for every command. With 3 and 4, the conditions are
still judged on what was captured.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the conditions that can be checked, the exceptions that can be allowed, and the output
    files.
    """
    parser.epilog = EPILOG
    parser.usage = "%(prog)s [X] [OPTIONS]"
    add_target_argument(parser, may_be_missing=True)
    add_condition_arguments(parser)
    table = parser.add_argument_group("without X: the targets in [tool.fx-explorer.check]")
    table.add_argument(
        "--only", metavar="NAME", action="append", default=[], help="this target; may be repeated"
    )
    table.add_argument(
        "--jobs",
        metavar="N",
        type=count,
        default=None,
        help="how many at a time (default: one for each processor)",
    )
    written = add_output_arguments(parser)
    written.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="save the session of a target in this file",
    )
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    if not arguments.target:
        return check_table(arguments)
    if arguments.only or arguments.jobs:
        raise UsageError("--only and --jobs work on the table of targets: leave X out")
    judge = Judge(arguments)
    output = CheckOutput.of(arguments)
    is_target = not is_session(arguments.target)
    is_met, recorded = True, 0

    def answer(reader: SessionReader) -> None:
        nonlocal is_met, recorded
        recorded = _exit_code(reader)
        with judge.judged(reader, _names(arguments), is_target=is_target) as (compared, checks):
            is_met = all(check.is_met for check in checks)
            own = str((reader.meta("target") or {}).get("name") or "")
            output.write([checked_target(compared, checks, (own, *_names(arguments)))])

    ended = answer_from(arguments, answer, session_output(arguments))
    # How the capture ended wins over a condition that is not met: its numbers are of a part.
    exit_code = recorded if ended is None else ended
    return exit_code or int(not is_met)


def _names(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Return the names of a target in files of others: as it is given, and its object."""
    given = shown_name(arguments)
    return given, given.rpartition(":")[2], Path(given).stem


def _exit_code(reader: SessionReader) -> int:
    """Return the exit code of a saved session's capture. A session without an ending was killed, or
    is still running: its numbers are partial.
    """
    outcome = reader.meta("outcome")
    if outcome is None:
        return 4
    return exit_code(model.Outcome.from_json(outcome), as_script=False)
