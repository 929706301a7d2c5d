"""``fx-explorer check X``: for CI. Whether X, a target or a session, meets the conditions; a line
for each that it does not.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fx_explorer import model
from fx_explorer.client.process_outcomes import exit_code
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from
from fx_explorer.command_line.outputs import add_force_argument, session_output, text_output
from fx_explorer.command_line.standard_streams import drop_output, why_output_is_lost
from fx_explorer.errors import UsageError
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import print_fitted
from fx_explorer.output_file import OutputFile
from fx_explorer.overview.checks import CONDITIONS, Check, checks, relative_to, unmet_requirements
from fx_explorer.report.check_formats import SUITE
from fx_explorer.session import SessionReader

EPILOG = """\
examples:
  fx-explorer check model.py --max-graph-breaks 0        exit code 1 when there is one
  fx-explorer check train.fxs --max-recompiles 2 --junit check.xml
  fx-explorer check model.py --expect-graphs 1 --github  annotations for GitHub Actions

Each condition that is not met is one line on stdout, with file and line; everything else goes to stderr. What child processes
compile counts, too. A check also fails when nothing was compiled, when the program left early, when compiling raised an error,
and when a child process could not be seen. Each of these can be allowed.

exit codes: 0 all are met · 1 one is not · 3 the program raised · 4 the worker died or timed out, or the session is not complete
· 2 and 5 as for every command. With 3 and 4 the conditions are still judged, on what was captured.
"""


ALLOWED = {
    "nothing": "that nothing was compiled at all",
    "early-exit": "that the program left before its end, with exit status 0",
    "unseen-children": "that a child process imported torch unrecorded, or outlived the program",
    "compile-errors": "that compiling raised an error, which the program caught or torch passed over",
    "gaps": "that something torch did could not be recorded",
}
"""Name → help. Without the option, each is a condition that fails (overview/checks.py)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the conditions that can be checked, the exceptions that can be allowed, and the output
    files.
    """
    parser.epilog = EPILOG
    add_target_argument(parser)
    asked = parser.add_argument_group("conditions (one at least)")
    asked.add_argument(
        "--max-graph-breaks", metavar="N", type=_count, help="graph breaks, each time one was hit"
    )
    asked.add_argument(
        "--max-break-sites", metavar="N", type=_count, help="places in the code with a graph break"
    )
    asked.add_argument("--max-recompiles", metavar="N", type=_count, help="recompiles, each time")
    asked.add_argument(
        "--max-guards", metavar="N", type=_count, help="guards of any one compilation"
    )
    asked.add_argument(
        "--no-skipped-frames",
        action="store_const",
        const=0,
        help="every function that Dynamo looked at is compiled, none runs in eager mode",
    )
    asked.add_argument(
        "--expect-graphs", metavar="N", type=_count, help="exactly this number of graphs"
    )
    allowed = parser.add_argument_group("what every check requires, and may be told to allow")
    for name, what in ALLOWED.items():
        allowed.add_argument(
            f"--allow-{name}",
            action="append_const",
            const=name,
            dest="allowed",
            default=[],
            help=what,
        )
    written = parser.add_argument_group("what to write")
    written.add_argument(
        "--github", action="store_true", help="print annotations for GitHub Actions too"
    )
    written.add_argument(
        "--junit",
        metavar="FILE",
        type=Path,
        help="write a JUnit XML file: one test case a condition",
    )
    written.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="keep the session of a target in this file",
    )
    add_force_argument(written)
    add_capture_arguments(parser)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 on")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    wanted = wanted_conditions(arguments)
    junit = text_output(arguments.junit, "JUnit file", SUITE.encode(), arguments, "--junit FILE")
    is_met, recorded = True, 0

    def answer(reader: SessionReader) -> None:
        nonlocal is_met, recorded
        allowed = set(arguments.allowed)
        if wanted.get("expect-graphs") == 0:
            allowed.add("nothing")
        judged = [*unmet_requirements(reader, allowed), *checks(reader, wanted)]
        is_met, recorded = all(check.is_met for check in judged), _exit_code(reader)
        try:
            _print_result(reader, judged, arguments.github, junit)
        except OSError:
            if not (reason := why_output_is_lost()):
                raise
            drop_output()  # the exit code is the verdict, whoever can read the rest
            print_fitted(f"fx-explorer: standard output cannot be written: {reason}", sys.stderr)

    ended = answer_from(arguments, answer, session_output(arguments))
    # How the capture ended wins over a condition that is not met: its numbers are of a part.
    exit_code = recorded if ended is None else ended
    return exit_code or int(not is_met)


def wanted_conditions(arguments: argparse.Namespace) -> dict[str, int]:
    """Return the requested conditions, name → limit. Raises UsageError if there are none."""
    values = {name: getattr(arguments, name.replace("-", "_")) for name in CONDITIONS}
    wanted = {name: value for name, value in values.items() if value is not None}
    if not wanted:
        options = ", ".join(map(_option, CONDITIONS))
        raise UsageError(f"check needs a condition, one of: {options}")
    return wanted


def _option(condition: str) -> str:
    if condition.startswith("no-"):
        return f"--{condition}"
    return f"--{condition} N"


def _exit_code(reader: SessionReader) -> int:
    """Return the exit code of a saved session's capture. A session without an ending was killed, or
    is still running: its numbers are partial.
    """
    outcome = reader.meta("outcome")
    if outcome is None:
        return 4
    return exit_code(model.Outcome.from_json(outcome), as_script=False)


def _print_result(
    reader: SessionReader, judged: Sequence[Check], for_github: bool, junit: OutputFile | None
) -> None:
    if junit:
        _write_junit(reader, judged, junit)
    # All before the first is told: of a damaged session nothing is told but that.
    for check in [relative_to(check, Path.cwd()) for check in judged]:
        if check.is_met:
            print_fitted(f"met: {printable(check.measured)} ({check.option})", sys.stderr)
        else:
            print_fitted(printable(check.description))
    if reader.meta("outcome") is None:
        print_fitted(
            "note: the capture of this session has not ended; these are the numbers of a part",
            sys.stderr,
        )
    if for_github:
        _print_annotations(judged)


def _print_annotations(judged: Sequence[Check]) -> None:
    """Print the annotations. GitHub knows files by their path in the repository, wherever the step
    runs.
    """
    from fx_explorer.report.check_formats import annotation_lines

    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    for check in judged:
        for line in annotation_lines(relative_to(check, root)):
            print(line)


def _write_junit(reader: SessionReader, judged: Sequence[Check], file: OutputFile) -> None:
    from fx_explorer.report.check_formats import junit_xml

    name = (reader.meta("target") or {}).get("name") or reader.path.name
    outcome = reader.meta("outcome")
    ended = model.Outcome.from_json(outcome) if outcome else None
    text = junit_xml(
        [relative_to(check, Path.cwd()) for check in judged],
        name,
        ended,
        float(reader.meta("finished") or 0),
    )
    file.write_text(text, errors="backslashreplace")
