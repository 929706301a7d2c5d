"""A diagnosis: the findings of a session, its remedies tried, and the program compared with itself:
without torch.compile, with and without compile caches, and with eager mode.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from fx_explorer.errors import UsageError
from fx_explorer.findings.cache_faults import (
    cache_findings,
    compare_caches,
    describe_recompiles,
    run_built,
)
from fx_explorer.findings.compiled_results import (
    BuiltResults,
    built_findings,
    compare_built,
    has_low_precision,
    writes_into_views,
)
from fx_explorer.findings.every_kind import FindingSearch, findings, search, worst_first
from fx_explorer.findings.finding import Finding
from fx_explorer.findings.kept_trials import add_to_kept
from fx_explorer.findings.modules_in_eager_mode import (
    CompileEdits,
    EagerModule,
    eager_call_findings,
    find_eager_calls,
)
from fx_explorer.findings.remedy_trials import Before, before_trials, to_try, try_all, with_trials
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
from fx_explorer.instruments.numerics.figures import add_numerics
from fx_explorer.instruments.numerics.trial import compare_with_eager
from fx_explorer.model import CacheComparison, CaptureRequest, Numerics, RemedyTrial
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.session.queries.compilations import draws_by_inductor
from fx_explorer.trials import Told, TrialWorker, why_not_measured

LEAST_FOR_NUMERICS_S = 30.0
"""Seconds of the budget that must be left for results to be compared."""


@dataclass
class Diagnosis:
    """What a session says is wrong, and what trials add to it. Stays valid after the session is
    closed.
    """

    findings: list[Finding]
    search: FindingSearch
    before: Before
    request: CaptureRequest | None
    capture_s: float
    """Seconds that the capture took; 0 where that is not known."""
    run: ProgramRun | None
    """What the program did; None unless it is a script."""
    compile_call: CompileCall | None
    asked: AskedLine | None
    edits: CompileEdits | None
    draws_random: bool
    """Whether compiled code draws other random numbers than eager mode."""
    recompiles: tuple[str, ...]
    """What was recompiled and for what, as clauses."""
    is_low_precision: bool
    """Whether its graphs compute with float16 or bfloat16."""
    writes: tuple[str, ...]
    """Where its graphs write into views, as sentences."""

    trials: list[RemedyTrial] = field(default_factory=list)
    compared: CacheComparison | None = None
    numerics: Numerics | None = None
    without: WithoutCompile | None = None
    eager_modules: tuple[EagerModule, ...] | None = None
    """Modules that run in eager mode beside compiled code; None where they were not looked for."""
    built: BuiltResults | None = None
    is_built_compared: bool = False
    given_up_since: str = ""
    """Why further runs of the program were given up, as a clause; empty where all were made."""

    @classmethod
    def of(cls, reader: SessionReader) -> Diagnosis:
        return cls(
            findings=findings(reader),
            search=search(reader),
            before=before_trials(reader),
            request=reader.request(),
            capture_s=float(reader.meta("finished") or 0),
            run=run_of(reader) if reader.is_of_a_script() else None,
            compile_call=users_compile_call(reader),
            asked=line_that_asks(reader),
            edits=CompileEdits.of(reader),
            draws_random=draws_by_inductor(reader),
            recompiles=describe_recompiles(reader),
            is_low_precision=has_low_precision(reader),
            writes=writes_into_views(reader),
        )

    @property
    def has_problem(self) -> bool:
        return any(finding.severity == "problem" for finding in self.findings)

    async def try_remedies(self, worker: TrialWorker, budget_s: float, tell: Told) -> bool:
        """Try the remedies and compare the program with itself, until the time is used up. Returns
        whether the time was enough. The session must say how to run the program.
        """
        assert self.request is not None
        wanted = to_try(self.findings)
        ends_at = time.monotonic() + budget_s
        used_up = f"the {budget_s:.0f} s of --budget are used up"
        tried = await try_all(self.request, wanted, self.trials.append, tell, worker, budget_s)
        if tried < len(wanted):
            tell(f"{len(wanted) - tried} not tried: {used_up}")
        try:
            await asyncio.wait_for(
                self._compare_runs(self.request, worker, tell), ends_at - time.monotonic()
            )
        except asyncio.TimeoutError:
            tell(f"not all was compared: {used_up}")
            self.given_up_since = used_up
            return False
        return tried == len(wanted)

    async def compare_results(self, worker: TrialWorker, budget_s: float, tell: Told) -> None:
        """Compare the results of the program with those of eager mode, where it can be called. The
        session must say how to run the program.
        """
        assert self.request is not None
        if budget_s < LEAST_FOR_NUMERICS_S or why_not_measured(self.request):
            return
        if self._failed_compiling:
            return  # there are no results, and the finding of the error says why
        tell("comparing the results with those of eager mode")
        try:
            self.numerics = await compare_with_eager(self.request, worker=worker, budget_s=budget_s)
        except UsageError as error:
            tell(f"results were not compared: {error}")

    async def _compare_runs(self, request: CaptureRequest, worker: TrialWorker, tell: Told) -> None:
        """Compare the program with itself without torch.compile, and with and without caches. What
        is known when this is cancelled is kept.
        """
        if self.run and not self._failed_compiling:
            tell("running the program without torch.compile")
            self.without = await compare_without_compile(
                request, self.run, self.compile_call, self.asked, worker
            )
        if self.run and self.run.graphs and self.edits:
            tell("looking for compiled modules that also run in eager mode")
            self.eager_modules = await find_eager_calls(request, self.edits, worker)
        if not request.use_caches:
            tell("running the program unchanged, with torch's compile caches, and without them")
            built = await run_built(request, worker, use_caches=False)
            self.compared = await compare_caches(request, built, worker)
            if built.is_known:
                as_it_ran = ProgramRun(built.ended, built.printed)
                await self._compare_built(request, as_it_ran, worker, tell)

    async def _compare_built(
        self, request: CaptureRequest, built: ProgramRun, worker: TrialWorker, tell: Told
    ) -> None:
        """Compare what the built program prints with eager mode, where its graphs print the
        same.
        """
        without = self.without
        if without is None or without.eager is None or without.differs:
            return
        if self.draws_random:
            tell(
                "its output is not compared with eager mode, because it draws other random numbers"
            )
            return
        self.built = await compare_built(
            request, built, without.eager, worker, is_low_precision=self.is_low_precision
        )
        self.is_built_compared = True

    @property
    def _failed_compiling(self) -> bool:
        """Whether the compiler ended the program: without torch.compile it surely does not."""
        return any(
            finding.kind in ("compiler error", "recompile limit") and finding.urgency == "failed"
            for finding in self.findings
        )

    def add_trials(self) -> None:
        """Add the results of trials to the findings, and what the trials found."""
        since = list(self._found_by_runs())
        tried = self._looked_for()
        if self.compared:
            tried.append("compile caches")
            since += cache_findings(self.compared, self.recompiles)
        if self.numerics:
            tried.append("wrong results")
            since += numerics_findings(self.numerics)
        self.search = self.search.after_trials(tried, self.given_up_since)
        again = {finding.kind for finding in since}
        earlier = [finding for finding in self.findings if finding.kind not in again]
        with_results = with_trials(earlier, self.before, self.trials)
        self.findings = worst_first([*since, *with_results])

    def _looked_for(self) -> list[str]:
        """Return the kinds of findings that runs of the program have looked for."""
        names = []
        if self.without:
            names.append("without torch.compile")
        if self.eager_modules is not None:
            names.append("eager calls")
        if self.is_built_compared:
            names.append("wrong results")
        return names

    def _found_by_runs(self) -> Iterator[Finding]:
        """Yield what runs of the program have shown, and no row of a session keeps."""
        if self.without:
            yield from without_compile_findings(self.without)
        if self.eager_modules is not None:
            yield from eager_call_findings(self.eager_modules)
        if self.built:
            yield from built_findings(self.built, self.writes)

    def keep_in(self, session: Path) -> None:
        """Add what was tried to a session. Raises SessionWriteError."""
        with SessionWriter(session) as writer:
            writer.add_all(self.trials)
            if self.compared:
                writer.add(self.compared)
        if self.numerics:
            add_numerics(session, self.numerics)
        looked_for = self._looked_for()
        if looked_for:
            add_to_kept(session, looked_for, list(self._found_by_runs()))
