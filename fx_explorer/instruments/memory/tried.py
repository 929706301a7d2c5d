"""A step is tried here with several values of ``activation_memory_budget``: predicted by capturing
the program once more for each, and measured uncompiled and compiled where that is asked for, each
in a process of its own as a bench starts them.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from fx_explorer.client import leftovers
from fx_explorer.instruments.bench.contender_process import CellFailed, ContenderProcess
from fx_explorer.instruments.bench.plan import UNCOMPILED, Contender
from fx_explorer.instruments.memory.report import Json, held_lines, memory_object, memory_report
from fx_explorer.instruments.options.trial import changed_request
from fx_explorer.model import BenchTask, CaptureRequest, HeldLine
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


ROUNDS = 8
"""Rounds in which the ways take turns."""

Told = Callable[[str], object]


@dataclass(frozen=True)
class MeasuredStep:
    """What was measured of one way."""

    name: str
    peak_bytes: int = -1
    """The most that a step had allocated at once, beyond what is there before it; -1: not measured.
    """
    calls_s: tuple[float, ...] = ()
    """Seconds per step, one for each round."""
    device: str = ""
    held: tuple[HeldLine, ...] = ()
    """What the uncompiled program holds when it holds most, beyond what is there before, by the
    line that made it; empty for others.
    """
    message: str = ""
    """Why it was measured no further; empty when it was."""

    @property
    def call_s(self) -> float | None:
        """Return the median over the rounds; None when there was none."""
        return median(self.calls_s) if self.calls_s else None


async def measured_steps(
    ways: Sequence[Contender], python: str, timeout_s: float | None, tell: Told
) -> list[MeasuredStep]:
    """Measure every way; the uncompiled one is first, since the others are compared with it. A way
    that fails says why, and where the first one does, all do. Raises WorkerError when the
    interpreter cannot be started.
    """
    folder, lock = leftovers.new_directory()
    try:
        return await _Measuring(folder, python, timeout_s, tell).all(ways)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


class _Measuring:
    def __init__(self, folder: Path, python: str, timeout_s: float | None, tell: Told) -> None:
        self._folder = folder
        self._python = python
        self._timeout_s = timeout_s
        self._tell = tell
        self._found: dict[str, MeasuredStep] = {}

    async def all(self, ways: Sequence[Contender]) -> list[MeasuredStep]:
        running: dict[str, ContenderProcess] = {}
        async with contextlib.AsyncExitStack() as until:
            for way in ways:
                process = await self._started(way, until)
                if process:
                    running[way.name] = process
                elif not way.is_compiled:
                    self._leave_out(ways)
                    break
            for number in range(1, ROUNDS + 1):
                self._tell(f"measuring, round {number} of {ROUNDS}")
                for name in list(running):
                    await self._asked(running, name, "round")
            for name in list(running):
                await self._asked(running, name, "step")
            for name in [way.name for way in ways if not way.is_compiled and way.name in running]:
                await self._asked(running, name, "held")
        return [self._found[way.name] for way in ways]

    def _leave_out(self, ways: Sequence[Contender]) -> None:
        """Say of every way but the first that there is nothing to compare it with."""
        for way in ways[1:]:
            self._found[way.name] = MeasuredStep(way.name, message="the uncompiled program fails")

    async def _started(
        self, way: Contender, until: contextlib.AsyncExitStack
    ) -> ContenderProcess | None:
        task = BenchTask(
            way.request, way.is_compiled, reference=str(self._folder / "uncompiled.pt")
        )
        self._found[way.name] = MeasuredStep(way.name)

        def tell(doing: str) -> None:
            self._tell(f"{way.name}: {doing}")

        starting = ContenderProcess.started(task, self._folder, self._python, self._timeout_s, tell)
        process = await until.enter_async_context(starting)
        try:
            ready = await process.answer()
        except CellFailed as failed:
            self._found[way.name] = MeasuredStep(way.name, message=failed.message)
            return None
        self._found[way.name] = MeasuredStep(way.name, device=str(ready.cell.get("device", "")))
        return process

    async def _asked(self, running: dict[str, ContenderProcess], name: str, command: str) -> None:
        step = self._found[name]
        try:
            news = await running[name].answer(command)
        except CellFailed as failed:
            self._found[name] = replace(step, message=failed.message)
            del running[name]
            return
        match command:
            case "round":
                self._found[name] = replace(step, calls_s=(*step.calls_s, news.call_s))
            case "step":
                self._found[name] = replace(step, peak_bytes=news.peak_bytes)
            case _:
                self._found[name] = replace(step, held=news.held)
