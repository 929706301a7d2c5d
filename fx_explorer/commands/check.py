"""``fx-explorer check X``: for CI. Whether X, a target or a session, meets the conditions, and is
not worse than a baseline; a line for each that it does not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fx_explorer import model
from fx_explorer.client.process_outcomes import exit_code
from fx_explorer.client.session_files import SESSION, copy_session, session_file
from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import add_target_argument, answer_from, is_session
from fx_explorer.command_line.outputs import add_force_argument, session_output, text_output
from fx_explorer.command_line.standard_streams import drop_output, why_output_is_lost
from fx_explorer.errors import UsageError
from fx_explorer.folders import temporary_folder
from fx_explorer.highlight import printable
from fx_explorer.instruments.numerics.figures import add_numerics
from fx_explorer.instruments.numerics.trial import compare_with_eager
from fx_explorer.output.terminal import print_fitted
from fx_explorer.output_file import OutputFile
from fx_explorer.overview.baseline import Baseline, compare, measure, read_baseline
from fx_explorer.overview.checks import BASELINE, Check, relative_to, unmet_requirements
from fx_explorer.overview.conditions import CONDITIONS, checks, judge_fused
from fx_explorer.report.check_formats import SUITE, annotation_lines, junit_xml, sarif, summary
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.kind_of_file import kind_of_file
from fx_explorer.trials import forking_worker, why_not_measured

EPILOG = """\
examples:
  fx-explorer check model.py --max-graph-breaks 0        exit code 1 when there is one
  fx-explorer check train.fxs --max-recompiles 2 --junit check.xml
  fx-explorer check model.py --expect-graphs 1 --github  annotations for GitHub Actions
  fx-explorer check model.py --baseline model.baseline.json --update   accept what is found now
  fx-explorer check model.py --baseline model.baseline.json   not worse than that

Each condition that is not met is one line on stdout, with file and line; everything else goes to
stderr. What child processes compile counts, too. A check also fails when nothing was compiled, when
the program left early, when compiling raised an error, and when a child process could not be seen.
Each of these can be allowed.

