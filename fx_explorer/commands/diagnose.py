"""``fx-explorer diagnose X``: what is wrong with a program under torch.compile, the worst first,
and what to do; ``--try`` tries what can be tried.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import replace
from pathlib import Path

from fx_explorer.command_line.capture_options import add_budget_argument, add_capture_arguments
from fx_explorer.command_line.given_session import (
    add_target_argument,
    answer_from,
    check_program,
    is_session,
)
from fx_explorer.command_line.outputs import add_force_argument, session_output
from fx_explorer.errors import UsageError
from fx_explorer.findings.diagnosis import Diagnosis
from fx_explorer.findings.remedy_trials import BUDGET_S, why_not_tried
from fx_explorer.findings.report import finding_lines, finding_object
from fx_explorer.highlight import printable
from fx_explorer.output.terminal import print_fitted
from fx_explorer.overview.ending import OF_EAGER_GRAPHS
from fx_explorer.trials import forking_worker

EPILOG = """\
examples:
  fx-explorer diagnose train.py                          what is wrong, the worst first, and what \
to do
  fx-explorer diagnose train.py --try                    try the remedies that are settings or \
small edits
  fx-explorer diagnose train.py --try --budget 600       for ten minutes at most
  fx-explorer diagnose model.fxs --json                  for programs

A finding names the line, the evidence, the cost and a remedy. A remedy counts as working only when
--try has measured it on this program: the program is captured again with only that change.

exit codes: 0 nothing was found · 1 something was · and those of every command.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    what = parser.add_argument_group("what to do with the findings")
    what.add_argument(
        "--try", dest="trying", action="store_true", help="try the remedies that can be tried"
    )
    add_budget_argument(what, BUDGET_S)
    what.add_argument("--json", action="store_true", help="print JSON")
    what.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="save the session of a target"
    )
    add_force_argument(what)
    add_capture_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the findings. Returns 1 when there are some, else how the capture ended."""
    output = session_output(arguments)
    diagnoses: list[Diagnosis] = []
    ended = (
        answer_from(arguments, lambda reader: diagnoses.append(Diagnosis.of(reader)), output) or 0
    )
    if not diagnoses:
        return ended
    diagnosis = diagnoses[0]
    if arguments.trying:
        asyncio.run(_try(diagnosis, arguments))
        kept = output or (Path(arguments.target) if is_session(arguments.target) else None)
        if kept:
            diagnosis.keep_in(kept)
    if arguments.json:
        _print_json(diagnosis)
    else:
        _print(diagnosis)
    return ended or int(diagnosis.has_problem)


async def _try(diagnosis: Diagnosis, arguments: argparse.Namespace) -> None:
    """Try the remedies one after the other, until the time is used up."""
    why_not = why_not_tried(diagnosis.request)
    if why_not:
        raise UsageError(f"{arguments.target}: {why_not}")
    check_program(arguments)
    worker = forking_worker(arguments.python, arguments.timeout)
    worker = replace(worker, capture_s=diagnosis.capture_s)
    ends_at = time.monotonic() + arguments.budget
    await diagnosis.try_remedies(worker, arguments.budget, _narrate)
    await diagnosis.compare_results(worker, ends_at - time.monotonic(), _narrate)
    diagnosis.add_trials()


def _narrate(text: str) -> None:
    print(f"fx-explorer: {printable(text)}", file=sys.stderr, flush=True)


def _print(diagnosis: Diagnosis) -> None:
    found = diagnosis.findings
    for line in finding_lines(found):
        print_fitted(line)
    if found:
        print_fitted(f"{diagnosis.search.summary}: --json lists them.")
    else:
        print_fitted(f"{_nothing_found(diagnosis)} {diagnosis.search.description}")


def _nothing_found(diagnosis: Diagnosis) -> str:
    """Return that there are no findings. The error of a program that failed is not passed over."""
    ended = "" if diagnosis.before.went_well else diagnosis.before.message
    if diagnosis.before.raised_inspecting:
        return f"The program failed while it was inspected ({ended}). {OF_EAGER_GRAPHS}."
    if ended:
        return f"The program failed ({ended}), and no cause in torch.compile was found."
    return "No problem was found."


def _print_json(diagnosis: Diagnosis) -> None:
    content = {
        "findings": [finding_object(finding) for finding in diagnosis.findings],
        "looked_for": list(diagnosis.search.looked_for),
        "not_looked_for": list(diagnosis.search.not_looked_for),
    }
    print(json.dumps(content, indent=2))
