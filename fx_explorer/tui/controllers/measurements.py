"""This module starts measurements from the keyboard: whether compiling pays, where the time of a
call goes, how long variants and graph breaks take, and one kernel alone.

Other interpreters run the program for it; the results come into the session that is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer import model
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import counted
from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.model import Command
from fx_explorer.session import SessionReader, SessionWriter
from fx_explorer.tui.availability import NO_REQUEST
from fx_explorer.tui.content.live import Waiting
from fx_explorer.tui.controllers.kernel_builds import KernelBuilds
from fx_explorer.tui.controllers.kernel_levels import kernel_here
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.controllers.stepping import Stepping
from fx_explorer.tui.conversation import ask, conversation
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching
from fx_explorer.tui.dialogs.dialog import Ask, Consent

if TYPE_CHECKING:
    from fx_explorer.instruments.bench.bench_run import BenchProgress
    from fx_explorer.instruments.bench.plan import BenchPlan
    from fx_explorer.instruments.ledger.trial import Ledger
    from fx_explorer.model import CaptureRequest
    from fx_explorer.trials import BreakTimes
    from fx_explorer.tui.dialogs.running import Measure, MeasureBreaks

READ_S = 15
READ_LONG_S = 20
"""Seconds for which the message about a bench or a kernel's measurement is shown."""

KERNEL_GROUP = "bench"
PROGRAM_GROUP = "program bench"
"""Groups of workers: one kernel is measured at a time, and one bench runs."""

SUGGESTED = "--backends eager,aot_eager,inductor --batch 1,8,32 --budget 180"

A_SCRIPT = "A script cannot be called repeatedly: name a model or function in it, FILE.py:OBJECT."
QUESTION = "Which backends and sizes should be compared? Options as for fx-explorer bench"

RUNS_ALREADY = "A bench is already running; esc stops it and keeps its figures."

NO_REMEDY = (
    "No finding has a remedy that can be tried here, or all were tried: their results are shown "
    "with the findings."
)

NOTHING_TO_RUN = "No compilation finished, so there is nothing to run."

RunBench = Callable[
    ["BenchPlan", SessionWriter, str, Callable[["BenchProgress"], object]], Awaitable[None]
]
"""A function that runs a bench, given the plan, the writer of the session, the interpreter, and a
function that receives the progress.
"""

Progress = Callable[[str], object]
MeasureKernel = Callable[[Path, int, Progress, str], Awaitable[model.KernelTime]]
"""A function that measures a kernel, given the path of the session, the kernel, a function that
receives the progress, and the interpreter.
"""


async def run_real_bench(
    plan: BenchPlan, writer: SessionWriter, python: str, tell: Callable[[BenchProgress], object]
) -> None:
    # Not needed for the first paint.
    from fx_explorer.client.forked_workers import fork_server
    from fx_explorer.instruments.bench.bench_run import Bench

    await Bench(plan, writer, python, tell, fork_server()).run()


async def measure_on_gpu(
    session: Path, kernel: int, tell: Progress, python: str
) -> model.KernelTime:
    from fx_explorer.instruments.kernels import kernel_times  # not needed for the first paint

    return await kernel_times.measure_kernel(session, kernel, tell, python)


