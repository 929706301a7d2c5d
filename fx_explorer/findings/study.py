"""A study asks of a program everything that takes running it again: remedies and fixes are tried,
results compared, calls timed. What comes out is added to the program's session, part by part.

A part may fail, run out of time or be stopped; the others go on, and a later study makes up for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from fx_explorer.analysis.whole_session import session_figures
from fx_explorer.analysis.words import counted
from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.findings.diagnosis import Diagnosis
from fx_explorer.findings.kept_trials import TriedFix, add_to_kept
from fx_explorer.findings.remedy_trials import to_try, why_not_tried
from fx_explorer.instruments.bench.bench_run import Bench, BenchProgress
from fx_explorer.instruments.bench.cells import bench_figures
from fx_explorer.instruments.bench.plan import BenchPlan
from fx_explorer.instruments.bench.verdict import verdict as bench_verdict
from fx_explorer.instruments.breaks.grouped import DistinctBreak, distinct_breaks
from fx_explorer.instruments.fixes import offers
from fx_explorer.instruments.fixes.fix import Fix
from fx_explorer.instruments.fixes.trial import Trial, try_fix
from fx_explorer.instruments.ledger.figures import ledger_figures
from fx_explorer.instruments.ledger.trial import account_for_call, add_ledger
from fx_explorer.instruments.ledger.verdict import verdict as ledger_verdict
from fx_explorer.instruments.numerics.figures import add_numerics
from fx_explorer.instruments.numerics.trial import compare_with_eager
from fx_explorer.instruments.numerics.verdict import verdict as numerics_verdict
from fx_explorer.model import CaptureRequest
from fx_explorer.model.study import META, StudyPart, parts_as_json, parts_from_json
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.trials import Told, TrialWorker, add_break_times, measure_breaks, why_not_measured

BENCH_MODES = ("", "reduce-overhead", "max-autotune-no-cudagraphs")
"""Modes of torch.compile that are measured beside the backends."""

LEAST_S = 5.0
"""Seconds of the budget without which a part is not begun."""

OVER_S = 60.0
"""Seconds by which a part that keeps to its budget by itself may exceed it."""


class DoesNotApply(Exception):
    """There is nothing to do for a part; the message says why."""


class OutOfTime(Exception):
    """A part has used up its time; the message says what was done."""


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    weight: int
    """Its share of the time that is left, relative to the parts after it."""
    command: str
    """The command that does it alone."""
    run: Callable[[Study, float], Awaitable[str]]
    """Does it within some seconds, and returns the result as a sentence."""


class Study:
    """Runs the parts of a study into the session at ``session``, which is written to."""

    def __init__(self, session: Path, target: str, worker: TrialWorker, tell: Told) -> None:
        self._session = session
        self._target = target
        self._tell = tell
        with SessionReader(session) as reader:
            request = reader.request()
            self._is_script = reader.is_of_a_script()
            self._ended: dict[str, StudyPart] = {
                part.name: part for part in parts_from_json(reader.meta(META) or [])
            }
        why_not = why_not_tried(request)
        if request is None or why_not:
            raise UsageError(f"{target}: {why_not}")
        self.request: CaptureRequest = request
        with SessionReader(session) as reader:
            self.worker = worker.after_capture(reader)

    @property
    def parts(self) -> list[StudyPart]:
        """The parts in their order, as far as they have ended."""
        return [self._ended[part.name] for part in PARTS if part.name in self._ended]

    async def run(self, budget_s: float) -> None:
        """Run the parts that are not done yet. Cancelling stops the part that runs; what was done
        is kept. Raises SessionWriteError.
        """
        ends_at = time.monotonic() + budget_s
        waiting = [part for part in PARTS if self._is_to_do(part)]
        try:
            for number, part in enumerate(waiting):
                left_s = max(ends_at - time.monotonic(), 0.0)
                weights = sum(later.weight for later in waiting[number:])
                self._tell(f"part {number + 1} of {len(waiting)}: {part.name}")
                await self._run_part(part, left_s * part.weight / weights)
        except asyncio.CancelledError:
            for part in waiting:
                if self._is_to_do(part):
                    self._note(part, "stopped", "It was stopped.", 0.0)
            raise

    def _is_to_do(self, part: _Part) -> bool:
        ended = self._ended.get(part.name)
        return ended is None or ended.is_missing

    async def _run_part(self, part: _Part, share_s: float) -> None:
        if share_s < LEAST_S:
            self._note(part, "out of time", "The budget was used up before it began.", 0.0)
            return
        began = time.monotonic()
        try:
            text = await part.run(self, share_s)
            state: str = "done"
        except DoesNotApply as reason:
            state, text = "does not apply", str(reason)
        except OutOfTime as reason:
            state, text = "out of time", str(reason)
        except asyncio.TimeoutError:
            state, text = "out of time", f"It was stopped after {share_s:.0f} s."
        except FxExplorerError as error:
            state, text = "failed", str(error)
        self._note(part, state, text, time.monotonic() - began)

    def _note(self, part: _Part, state: str, text: str, took_s: float) -> None:
        """Keep how a part ended, in the session too."""
        ended = StudyPart(part.name, state, text, took_s)  # type: ignore[arg-type]
        if ended.is_missing:
            ended = replace(ended, command=f"{part.command} {self._target}")
        self._ended[part.name] = ended
        with SessionWriter(self._session) as writer:
            writer.set_meta(META, parts_as_json(self.parts))
        self._tell(f"{part.name}: {state}: {text}")

    def _check_callable(self) -> None:
        """Raise DoesNotApply for a program that cannot be called repeatedly."""
        if self._is_script:
            raise DoesNotApply("A script cannot be called repeatedly.")
        problem = why_not_measured(self.request)
        if problem:
            raise DoesNotApply(problem)

    # the parts

    async def try_remedies(self, share_s: float) -> str:
        """Try what the findings propose, and compare the program with itself."""
        with SessionReader(self._session) as reader:
            diagnosis = Diagnosis.of(reader)
        is_whole = await diagnosis.try_remedies(self.worker, share_s, self._tell)
        await asyncio.to_thread(diagnosis.keep_in, self._session)
        text = "No finding has a remedy that can be tried."
        if to_try(diagnosis.findings):
            text = f"{counted(len(diagnosis.trials), 'remedy')} tried."
        if not is_whole:
            raise OutOfTime(text)
        return text

    async def try_fixes(self, share_s: float) -> str:
        """Try the fixes of each graph break until one is good, with the results compared."""
        ends_at = time.monotonic() + share_s
        with SessionReader(self._session) as reader:
            why_not = offers.why_not_tried(reader, self.request)
            before = session_figures(reader)
            offered = [(row, offers.proposals(reader, row)) for row in distinct_breaks(reader)]
        by_break = [(row, fixes) for row, fixes in offered if fixes]
        if not by_break:
            raise DoesNotApply("No graph break has a fix that can be tried.")
        if why_not:
            raise DoesNotApply(why_not)
        trials: list[Trial] = []
        is_whole = True
        while fix := offers.next_to_try([fixes for _, fixes in by_break], trials):
            left_s = ends_at - time.monotonic()
            self._tell(f"trying a fix: {fix.title} (line {fix.line})")
            try:
                trial = await asyncio.wait_for(
                    try_fix(self.request, fix, before, worker=self.worker), max(left_s, 0)
                )
            except asyncio.TimeoutError:
                is_whole = False
                break
            trials.append(trial)
            self._tell(f"{trial.verdict}: {trial.reason}")
            self._keep_fix(by_break, trial)
        good = sum(any(_is_good(fix, trials) for fix in fixes) for _, fixes in by_break)
        text = (
            f"{counted(len(trials), 'fix')} tried: {good} of "
            f"{counted(len(by_break), 'graph break')} can be avoided with equal results."
        )
        if not is_whole:
            raise OutOfTime(text)
        return text

    def _keep_fix(self, by_break: list[tuple[DistinctBreak, list[Fix]]], trial: Trial) -> None:
        fix = trial.fix
        tried = [
            TriedFix(
                row.file, row.line, row.registry_id, fix.title, trial.verdict, trial.reason,
                fix.diff, "" if fix.diff else fix.instruction,
            )
            for row, fixes in by_break
            if fix in fixes
        ]  # fmt: skip
        add_to_kept(self._session, fixes=tried)

    async def time_breaks(self, share_s: float) -> str:
        """Measure how long a call spends at each graph break."""
        self._check_callable()
        with SessionReader(self._session) as reader:
            count = len(distinct_breaks(reader))
        if not count:
            raise DoesNotApply("There is no graph break.")
        times = await asyncio.wait_for(
            measure_breaks(self.request, self._tell, self.worker), share_s
        )
        await asyncio.to_thread(add_break_times, self._session, times)
        return f"{counted(count, 'graph break')} timed."

    async def compare_results(self, share_s: float) -> str:
        """Compare results with those of eager mode."""
        self._check_callable()
        numerics = await asyncio.wait_for(
            compare_with_eager(self.request, self._tell, self.worker, share_s), share_s + OVER_S
        )
        await asyncio.to_thread(add_numerics, self._session, numerics)
        return numerics_verdict(numerics)[0]

    async def account_for_call(self, share_s: float) -> str:
        """Account for the time of one call."""
        self._check_callable()
        ledger = await asyncio.wait_for(
            account_for_call(self.request, self._tell, self.worker), share_s
        )
        await asyncio.to_thread(add_ledger, self._session, ledger)
        with SessionReader(self._session) as reader:
            figures = ledger_figures(reader)
        assert figures is not None
        return ledger_verdict(figures)[0]

    async def bench(self, share_s: float) -> str:
        """Measure backends and modes beside eager mode."""
        self._check_callable()
        request = replace(
            self.request, gpu=None, no_weights=False, pause="", stay=False, ledger=False,
            mode="", backend="inductor", build=True,
        )  # fmt: skip
        plan = BenchPlan(
            request, modes=BENCH_MODES, budget_s=round(share_s), timeout_s=self.worker.timeout_s
        )
        is_whole = True
        with SessionWriter(self._session) as writer:
            bench = Bench(
                plan, writer, self.worker.python, self._tell_bench, self.worker.fork_server
            )
            try:
                await asyncio.wait_for(bench.run(), share_s + OVER_S)
            except asyncio.TimeoutError:
                is_whole = False
        with SessionReader(self._session) as reader:
            figures = bench_figures(reader)
        text = " ".join(bench_verdict(figures)[:2]) if figures else "Nothing was measured."
        if not is_whole:
            raise OutOfTime(text)
        return text

    def _tell_bench(self, progress: BenchProgress) -> None:
        self._tell(f"bench: {progress.without_figures}")


def _is_good(fix: Fix, trials: list[Trial]) -> bool:
    return any(trial.is_good and trial.fix == fix for trial in trials)


PARTS = (
    _Part("remedies of the findings", 3, "fx-explorer diagnose --try", Study.try_remedies),
    _Part("fixes of graph breaks", 3, "fx-explorer fix --try", Study.try_fixes),
    _Part("time at graph breaks", 1, "fx-explorer report --measure-breaks", Study.time_breaks),
    _Part("results beside eager mode", 2, "fx-explorer numerics", Study.compare_results),
    _Part("where the time of a call goes", 1, "fx-explorer ledger", Study.account_for_call),
    _Part("backends and modes beside eager mode", 3, "fx-explorer bench", Study.bench),
)
