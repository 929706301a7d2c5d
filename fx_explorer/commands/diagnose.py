"""``fx-explorer diagnose X``: what is wrong with a program under torch.compile, the worst first,
and what to do; ``--try`` tries what can be tried.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from fx_explorer.command_line.capture_options import add_capture_arguments
from fx_explorer.command_line.given_session import (
    add_target_argument,
    answer_from,
    check_program,
    is_session,
)
from fx_explorer.command_line.outputs import add_force_argument, session_output
from fx_explorer.errors import UsageError
from fx_explorer.findings.cache_faults import cache_findings, compare_caches, run_built
from fx_explorer.findings.compiled_results import BuiltResults, built_findings, compare_built
from fx_explorer.findings.eager_calls import (
    CompileEdits,
    EagerModule,
    eager_call_findings,
    find_eager_calls,
)
from fx_explorer.findings.every_kind import Search, findings, search, worst_first
from fx_explorer.findings.finding import Finding
from fx_explorer.findings.report import finding_lines, finding_object
from fx_explorer.findings.trials import (
    BUDGET_S,
    Before,
    before_trials,
    to_try,
    try_all,
    why_not_tried,
    with_trials,
)
from fx_explorer.findings.without_compile import (
    AskedLine,
    CompileCall,
    ProgramRun,
    WithoutCompile,
    compare_without_compile,
    line_that_asks,
    run_of,
    users_compile_call,
    without_compile_findings,
)
from fx_explorer.findings.wrong_results import numerics_findings
from fx_explorer.highlight import printable
from fx_explorer.instruments.numerics.figures import add_numerics
from fx_explorer.instruments.numerics.trial import compare_with_eager
from fx_explorer.model import CacheComparison, CaptureRequest, Numerics, RemedyTrial
from fx_explorer.output.terminal import print_fitted
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.compilations import draws_by_inductor
from fx_explorer.trials import TrialWorker, forking_worker, why_not_measured

EPILOG = """\
examples:
  fx-explorer diagnose train.py                          what is wrong, the worst first, and what \
to do
  fx-explorer diagnose train.py --try                    try the remedies that are settings or \
small edits
  fx-explorer diagnose train.py --try --budget 600       for ten minutes at most
  fx-explorer diagnose model.fxs --json                  for programs

A finding names the line, the evidence, the cost and a remedy. A remedy counts as working only when
--try has shown it on this program: the program is captured again with that one change, and the
effect is counted.

exit codes: 0 nothing was found · 1 something was · and those of every command.
"""

NOTHING_LOOKED_FOR = Search((), ())

LEAST_FOR_NUMERICS_S = 30.0
"""Seconds of the budget that must be left for results to be compared."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_target_argument(parser)
    what = parser.add_argument_group("what to do with the findings")
    what.add_argument(
        "--try", dest="trying", action="store_true", help="try the remedies that can be tried"
    )
    what.add_argument(
        "--budget",
        metavar="SECONDS",
        type=_seconds,
        default=BUDGET_S,
        help=f"stop trying after this time (default: {BUDGET_S:.0f})",
    )
    what.add_argument("--json", action="store_true", help="print JSON")
    what.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="keep the session of a target"
    )
    add_force_argument(what)
    add_capture_arguments(parser)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return value


@dataclass
class _Session:
    """What is needed of the session after it is closed."""

    compared: CacheComparison | None = None
    numerics: Numerics | None = None
    without: WithoutCompile | None = None
    eager_modules: tuple[EagerModule, ...] | None = None
    """Modules that run in eager mode beside compiled code; None where they were not looked for."""
    edits: CompileEdits | None = None
    built: BuiltResults | None = None
    is_built_compared: bool = False

    draws_random: bool = False
    """Whether compiled code draws other random numbers than eager mode."""
    capture_s: float = 0.0
    """Seconds that the capture took; 0 where that is not known."""
    run: ProgramRun | None = None
    """What the program did."""
    compile_call: CompileCall | None = None
    asked: AskedLine | None = None
    findings: list[Finding] = field(default_factory=list)
    before: Before | None = None
    request: CaptureRequest | None = None
    search: Search = NOTHING_LOOKED_FOR


def run(arguments: argparse.Namespace) -> int:
    """Print the findings. Returns 1 when there are some, else how the capture ended."""
    session = _Session()
    output = session_output(arguments)
    ended = answer_from(arguments, lambda reader: _read(reader, session), output) or 0
    if arguments.trying and session.before is not None:
        trials = asyncio.run(_try_all(session, arguments))
        _add_trials(session, trials)
        kept = output or (Path(arguments.target) if is_session(arguments.target) else None)
        if kept:
            with SessionWriter(kept) as writer:
                writer.add_all(trials)
                if session.compared:
                    writer.add(session.compared)
            if session.numerics:
                add_numerics(kept, session.numerics)
    if session.before is None:
        return ended
    if arguments.json:
        _print_json(session)
    else:
        _print(session)
    return ended or int(any(finding.severity == "problem" for finding in session.findings))


