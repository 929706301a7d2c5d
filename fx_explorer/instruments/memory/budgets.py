"""A step with several values of ``activation_memory_budget``: predicted by capturing the program
once more for each, and measured uncompiled and compiled where that is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fx_explorer.instruments.bench.plan import UNCOMPILED, Contender
from fx_explorer.instruments.memory.measured_step import MeasuredStep, Told, measured_steps
from fx_explorer.instruments.memory.report import Json, held_lines, memory_object, memory_report
from fx_explorer.instruments.options.trial import changed_request
from fx_explorer.model import CaptureRequest, HeldLine
from fx_explorer.session import SessionReader
from fx_explorer.trials import TrialWorker, recapture

BUDGET = "functorch.activation_memory_budget"
"""torch/_functorch/config.py: 1 saves what is fastest, 0 computes everything again."""


@dataclass(frozen=True)
class BudgetTrial:
    """A step with one value of the budget."""

    budget: float | None
    """None: as the program and torch have it."""
    predicted: Json
    """What ``memory_object`` says of the capture."""
    measured: MeasuredStep | None = None
    held: Sequence[HeldLine] = ()
    """What is held at the predicted peak beyond what is there before the step, by line."""

    @property
    def name(self) -> str:
        return "compiled" if self.budget is None else f"budget {self.budget:g}"

    def figure(self, name: str) -> int:
        """Return one of the predicted figures."""
        return int(str(self.predicted[name]))

    @property
    def beyond(self) -> int:
        """Return what is predicted beyond what is there before the step."""
        return self.figure("peak_bytes") - self.figure("begin_bytes")


@dataclass(frozen=True)
class BudgetTrials:
    """All of them, and the uncompiled program where it was measured."""

    trials: Sequence[BudgetTrial]
    uncompiled: MeasuredStep | None = None


async def try_budgets(
    request: CaptureRequest,
    budgets: Sequence[float | None],
    worker: TrialWorker,
    tell: Told,
    *,
    measures: bool,
) -> BudgetTrials:
    """Predict a step for each budget, and measure all of them in turns. Raises SessionWriteError
    when there is no room for a session, and WorkerError when the interpreter cannot be started.
    """
    trials = []
    for budget in budgets:
        tell("predicting" if budget is None else f"predicting with a budget of {budget:g}")
        captured = await recapture(_with(request, budget), worker, _predicted)
        trials.append(BudgetTrial(budget, captured.found[0], held=captured.found[1]))
    if not measures:
        return BudgetTrials(trials)
    ways = [Contender(UNCOMPILED, replace(request, build=True), is_compiled=False)]
    ways += [
        Contender(trial.name, replace(_with(request, trial.budget), build=True)) for trial in trials
    ]
    uncompiled, *compiled = await measured_steps(ways, worker.python, worker.timeout_s, tell)
    found = [replace(trial, measured=step) for trial, step in zip(trials, compiled, strict=True)]
    return BudgetTrials(found, uncompiled)


def _with(request: CaptureRequest, budget: float | None) -> CaptureRequest:
    return changed_request(request, {} if budget is None else {BUDGET: budget})


def _predicted(reader: SessionReader) -> tuple[Json, list[HeldLine]]:
    report = memory_report(reader)
    return memory_object(report), held_lines(report)