exit codes: 0 all are met · 1 one is not · 3 the program raised · 4 the worker died or timed out, or
the session is not complete · 2 and 5 as for every command. With 3 and 4 the conditions are still
judged, on what was captured.
"""


ALLOWED = {
    "nothing": "that nothing was compiled at all",
    "early-exit": "that the program left before its end, with exit status 0",
    "unseen-children": "that a child process imported torch unrecorded, or outlived the program",
    "compile-errors": "that compiling raised an error, which the program caught or torch passed "
    "over",
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
    asked.add_argument(
        "--max-findings", metavar="N", type=_count, help="problems that fx-explorer diagnose names"
    )
    asked.add_argument(
        "--max-compile-seconds", metavar="N", type=_count, help="seconds that compiling took"
    )
    asked.add_argument(
        "--max-kernels", metavar="N", type=_count, help="generated kernels and library calls"
    )
    asked.add_argument(
        "--max-saved-bytes",
        metavar="SIZE",
        type=_bytes,
        help="what forwards save for backwards: 4096, 64kB, 2MB, 1GB",
    )
    asked.add_argument(
        "--max-peak", metavar="SIZE", type=_bytes, help="predicted peak memory of a step"
    )
    asked.add_argument(
        "--no-fallbacks",
        action="store_const",
        const=0,
        help="no operator is a library call because Inductor generates no code for it",
    )
    asked.add_argument(
        "--expect-fused",
        metavar=("A", "B"),
        nargs=2,
        action="append",
        default=[],
        help="one generated kernel computes both operators, such as layer_norm and gelu; may be "
        "repeated",
    )
    asked.add_argument(
        "--close-to-eager",
        action="store_const",
        const=0,
        help="results are those of eager mode by PyTorch's own rule; a target is run for it, as by "
        "fx-explorer numerics",
    )
    asked.add_argument(
        "--baseline",
        metavar="FILE",
        type=Path,
        help="no figure is worse than in this baseline or session",
    )
    asked.add_argument(
        "--update", action="store_true", help="write the baseline from what is found now"
    )
    asked.add_argument(
        "--own",
        metavar="PATH",
        type=Path,
        help="graph breaks, recompiles and skipped functions count only where your innermost line "
        "is below PATH",
    )
    allowed = parser.add_argument_group("what every check requires, and may be configured to allow")
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
        "--sarif",
        metavar="FILE",
        type=Path,
        help="write SARIF: alerts for GitHub's code scanning and other readers",
    )
    written.add_argument(
        "--summary",
        metavar="FILE",
        type=Path,
        help='append the check as markdown, as to "$GITHUB_STEP_SUMMARY"',
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


_UNITS = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}


def _bytes(text: str) -> int:
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,3})?) ?([kKMGT]?B?)", text)
    unit = match[2].upper() if match else ""
    if match is None or unit not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size, such as 4096, 64kB or 2MB")
    return int(float(match[1]) * _UNITS[unit])


def run(arguments: argparse.Namespace) -> int:
    wanted = wanted_conditions(arguments)
    before = _baseline(arguments)
    junit = text_output(arguments.junit, "JUnit file", SUITE.encode(), arguments, "--junit FILE")
    sarif_file = text_output(
        arguments.sarif, "SARIF file", b"fx-explorer", arguments, "--sarif FILE"
    )
    is_met, recorded = True, 0

    def answer(reader: SessionReader) -> None:
        nonlocal is_met, recorded
        recorded = _exit_code(reader)
        if "close-to-eager" in wanted and not is_session(arguments.target):
            reader = stack.enter_context(_with_numerics(reader, arguments))
        judged = _judge(reader, arguments, wanted, before)
        is_met = all(check.is_met for check in judged)
        try:
            _print_result(reader, judged, arguments.github, junit)
            _write_others(reader, judged, sarif_file, arguments.summary)
        except OSError:
            if not (reason := why_output_is_lost()):
                raise
            drop_output()  # the exit code is the verdict, whoever can read the rest
            print_fitted(f"fx-explorer: standard output cannot be written: {reason}", sys.stderr)

    with contextlib.ExitStack() as stack:
        ended = answer_from(arguments, answer, session_output(arguments))
    # How the capture ended wins over a condition that is not met: its numbers are of a part.
    exit_code = recorded if ended is None else ended
    return exit_code or int(not is_met)


def _judge(
    reader: SessionReader,
    arguments: argparse.Namespace,
    wanted: dict[str, int],
    before: Baseline | None,
) -> list[Check]:
    """Return the requirements that are not met, then the conditions, then the baseline's figures.
    With ``--update``, the baseline is written.
    """
    allowed = set(arguments.allowed)
    if wanted.get("expect-graphs") == 0:
        allowed.add("nothing")
    judged = [*unmet_requirements(reader, allowed), *checks(reader, wanted, arguments.own)]
    judged += [judge_fused(reader, first, second) for first, second in arguments.expect_fused]
    if arguments.baseline is None:
        return judged
    now = measure(reader, Path.cwd(), arguments.own)
    if before is not None:
        judged += [difference.check for difference in compare(before, now)]
        if before.target != now.target:
            text = f"note: the baseline is of {before.target}, and this is {now.target}"
            print_fitted(printable(text), sys.stderr)
    if arguments.update:
        arguments.baseline.write_text(now.to_json(), encoding="utf-8")
        print_fitted(f"baseline: {arguments.baseline}", sys.stderr)
        judged = [check for check in judged if not check.condition.startswith(BASELINE)]
    return judged


def _baseline(arguments: argparse.Namespace) -> Baseline | None:
    """Return the baseline that is given; None without one, and where it is to be written. Raises
    UsageError for a file that is none, and for options that need one.
    """
    if arguments.baseline is None:
        if arguments.update:
            raise UsageError("--update writes a baseline: name its file with --baseline FILE")
        return None
    if kind_of_file(arguments.baseline).kind == "sqlite":
        if arguments.update:
            raise UsageError(
                f"--update writes a text, and {arguments.baseline} is a session: name another file"
            )
        with SessionReader(arguments.baseline) as reader:
            return measure(reader, Path.cwd(), arguments.own)
    if arguments.update and not arguments.baseline.exists():
        return None
    return read_baseline(arguments.baseline)


@contextlib.contextmanager
def _with_numerics(reader: SessionReader, arguments: argparse.Namespace) -> Iterator[SessionReader]:
    """Yield a copy of the session with its results compared with those of eager mode. Where they
    cannot be compared, the reason is printed, and the condition is not met.
    """
    request = reader.request()
    problem = why_not_measured(request)
    if request is None or problem:
        print_fitted(f"fx-explorer: not compared with eager mode: {problem}", sys.stderr)
        yield reader
        return
    with temporary_folder() as folder, ThreadPoolExecutor(1) as thread:
        copy = folder / SESSION
        copy_session(reader.path, session_file(copy))
        worker = forking_worker(arguments.python, arguments.timeout)
        try:
            # The capture has a loop of its own in this thread.
            comparing = thread.submit(asyncio.run, compare_with_eager(request, worker=worker))
            add_numerics(copy, comparing.result())
        except UsageError as error:
            print_fitted(f"fx-explorer: not compared with eager mode: {error}", sys.stderr)
        with SessionReader(copy) as compared:
            yield compared


def wanted_conditions(arguments: argparse.Namespace) -> dict[str, int]:
    """Return the requested conditions, name → limit. Raises UsageError if there are none."""
    values = {name: getattr(arguments, name.replace("-", "_")) for name in CONDITIONS}
    wanted = {name: value for name, value in values.items() if value is not None}
    if not wanted and not arguments.baseline and not arguments.expect_fused:
        options = ", ".join(map(_option, CONDITIONS))
        raise UsageError(
            f"check needs a condition, one of: {options}, --expect-fused A B, --baseline FILE"
        )
    return wanted


def _option(condition: str) -> str:
    if condition.startswith("no-") or condition == "close-to-eager":
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
            "note: the capture of this session has not ended; the figures are those so far",
            sys.stderr,
        )
    if for_github:
        _print_annotations(judged)


def _print_annotations(judged: Sequence[Check]) -> None:
    """Print the annotations. GitHub knows files by their path in the repository, wherever the step
    runs.
    """

    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    for check in judged:
        for line in annotation_lines(relative_to(check, root)):
            print(line)


def _write_others(
    reader: SessionReader,
    judged: Sequence[Check],
    sarif_file: OutputFile | None,
    summary_file: Path | None,
) -> None:
    """Write SARIF, with files as the repository knows them, and append the summary."""
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
    shown = [relative_to(check, root) for check in judged]
    if sarif_file:
        sarif_file.write_text(sarif(shown), errors="backslashreplace")
    if summary_file:
        name = (reader.meta("target") or {}).get("name") or reader.path.name
        with summary_file.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(summary(shown, str(name)))


def _write_junit(reader: SessionReader, judged: Sequence[Check], file: OutputFile) -> None:

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