def _add_trials(session: _Session, trials: list[RemedyTrial]) -> None:
    """Add the results of trials to the findings, and what the trials found."""
    before = session.before
    if before is None:
        return
    since: list[Finding] = []
    tried = []
    if session.compared:
        tried.append("compile caches")
        since += cache_findings(session.compared)
    if session.without:
        tried.append("without torch.compile")
        since += without_compile_findings(session.without)
    if session.eager_modules is not None:
        tried.append("eager calls")
        since += eager_call_findings(session.eager_modules)
    if session.built:
        since += built_findings(session.built)
    if session.numerics or session.is_built_compared:
        tried.append("wrong results")
    if session.numerics:
        since += numerics_findings(session.numerics)
    session.search = session.search.after_trials(tried)
    session.findings = worst_first([*since, *with_trials(session.findings, before, trials)])


def _read(reader: SessionReader, session: _Session) -> None:
    session.findings = findings(reader)
    session.before = before_trials(reader)
    session.request = reader.request()
    session.capture_s = float(reader.meta("finished") or 0)
    session.search = search(reader)
    session.run = run_of(reader) if reader.is_of_a_script() else None
    session.compile_call = users_compile_call(reader)
    session.asked = line_that_asks(reader)
    session.edits = CompileEdits.of(reader)
    session.draws_random = draws_by_inductor(reader)


async def _try_all(session: _Session, arguments: argparse.Namespace) -> list[RemedyTrial]:
    """Try the remedies one after the other, until the time is used up."""
    why_not = why_not_tried(session.request)
    if session.request is None:
        raise UsageError(f"{arguments.target}: {why_not}")
    wanted = to_try(session.findings)
    if wanted:
        check_program(arguments)
    worker = forking_worker(arguments.python, arguments.timeout)
    worker = replace(worker, capture_s=session.capture_s)
    ends_at = time.monotonic() + arguments.budget
    trials: list[RemedyTrial] = []
    tried = await try_all(
        session.request, wanted, trials.append, _narrate, worker, arguments.budget
    )
    if tried < len(wanted):
        left = len(wanted) - tried
        _narrate(f"{left} not tried: the {arguments.budget:.0f} s of --budget are used up")
    try:
        await asyncio.wait_for(
            _compare_runs(session, session.request, worker), ends_at - time.monotonic()
        )
    except asyncio.TimeoutError:
        _narrate(f"not all was compared: the {arguments.budget:.0f} s of --budget are used up")
    left_s = ends_at - time.monotonic()
    if left_s > LEAST_FOR_NUMERICS_S and not why_not_measured(session.request):
        _narrate("comparing the results with those of eager mode")
        try:
            session.numerics = await compare_with_eager(
                session.request, worker=worker, budget_s=left_s
            )
        except UsageError as error:
            _narrate(f"results were not compared: {error}")
    return trials


async def _compare_runs(session: _Session, request: CaptureRequest, worker: TrialWorker) -> None:
    """Compare the program with itself without torch.compile, and with and without caches. What is
    known when this is cancelled is kept.
    """
    if session.run and not _failed_compiling(session):
        _narrate("running the program without torch.compile")
        session.without = await compare_without_compile(
            request, session.run, session.compile_call, session.asked, worker
        )
    if session.run and session.run.graphs and session.edits:
        _narrate("looking for compiled modules that also run in eager mode")
        session.eager_modules = await find_eager_calls(request, session.edits, worker)
    if not request.use_caches:
        _narrate("running the program as it is, with torch's compile caches, and without")
        built = await run_built(request, worker, use_caches=False)
        session.compared = await compare_caches(request, built, worker)
        await _compare_built(session, ProgramRun(built.ended, built.printed), worker)


async def _compare_built(session: _Session, built: ProgramRun, worker: TrialWorker) -> None:
    """Compare what the built program prints with eager mode, where its graphs print the same."""
    without, request = session.without, session.request
    if request is None or without is None or without.eager is None or without.differs:
        return
    if session.draws_random:
        _narrate("what it prints is not compared with eager mode: it draws other random numbers")
        return
    session.built = await compare_built(request, built, without.eager, worker)
    session.is_built_compared = True


def _failed_compiling(session: _Session) -> bool:
    """Return whether the compiler ended the program: without torch.compile it surely does not."""
    return any(
        finding.kind in ("compiler error", "recompile limit") and finding.urgency == "failed"
        for finding in session.findings
    )


def _narrate(text: str) -> None:
    print(f"fx-explorer: {printable(text)}", file=sys.stderr, flush=True)


def _print(session: _Session) -> None:
    found = session.findings
    for line in finding_lines(found):
        print_fitted(line)
    if found:
        print_fitted(f"{session.search.summary}: --json lists them.")
    else:
        print_fitted(f"{_nothing_found(session)} {session.search.description}")


def _nothing_found(session: _Session) -> str:
    """Return that there are no findings. The error of a program that failed is not passed over."""
    ended = session.before.message if session.before and not session.before.went_well else ""
    if ended:
        return (
            f"The program failed ({ended}), and nothing of torch.compile's was found to cause it."
        )
    return "No problem was found."


def _print_json(session: _Session) -> None:
    content = {
        "findings": [finding_object(finding) for finding in session.findings],
        "looked_for": list(session.search.looked_for),
        "not_looked_for": list(session.search.not_looked_for),
    }
    print(json.dumps(content, indent=2))
