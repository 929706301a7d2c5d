"""This module judges a session by the conditions of ``fx-explorer check``, for every command that
takes them: their options, the baseline that they name, and the comparison with eager mode.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from fx_explorer.client.session_files import SESSION, copy_session, session_file
from fx_explorer.errors import UsageError
from fx_explorer.folders import temporary_folder
from fx_explorer.highlight import printable
from fx_explorer.instruments.numerics.figures import add_numerics
from fx_explorer.instruments.numerics.trial import compare_with_eager
from fx_explorer.output.terminal import print_fitted
from fx_explorer.overview.baseline import Baseline, compare, measure
from fx_explorer.overview.baseline_file import read_baseline
from fx_explorer.overview.checks import Check, unmet_requirements
from fx_explorer.overview.ci_rows import ci_row, expected_checks, read_expected
from fx_explorer.overview.conditions import CONDITIONS, checks, judge_fused
from fx_explorer.session import SessionReader
from fx_explorer.session.untrusted.kind_of_file import kind_of_file
from fx_explorer.trials import forking_worker, why_not_measured

ALLOWED = {
    "nothing": "nothing was compiled at all",
    "early-exit": "the program left before its end, with exit status 0",
    "unseen-children": "a child process imported torch unrecorded, or outlived the program",
    "compile-errors": "the compiler raised an error, which the program caught or torch suppressed",
    "gaps": "something that torch did could not be recorded",
}
"""Name → help. Without the option, each is a condition that fails (overview/checks.py)."""


def add_condition_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the conditions that can be checked, and the exceptions that can be allowed."""
    asked = parser.add_argument_group("conditions (one at least)")
    asked.add_argument(
        "--max-graph-breaks",
        metavar="N",
        type=_count,
        help=("graph breaks, counted each time one was hit"),
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
        help="every function that Dynamo looked at is compiled; none runs in eager mode",
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
        help="bytes that forwards save for backwards: 4096, 64kB, 2MB, 1GB",
    )
    asked.add_argument(
        "--max-peak", metavar="SIZE", type=_bytes, help="predicted peak memory of a step"
    )
    asked.add_argument(
        "--no-fallbacks",
        action="store_const",
        const=0,
        help="no operator runs as PyTorch's own call because Inductor has no code for it",
    )
    asked.add_argument(
        "--expect-fused",
        metavar=("A", "B"),
        nargs=2,
        action="append",
        default=[],
        help="one generated kernel computes both operators A and B, such as layer_norm and gelu; "
        "may be repeated",
    )
    asked.add_argument(
        "--close-to-eager",
        action="store_const",
        const=0,
        help="results agree with eager mode by PyTorch's own rule; a target is run for this, as "
        "by fx-explorer numerics",
    )
    asked.add_argument(
        "--baseline",
        metavar="FILE",
        type=Path,
        help="no figure is worse than in this baseline, which is a session or a JSON report",
    )
    asked.add_argument(
        "--expected",
        metavar="FILE",
        type=Path,
        help="no figure is worse than in the row with the target's name in this CSV file, by the "
        "rules of PyTorch's own CI",
    )
    asked.add_argument(
        "--update", action="store_true", help="write the baseline from the current figures"
    )
    asked.add_argument(
        "--own",
        metavar="PATH",
        type=Path,
        help="count graph breaks, recompiles and skipped functions only where your innermost line "
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


class Judge:
    """Judges sessions by the conditions of a command line, whose files it has read."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        """Raises UsageError where there is no condition, and for a file that cannot be used."""
        self._arguments = arguments
        self.wanted = wanted_conditions(arguments)
        self._before = given_baseline(arguments)
        self._expected = read_expected(arguments.expected) if arguments.expected else None

    @contextlib.contextmanager
    def judged(
        self, reader: SessionReader, names: Sequence[str], *, is_target: bool
    ) -> Iterator[tuple[SessionReader, list[Check]]]:
        """Yield the session, and what it meets and does not. With ``--close-to-eager`` for a
        target, it is a copy of the session with its results compared. ``names`` are those under
        which a file of expected figures may have it. With ``--update``, the baseline is written.
        """
        with contextlib.ExitStack() as until:
            if "close-to-eager" in self.wanted and is_target:
                reader = until.enter_context(_with_numerics(reader, self._arguments))
            yield reader, self._judge(reader, names)

    def _judge(self, reader: SessionReader, names: Sequence[str]) -> list[Check]:
        """Return the requirements that are not met, then the conditions, then the baseline's
        figures.
        """
        arguments = self._arguments
        allowed = set(arguments.allowed)
        if self.wanted.get("expect-graphs") == 0:
            allowed.add("nothing")
        judged = [*unmet_requirements(reader, allowed)]
        judged += checks(reader, self.wanted, arguments.own)
        judged += [judge_fused(reader, first, second) for first, second in arguments.expect_fused]
        if self._expected is not None:
            own = str((reader.meta("target") or {}).get("name") or "")
            judged += expected_checks(reader, ci_row(reader, (*names, own)), self._expected)
        if arguments.baseline is not None:
            judged += self._compared(reader)
        return judged

    def _compared(self, reader: SessionReader) -> list[Check]:
        arguments, before = self._arguments, self._before
        now = measure(reader, Path.cwd(), arguments.own)
        if arguments.update:
            arguments.baseline.write_text(now.to_json(), encoding="utf-8")
            print_fitted(f"baseline: {arguments.baseline}", sys.stderr)
            return []
        if before is None:
            return []
        if before.target != now.target:
            text = f"note: the baseline is for {before.target}, and this is {now.target}"
            print_fitted(printable(text), sys.stderr)
        if before.sizes is None:
            print_fitted(
                "note: the baseline does not record the sizes of inputs; they are assumed to be "
                "the same",
                sys.stderr,
            )
        return [difference.check for difference in compare(before, now)]


def given_baseline(arguments: argparse.Namespace) -> Baseline | None:
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
                f"--update writes text, but {arguments.baseline} is a session: name another file"
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
    others = (arguments.baseline, arguments.expected, arguments.expect_fused)
    if not wanted and not any(others):
        options = ", ".join(map(_option, CONDITIONS))
        raise UsageError(
            f"check needs a condition, one of: {options}, --expect-fused A B, --baseline FILE, "
            "--expected FILE"
        )
    return wanted


def _option(condition: str) -> str:
    if condition.startswith("no-") or condition == "close-to-eager":
        return f"--{condition}"
    return f"--{condition} N"