class Measurements:
    """Measures the program, its graph breaks, its variants and its kernels."""

    run_bench: RunBench = staticmethod(run_real_bench)
    measure_kernel: MeasureKernel = staticmethod(measure_on_gpu)
    account: Measure[Ledger] | None = None
    """A replacement for the worker that runs the program again; None uses a worker."""

    try_all: Callable[..., Awaitable[int]] | None = None
    """A replacement for ``findings.remedy_trials.try_all``; None uses workers."""

    compare: Measure[model.Numerics] | None = None
    """A replacement for the workers that compare results; None uses workers."""

    def __init__(
        self,
        services: Services,
        stepping: Stepping,
        builds: KernelBuilds,
        measure_breaks: MeasureBreaks | None,
    ) -> None:
        """``measure_breaks`` replaces the worker that runs the program again; None uses a
        worker.
        """
        self._services = services
        self._stepping = stepping
        self._builds = builds
        self._measure_breaks = measure_breaks
        self.app = services.app
        self._suggested = SUGGESTED
        self._is_benching_program = False
        self._is_benching_kernel = False

    async def stop(self) -> bool:
        """Ask on Escape whether to stop a bench. Returns whether there is one."""
        is_running = self._is_benching_kernel or self._is_benching_program
        if is_running:
            await self.ask_to_stop()
        return is_running

    @conversation("stop measuring", "ask whether to stop a measurement")
    async def ask_to_stop(self) -> None:
        """Ask, stop what still runs then, and tell the user what is kept."""
        if self._is_benching_program:
            kept = "Results so far are kept."
        else:
            kept = "Results so far are discarded."
        if not await ask(self.app, Consent("Stop measuring?", kept)):
            return
        if self._is_benching_kernel:
            self.app.workers.cancel_group(self.app, KERNEL_GROUP)
            self._services.notify("Stopped: the kernel was not measured.")
        if self._is_benching_program:
            self.app.workers.cancel_group(self.app, PROGRAM_GROUP)
            self._services.notify("Stopped: the figures so far are kept.")

    def _notify_not_measured(self, problem: str, timeout: float = READ_S) -> None:
        self._services.notify(problem, title="not measured", severity="warning", timeout=timeout)

    def _notify_not_kept(self, what: str, error: FxExplorerError) -> None:
        message = f"{what} could not be saved: {error}"
        self._services.notify(message, severity="error", timeout=READ_S)

    # whether compiling pays

    @conversation("bench", "measure whether compiling pays")
    async def bench_program(self) -> None:
        """Ask which backends and sizes, and begin."""
        reader = self._services.explorer.reader
        request = reader.request() if reader else None
        if self._is_benching_program:
            self._notify_not_measured(RUNS_ALREADY, READ_LONG_S)
            return
        if reader is None or request is None:
            self._notify_not_measured(NO_REQUEST, READ_LONG_S)
            return
        if request.as_script or reader.is_of_a_script():
            self._notify_not_measured(A_SCRIPT, READ_LONG_S)
            return
        plan = await self._ask_plan(
            replace(request, gpu=None, no_weights=False, pause="", stay=False)
        )
        if plan is None:
            return
        await self._services.explorer.action_show_view("bench")
        self._services.begin(
            partial(self._bench_program, plan),
            "bench",
            PROGRAM_GROUP,
            "measure whether compiling pays",
            exclusive=True,
        )

    async def _ask_plan(self, request: CaptureRequest) -> BenchPlan | None:
        """Ask until the input is a plan, or empty. The last input is suggested the next time."""
        from fx_explorer.instruments.bench.plan import typed_plan  # not for the first paint

        is_typed = False
        while typed := await ask(
            self.app, Ask(QUESTION, self._suggested, verb="measures", is_typed=is_typed)
        ):
            self._suggested, is_typed = typed, True
            try:
                return typed_plan(typed, request)
            except UsageError as error:
                self._notify_not_measured(str(error), READ_LONG_S)
        return None

    async def _bench_program(self, plan: BenchPlan) -> None:
        from fx_explorer.session.ownership import RUNS  # not needed for the first paint

        self._is_benching_program = True
        self._services.measuring.begin("measuring the program")
        try:
            reader = await self._builds.writable(RUNS)
            with SessionWriter(reader.path) as writer:
                python = self._services.trial_worker.python
                await self.run_bench(plan, writer, python, self._show_bench_progress)
        except FxExplorerError as error:
            self._notify_not_measured(str(error), READ_LONG_S)
        finally:
            self._is_benching_program = False
            self._services.measuring.end()

    def _show_bench_progress(self, progress: BenchProgress) -> None:
        self._services.measuring.doing = f"measuring: {progress.description}"

    # one call

    @conversation("ledger", "account for a call")
    async def account_for_call(self) -> None:
        """Measure with a worker of its own, and add the ledger to the shown session."""
        from fx_explorer.instruments.ledger import trial  # not needed for the first paint
        from fx_explorer.session.ownership import RUNS
        from fx_explorer.trials import why_not_measured
        from fx_explorer.tui.dialogs.running import OF_A_CALL, MeasuringScreen

        reader = self._services.explorer.reader
        request = reader.request() if reader else None
        problem = NO_REQUEST if request is None else why_not_measured(request)
        if reader is None or request is None or problem:
            self._notify_not_measured(problem)
            return
        try:
            writable = await self._builds.writable(RUNS)
        except FxExplorerError as error:
            self._notify_not_measured(str(error))
            return
        await self._services.explorer.action_show_view("ledger")
        measure = self.account or partial(
            trial.account_for_call, worker=self._services.worker_of_trials
        )
        limit_s = self._services.worker_of_trials.limit_s(trial.TIMEOUT_S)
        screen = MeasuringScreen(request, measure, OF_A_CALL, limit_s)
        kernel_times = await ask(self.app, screen)
        if kernel_times is None:
            return
        try:
            await asyncio.to_thread(trial.add_ledger, writable.path, kernel_times)
        except FxExplorerError as error:
            self._notify_not_kept("the ledger", error)

    # results

    @conversation("numerics", "compare results with eager mode")
    async def compare_with_eager(self) -> None:
        """Compare with workers of their own, and add what was learned to the shown session."""
        from fx_explorer.instruments.numerics import figures, trial  # not for the first paint
        from fx_explorer.session.ownership import RUNS
        from fx_explorer.trials import why_not_measured
        from fx_explorer.tui.dialogs.running import OF_NUMERICS, MeasuringScreen

        reader = self._services.explorer.reader
        request = reader.request() if reader else None
        problem = NO_REQUEST if request is None else why_not_measured(request)
        if reader is not None and not problem and reader.is_of_a_script():
            problem = A_SCRIPT
        if reader is None or request is None or problem:
            self._notify_not_measured(problem, READ_LONG_S)
            return
        try:
            writable = await self._builds.writable(RUNS)
        except FxExplorerError as error:
            self._notify_not_measured(str(error))
            return
        await self._services.explorer.action_show_view("numerics")
        measure = self.compare or partial(
            trial.compare_with_eager, worker=self._services.worker_of_trials
        )
        numerics = await ask(self.app, MeasuringScreen(request, measure, OF_NUMERICS))
        if numerics is None:
            return
        try:
            await asyncio.to_thread(figures.add_numerics, writable.path, numerics)
        except FxExplorerError as error:
            self._notify_not_kept("the comparison", error)

    # what helps against findings

    @conversation("remedies", "try remedies for the findings")
    async def try_remedies(self) -> None:
        """Capture the program once more for each remedy that is not tried, and show the results
        with the findings.
        """
        from fx_explorer.findings import every_kind, remedy_trials  # not for the first paint
        from fx_explorer.session.ownership import RUNS
        from fx_explorer.tui.dialogs.running import OF_REMEDIES, MeasuringScreen

        reader = self._services.explorer.reader
        request = reader.request() if reader else None
        if reader is None or request is None:
            self._notify_not_measured(NO_REQUEST, READ_LONG_S)
            return
        remedies = remedy_trials.to_try(every_kind.findings(reader))
        if not remedies:
            self._services.notify(NO_REMEDY)
            return
        try:
            writable = await self._builds.writable(RUNS)
        except FxExplorerError as error:
            self._notify_not_measured(str(error))
            return

        def keep(trial: model.RemedyTrial) -> None:
            with SessionWriter(writable.path) as writer:
                writer.add(trial)

        async def measure(request: CaptureRequest, tell: Progress) -> int:
            try_all = self.try_all or remedy_trials.try_all
            return await try_all(request, remedies, keep, tell, self._services.worker_of_trials)

        await self._services.explorer.action_show_view("overview")
        await ask(self.app, MeasuringScreen(request, measure, OF_REMEDIES))

    # variants and graph breaks

    @conversation("measure", "choose what to build and run, to measure its time")
    async def time_variants(self) -> None:
        """Ask whether to measure graph breaks or variants, and have them built and timed."""
        from fx_explorer.analysis.other_variants import measurable_breaks, measurable_variants

        waiting, reader = self._stepping.at_rest(), self._services.stepped_session
        if waiting is None or reader is None:
            return
        # Before anything is compiled, but with Dynamo through all of the program, its breaks are
        # known and can be measured.
        if not waiting.gate or waiting == Waiting("dynamo"):
            breaks = measurable_breaks(reader)
        else:
            breaks = []
        variants = [] if waiting.gate else measurable_variants(reader)
        if self._services.explorer.view == "breaks":
            choosable = [*breaks, *variants]
        else:
            choosable = [*variants, *breaks]
        if not choosable:
            if waiting.gate:
                await self._stepping.go_on_then(
                    "build and run it, to measure its time", self.time_variants
                )
            else:
                self._services.notify(NOTHING_TO_RUN)
            return
        choices = [Choice(item.words, item.detail, item) for item in choosable]
        chosen = await ask(
            self.app, Chooser("Build and run, to measure the time", matching(choices))
        )
        if chosen is None:
            return
        if not chosen.variants:
            await self.time_breaks()
            return
        for name in chosen.variants:
            self._stepping.send(
                Command("measure", compilation=name), f"building and running [{name}]"
            )

    @conversation("measure breaks", "measure graph breaks")
    async def time_breaks(self) -> None:
        """Measure the graph breaks with a worker of its own, and add the times to the session."""
        from fx_explorer import trials  # not needed for the first paint
        from fx_explorer.tui.dialogs.running import OF_BREAKS, MeasuringScreen

        reader = self._services.stepped_session
        request = reader.request() if reader else None
        problem = trials.why_not_measured(request)
        if reader is None or request is None or problem:
            self._notify_not_measured(problem)
            return
        if not await self._services.user_agrees_to_run():
            return
        measure = self._measure_breaks or partial(
            trials.measure_breaks, worker=self._services.worker_of_trials
        )
        limit_s = self._services.worker_of_trials.limit_s(trials.BREAK_TIMES_TIMEOUT_S)
        times = await ask(self.app, MeasuringScreen(request, measure, OF_BREAKS, limit_s))
        if times is None:
            return
        try:
            count = await asyncio.to_thread(trials.add_break_times, reader.path, times)
        except FxExplorerError as error:
            self._notify_not_kept("the times", error)
        else:
            self._services.notify(_describe_break_times(times, count), timeout=READ_S)

    # one kernel

    def time_kernel(self) -> None:
        kernel = kernel_here(self._services.explorer)
        if kernel is not None:
            work = partial(self._bench_kernel, kernel)
            described = "measure a kernel alone on the GPU"
            self._services.begin(work, "bench", KERNEL_GROUP, described, exclusive=True)

    async def _bench_kernel(self, kernel: model.Kernel) -> None:
        """Measure a kernel alone on this machine's GPU, and show the result or why there is
        none.
        """
        from fx_explorer.session.ownership import MEASURES  # not needed for the first paint

        self._is_benching_kernel = True
        self._services.measuring.begin(f"measuring {kernel.name} alone on this machine's GPU")
        try:
            reader = await self._builds.writable(MEASURES)
            await self.measure_kernel(
                reader.path,
                kernel.id,
                self._services.explorer.show_progress,
                self._services.trial_worker.python,
            )
        except FxExplorerError as error:
            self._notify_not_measured(str(error), READ_LONG_S)
        else:
            words = _describe_kernel_time(reader, kernel)
            self._services.notify(words, title=kernel.name, timeout=READ_LONG_S)
            self._services.explorer.show_inspector()
        finally:
            self._is_benching_kernel = False
            self._services.measuring.end()
            self._services.explorer.show_progress("")


def _describe_break_times(times: BreakTimes, count: int) -> str:
    call = times.call
    whole = (
        f"A call takes {run_time(call.median_s)}, of which {run_time(call.graphs_s)} in compiled "
        "graphs"
    )
    return (
        f"{whole}; {counted(count, 'graph break')} measured ({counted(call.runs, 'call')} on "
        f"{call.device})."
    )


def _describe_kernel_time(reader: SessionReader, kernel: model.Kernel) -> str:
    from fx_explorer.instruments.kernels.gpu_limits import measured_card
    from fx_explorer.instruments.kernels.kernel_times import describe_speed, kernel_speed

    speed = kernel_speed(reader, kernel)
    if speed:
        return "\n".join(describe_speed(speed, measured_card(reader, speed.time.device)))
    return ""
