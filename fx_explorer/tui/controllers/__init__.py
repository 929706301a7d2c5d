"""What the app does when a key is pressed: it holds one controller for each kind of thing, and they
share ``Services``.

A command names the controller and its method (``tui/commands/``). One controller knows another only
where it needs what that one does.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING

from fx_explorer.tui.config import AfterFix
from fx_explorer.tui.controllers.bytecode import BytecodeSteps
from fx_explorer.tui.controllers.capturing import Capturing
from fx_explorer.tui.controllers.change import OldFindings, SinceLast
from fx_explorer.tui.controllers.command_runs import CommandRuns
from fx_explorer.tui.controllers.edits import Edits
from fx_explorer.tui.controllers.fixes import Fixes
from fx_explorer.tui.controllers.guided_tour import Guide
from fx_explorer.tui.controllers.kernels.bench import KernelBench
from fx_explorer.tui.controllers.kernels.configurations import Configurations
from fx_explorer.tui.controllers.kernels.kernel_builds import KernelBuilds
from fx_explorer.tui.controllers.leaving import Leaving
from fx_explorer.tui.controllers.looking.below import Below
from fx_explorer.tui.controllers.looking.comparing import Comparing
from fx_explorer.tui.controllers.looking.copying import Copying
from fx_explorer.tui.controllers.looking.finding import Finder
from fx_explorer.tui.controllers.looking.graph_forms import GraphForms
from fx_explorer.tui.controllers.looking.moving import Moving
from fx_explorer.tui.controllers.looking.narrowing import Narrowing
from fx_explorer.tui.controllers.looking.panes import Panes
from fx_explorer.tui.controllers.looking.pictures import Pictures
from fx_explorer.tui.controllers.looking.selected import Selected
from fx_explorer.tui.controllers.looking.table_rows import TableNarrowing
from fx_explorer.tui.controllers.measuring.call_ledger import CallLedger
from fx_explorer.tui.controllers.measuring.program_bench import ProgramBench
from fx_explorer.tui.controllers.news import News
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.controllers.stepping import Stepping
from fx_explorer.tui.controllers.trials import Trials

if TYPE_CHECKING:
    from fx_explorer.instruments.dynamic.screen import TryDynamic
    from fx_explorer.instruments.fixes import TryFix
    from fx_explorer.tui.dialogs.measuring import MeasureBreaks
    from fx_explorer.tui.tour.walk import GuidedTour

__all__ = ["Controllers", "Services", "TrialRunners"]


@dataclass(frozen=True, slots=True)
class TrialRunners:
    """Functions that stand in for a worker that runs the program again for a trial; None: such a
    worker.
    """

    try_fix: TryFix | None = None
    measure_breaks: MeasureBreaks | None = None
    try_dynamic: TryDynamic | None = None


class Controllers:
    """Hold one controller for each kind of thing."""

    def __init__(
        self,
        services: Services,
        runners: TrialRunners,
        target: str,
        walk: GuidedTour | None = None,
        after_fix: AfterFix = "ask",
    ) -> None:
        """``target`` is what the user typed; ``walk`` is the guided tour, if this is one;
        ``after_fix`` is what is done when a fix was written. The tour itself says what comes then.
        """
        self.stepping = Stepping(services)
        self.old_findings = OldFindings(services)
        self.since_last = SinceLast(services, self.old_findings)
        self.capturing = Capturing(
            services, self.stepping, self.old_findings, lambda reader: self.news.show(reader)
        )
        self.edits = Edits(services, self.stepping)
        self.fixes = Fixes(
            services,
            self.capturing,
            lambda: "nothing" if self.tour.is_going_on else after_fix,
            runners.try_fix,
        )
        self.trials = Trials(services, self.stepping, runners.measure_breaks, runners.try_dynamic)
        self.graph_forms = GraphForms(services)
        self.bytecode = BytecodeSteps(services, self.stepping)
        self.kernel_builds = KernelBuilds(services)
        self.configurations = Configurations(services, self.kernel_builds)
        self.bench = KernelBench(services, self.kernel_builds)
        self.program_bench = ProgramBench(services, self.kernel_builds)
        self.call_ledger = CallLedger(services, self.kernel_builds)
        self.pictures = Pictures(services)
        self.leaving = Leaving(services, self.kernel_builds, target)
        self.tour = Guide(services, self.fixes, walk)
        self.panes = Panes(services)
        self.below = Below(services)
        self.narrowing = Narrowing(services)
        self.table_rows = TableNarrowing(services)
        self.comparing = Comparing(services)
        self.moving = Moving(services)
        self.finding = Finder(services)
        self.selected = Selected(services)
        self.copying = Copying(services)
        self.command_runs = CommandRuns(services, self.stepping, self.capturing, self.tour)
        self.news = News(
            services,
            self.stepping,
            self.capturing,
            self.since_last,
            self.kernel_builds,
            self.leaving,
            target,
        )

    async def carry_out(self, action: str, *arguments: object) -> None:
        """Call a method of a controller, named as in ``stepping.go_on``. Raises AttributeError
        where there is none.
        """
        controller, _, method = action.partition(".")
        done: Awaitable[None] | None = getattr(getattr(self, controller), method)(*arguments)
        if isawaitable(done):
            await done

    def stop_measuring(self) -> bool:
        """Stop a bench. Returns whether there was one; it has told so itself."""
        stopped = [one.stop() for one in (self.bench, self.program_bench)]
        return any(stopped)

    def stop_compiling(self) -> bool:
        """Stop what is compiled for kernels. Returns whether there was something to stop."""
        stopped = [one.stop() for one in (self.kernel_builds, self.configurations)]
        return any(stopped)
