"""Trials from the keyboard: the program is run again by workers of their own, for what this capture
cannot tell.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.words import counted
from fx_explorer.errors import FxExplorerError
from fx_explorer.model import TWICE_THE_BATCH, Command
from fx_explorer.tui.availability import NO_REQUEST
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.controllers.stepping import Stepping
from fx_explorer.tui.dialogs.ask import Ask
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching
from fx_explorer.tui.status.live import Waiting
from fx_explorer.tui.tasks.conversation import ask, conversation

if TYPE_CHECKING:
    from fx_explorer.instruments.dynamic.screen import TryDynamic
    from fx_explorer.instruments.dynamic.trial import DynamicTrial
    from fx_explorer.trials.break_times import BreakTimes
    from fx_explorer.tui.dialogs.measuring import MeasureBreaks

READ_S = 15

NOTHING_TO_RUN = "Nothing was compiled to its end, so there is nothing to run."


class Trials:
    """Measures variants and graph breaks, and tries settings of dynamic shapes."""

    def __init__(
        self,
        services: Services,
        stepping: Stepping,
        measure_breaks: MeasureBreaks | None,
        try_dynamic: TryDynamic | None,
    ) -> None:
        """The callables stand in for a worker that runs the program again; where one is None, there
        is such a worker.
        """
        self._services = services
        self._stepping = stepping
        self.app = services.app
        self._measure_breaks = measure_breaks
        self._try_dynamic = try_dynamic
        self._dynamic_trials: dict[tuple[Path, str], list[DynamicTrial]] = {}
        """The trials, by session and by the expression for other inputs."""

    @conversation("measure", "choose what to build and run for its time")
    async def measure(self) -> None:
        """Ask what to measure, graph breaks or variants, and have it built and run for its time."""
        from fx_explorer.analysis.variants.measurable import (
            measurable_breaks,
            measurable_variants,
        )  # not for the first paint

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
            found = [*breaks, *variants]
        else:
            found = [*variants, *breaks]
        if not found:
            if waiting.gate:
                await self._stepping.go_on_then("build and run it, for its time", self.measure)
            else:
                self._services.notify(NOTHING_TO_RUN)
            return
        choices = [Choice(one.words, one.detail, one) for one in found]
        chosen = await ask(
            self.app, Chooser("Build and run, to see how long it takes", matching(choices))
        )
        if chosen is None:
            return
        if not chosen.variants:
            await self.measure_breaks()
            return
        for name in chosen.variants:
            self._stepping.send(
                Command("measure", compilation=name), f"building and running [{name}]"
            )

    @conversation("measure breaks", "measure graph breaks")
    async def measure_breaks(self) -> None:
        """Measure the graph breaks with a worker of its own, and add the times to the session."""
        from fx_explorer.trials import break_times  # not needed for the first paint
        from fx_explorer.tui.dialogs.measuring import MeasuringScreen

        reader = self._services.stepped_session
        request = reader.request() if reader else None
        problem = break_times.why_not_measured(request)
        if reader is None or request is None or problem:
            self._services.notify(problem, title="not measured", severity="warning", timeout=READ_S)
            return
        if not await self._agrees_to_run():
            return
        measure = self._measure_breaks or partial(
            break_times.measure_breaks, worker=self._services.trial_worker
        )
        times = await ask(self.app, MeasuringScreen(request, measure))
        if times is None:
            return
        try:
            known = await asyncio.to_thread(break_times.add_break_times, reader.path, times)
        except FxExplorerError as error:
            self._services.notify(
                f"the times could not be kept: {error}", severity="error", timeout=READ_S
            )
        else:
            self._services.notify(_told(times, known), timeout=READ_S)

    async def _agrees_to_run(self) -> bool:
        try:
            await self._services.ask_to_run()
        except FxExplorerError as error:
            self._services.notify(str(error), title="not run", severity="warning", timeout=READ_S)
            return False
        return True

    @conversation("dynamic shapes", "try settings of dynamic shapes")
    async def try_dynamic(self) -> None:
        """Try settings of dynamic shapes. This works on a saved session too, when its target is
        here.
        """
        from fx_explorer.instruments.dynamic.screen import DynamicScreen
        from fx_explorer.instruments.dynamic.trial import (
            A_SCRIPT,
            try_dynamic,
        )

        reader = self._services.explorer.reader
        request = reader.request() if reader else None
        if reader is None or request is None or request.as_script or reader.is_of_a_script():
            self._services.notify(
                A_SCRIPT if request else NO_REQUEST,
                title="not tried",
                severity="warning",
                timeout=READ_S,
            )
            return
        if not await self._agrees_to_run():
            return
        words = "Which other inputs are to fit? Give them as for --inputs"
        typed = await ask(self.app, Ask(words, TWICE_THE_BATCH, verb="tries four settings on both"))
        if typed:
            others = "" if typed == TWICE_THE_BATCH else typed
            found = self._dynamic_trials.setdefault((reader.path, others), [])
            try_setting = self._try_dynamic or partial(
                try_dynamic, worker=self._services.trial_worker
            )
            await ask(
                self.app,
                DynamicScreen(request, others, try_setting, found, self._services.explorer.keymap),
            )


def _told(times: BreakTimes, known: int) -> str:
    call = times.call
    whole = (
        f"A call takes {run_time(call.median_s)}, {run_time(call.graphs_s)} of it in compiled "
        "graphs"
    )
    return (
        f"{whole}; {counted(known, 'graph break')} measured ({counted(call.runs, 'call')} on "
        f"{call.device})."
    )
