"""Whether compiling pays, measured from the keyboard as ``fx-explorer bench`` does. Rows come into
the session as they are measured.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.session import SessionWriter
from fx_explorer.tui.availability import NO_REQUEST
from fx_explorer.tui.controllers.kernels.kernel_builds import KernelBuilds
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.dialogs.ask import Ask
from fx_explorer.tui.tasks.conversation import ask, conversation

if TYPE_CHECKING:
    from fx_explorer.instruments.bench.driving import BenchProgress
    from fx_explorer.instruments.bench.plan import BenchPlan
    from fx_explorer.model import CaptureRequest

READ_S = 20

GROUP = "program bench"
"""Group of workers: one bench runs at a time."""

SUGGESTED = "--backends eager,aot_eager,inductor --batch 1,8,32 --budget 180"

A_SCRIPT = (
    "A script cannot be called again and again: point at a model or function of it, FILE.py:OBJECT."
)
QUESTION = "What is to be compared? Options as of fx-explorer bench"

RUNS_ALREADY = "A bench runs already; esc stops it and keeps what it measured."

RunBench = Callable[
    ["BenchPlan", SessionWriter, str, Callable[["BenchProgress"], object]], Awaitable[None]
]
"""The plan, who writes to the session, the interpreter, who hears what is being done."""


async def really_run(
    plan: BenchPlan, writer: SessionWriter, python: str, tell: Callable[[BenchProgress], object]
) -> None:
    from fx_explorer.instruments.bench.driving import Bench  # not needed for the first paint

    await Bench(plan, writer, python, tell).run()


class ProgramBench:
    """Asks what to compare, and has it measured into the session that is shown."""

    run_bench: RunBench = staticmethod(really_run)

    def __init__(self, services: Services, builds: KernelBuilds) -> None:
        self._services = services
        self._builds = builds
        self._is_running = False
        self._suggested = SUGGESTED
        self.app = services.app

    @conversation("bench", "measure whether compiling pays")
    async def run(self) -> None:
        """Ask which backends and sizes, and begin."""
        reader = self._services.explorer.reader
        request = reader.request() if reader else None
        problem = RUNS_ALREADY if self._is_running else NO_REQUEST if request is None else ""
        if reader is None or request is None or problem:
            self._services.notify(
                problem or NO_REQUEST, title="not measured", severity="warning", timeout=READ_S
            )
            return
        if request.as_script or reader.is_of_a_script():
            self._services.notify(
                A_SCRIPT, title="not measured", severity="warning", timeout=READ_S
            )
            return
        plan = await self._asked(replace(request, gpu=None, no_weights=False, pause="", stay=False))
        if plan is None:
            return
        await self._services.explorer.action_show_view("bench")
        self._services.begin(
            partial(self._measure, plan),
            "bench",
            GROUP,
            "measure whether compiling pays",
            exclusive=True,
        )

    async def _asked(self, request: CaptureRequest) -> BenchPlan | None:
        """Ask until it is a plan, or nothing. What was typed last is suggested the next time."""
        from fx_explorer.instruments.bench.arguments import (
            typed_plan,  # not needed for the first paint
        )

        is_typed = False
        while typed := await ask(
            self.app, Ask(QUESTION, self._suggested, verb="measures", is_typed=is_typed)
        ):
            self._suggested, is_typed = typed, True
            try:
                return typed_plan(typed, request)
            except UsageError as error:
                self._services.notify(
                    str(error), title="not measured", severity="warning", timeout=READ_S
                )
        return None

    async def _measure(self, plan: BenchPlan) -> None:
        from fx_explorer.client.trust import RUNS  # not needed for the first paint

        self._is_running = True
        try:
            reader = await self._builds.writable(RUNS)
            with SessionWriter(reader.path) as writer:
                # What it is doing comes into the session with the rest, and the view shows it.
                await self.run_bench(
                    plan, writer, self._services.trial_worker.python, lambda progress: None
                )
        except FxExplorerError as error:
            self._services.notify(
                str(error), title="not measured", severity="warning", timeout=READ_S
            )
        finally:
            self._is_running = False

    def stop(self) -> bool:
        """Stop on Escape. Returns whether there was something to stop."""
        if not self._is_running:
            return False
        self.app.workers.cancel_group(self.app, GROUP)
        self._services.notify("Stopped: what was measured is kept.")
        return True
