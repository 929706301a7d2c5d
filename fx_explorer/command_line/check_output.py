"""This module prints the result of ``fx-explorer check``, for one target or several, and writes it
in the formats of CI systems.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fx_explorer import model
from fx_explorer.command_line.outputs import add_force_argument, text_output
from fx_explorer.command_line.standard_streams import drop_output, why_output_is_lost
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import print_fitted
from fx_explorer.output_file import OutputFile
from fx_explorer.overview.checks import Check
from fx_explorer.overview.ci_rows import csv_text
from fx_explorer.report.check_formats import (
    SUITE,
    CheckedTarget,
    annotation_lines,
    junit_xml,
    sarif,
    summary,
)
from fx_explorer.session import SessionReader


def add_output_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add what to write, and return the group."""
    written = parser.add_argument_group("what to write")
    written.add_argument(
        "--github", action="store_true", help="also print annotations for GitHub Actions"
    )
    written.add_argument(
        "--junit",
        metavar="FILE",
        type=Path,
        help="write a JUnit XML file: a suite for each target, a test case for each condition",
    )
    written.add_argument(
        "--sarif",
        metavar="FILE",
        type=Path,
        help="write SARIF: alerts for GitHub's code scanning and other readers",
    )
    written.add_argument(
        "--csv",
        metavar="FILE",
        type=Path,
        help="write a CSV file with columns of PyTorch's own CI: name, accuracy, graph_breaks …",
    )
    written.add_argument(
        "--summary",
        metavar="FILE",
        type=Path,
        help='append the check as markdown to this file, such as "$GITHUB_STEP_SUMMARY"',
    )
    add_force_argument(written)
    return written


@dataclass(frozen=True, slots=True)
class CheckOutput:
    """Where the result of a check goes."""

    junit: OutputFile | None
    sarif: OutputFile | None
    csv: OutputFile | None
    summary: Path | None
    for_github: bool

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> CheckOutput:
        """Return the places asked for. Raises UsageError for one that cannot be written."""
        return cls(
            text_output(arguments.junit, "JUnit file", SUITE.encode(), arguments, "--junit FILE"),
            text_output(arguments.sarif, "SARIF file", b"fx-explorer", arguments, "--sarif FILE"),
            text_output(arguments.csv, "CSV file", b"name,accuracy", arguments, "--csv FILE"),
            arguments.summary and arguments.summary.absolute(),
            arguments.github,
        )

    def write(self, targets: Sequence[CheckedTarget]) -> None:
        """Write the files, then print a line for each condition. A standard output that is lost
        changes no exit code.
        """
        try:
            self._write(targets)
        except OSError:
            if not (reason := why_output_is_lost()):
                raise
            drop_output()  # the exit code is the verdict, whoever can read the rest
            print_fitted(f"fx-explorer: standard output cannot be written: {reason}", sys.stderr)

    def _write(self, targets: Sequence[CheckedTarget]) -> None:
        # All before the first is told: of a damaged session nothing is told but that.
        here = [target.relative_to(Path.cwd()) for target in targets]
        if self.junit:
            self.junit.write_text(junit_xml(here), errors="backslashreplace")
        for target in here:
            _print_target(target, is_one_of_several=len(targets) > 1)
        root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd())
        in_repository = [target.relative_to(root) for target in targets]
        checks = [check for target in in_repository for check in target.checks]
        if self.for_github:
            _print_annotations(checks)
        if self.sarif:
            self.sarif.write_text(sarif(checks), errors="backslashreplace")
        if self.csv:
            rows = [target.row for target in targets if target.row is not None]
            self.csv.write_text(csv_text(rows), errors="backslashreplace")
        if self.summary:
            with self.summary.open("a", encoding="utf-8", errors="backslashreplace") as file:
                file.write(summary(in_repository))


def checked_target(
    reader: SessionReader, checks: Sequence[Check], names: Sequence[str]
) -> CheckedTarget:
    """Return a session with its judged conditions; the first of ``names`` that is not empty is its
    name.
    """
    from fx_explorer.overview.ci_rows import ci_row

    own = str((reader.meta("target") or {}).get("name") or "")
    outcome = reader.meta("outcome")
    row = ci_row(reader, (*names, own))
    return CheckedTarget(
        row.names[0],
        tuple(checks),
        model.Outcome.from_json(outcome) if outcome else None,
        float(reader.meta("finished") or 0),
        row,
    )


def _print_target(target: CheckedTarget, *, is_one_of_several: bool) -> None:
    name = f" [{printable(target.name)}]" if is_one_of_several else ""
    for check in target.checks:
        if check.is_met:
            print_fitted(f"met: {printable(check.measured)} ({check.option}){name}", sys.stderr)
        else:
            print_fitted(printable(check.description) + name)
    if target.outcome is None:
        print_fitted(
            f"note: the capture of this session has not ended; the figures are preliminary{name}",
            sys.stderr,
        )
    elif is_one_of_several and target.problem:
        print_fitted(f"{printable(target.problem)}{name}", sys.stderr)


def _print_annotations(checks: Sequence[Check]) -> None:
    """Print the annotations. GitHub knows files by their path in the repository, wherever the step
    runs.
    """
    for check in checks:
        for line in annotation_lines(check):
            print(line)
