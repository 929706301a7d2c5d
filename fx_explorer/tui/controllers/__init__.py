"""What the app does when a key is pressed: it holds one controller for each kind of thing, and they
share ``Services``.

A command calls a method of a controller (``tui/commands/``). One controller knows another only
where it needs what that one does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fx_explorer.tui.commands import AppCommand
from fx_explorer.tui.config import AfterFix
from fx_explorer.tui.controllers.capturing import Capturing
from fx_explorer.tui.controllers.changes import Comparisons, SourceFiles
from fx_explorer.tui.controllers.command_runs import CommandRuns
from fx_explorer.tui.controllers.exports import Exports
from fx_explorer.tui.controllers.guided_tour import TourGuide
from fx_explorer.tui.controllers.kernel_builds import KernelBuilds
from fx_explorer.tui.controllers.kernel_levels import KernelLevels
from fx_explorer.tui.controllers.leaving import Leaving
from fx_explorer.tui.controllers.measurements import Measurements
from fx_explorer.tui.controllers.navigation import Navigation
from fx_explorer.tui.controllers.panes import Panes
from fx_explorer.tui.controllers.screen_updates import ScreenUpdates
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.controllers.stepping import Stepping
from fx_explorer.tui.controllers.trials import Trials
from fx_explorer.tui.controllers.variants import Variants

if TYPE_CHECKING:
    from fx_explorer.instruments.dynamic.screen import TryDynamic
    from fx_explorer.instruments.fixes.api import TryFix
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
    """Holds one controller for each kind of thing, and carries out what commands ask of them."""

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
        self.panes = Panes(services)
        self.navigation = Navigation(services)
        self.exports = Exports(services)
        self.stepping = Stepping(services)
        self.variants = Variants(services, self.stepping)
        self.source_files = SourceFiles(services)
        self.comparisons = Comparisons(services, self.source_files)
        self.capturing = Capturing(
            services,
            self.stepping,
            self.source_files,
            lambda reader: self.screen_updates.show(reader),
        )
        self.kernel_builds = KernelBuilds(services)
        self.kernel_levels = KernelLevels(services, self.kernel_builds)
        self.measurements = Measurements(
            services, self.stepping, self.kernel_builds, runners.measure_breaks
        )
        self.trials = Trials(
            services,
            self.capturing,
            lambda: "nothing" if self.tour.is_going_on else after_fix,
            runners.try_fix,
            runners.try_dynamic,
        )
        self.tour = TourGuide(services, self.trials, walk)
        self.leaving = Leaving(services, self.kernel_builds, target)
        self.command_runs = CommandRuns(services, self.stepping, self.capturing, self.tour)
        self.screen_updates = ScreenUpdates(
            services,
            self.stepping,
            self.capturing,
            self.comparisons,
            self.kernel_builds,
            self.leaving,
            target,
        )

    async def carry_out(self, command: AppCommand) -> None:
        """Carry out a command that calls a controller."""
        assert not isinstance(command.action, str), f"{command.id} is an action of Textual"
        work = command.action(self)
        if work is not None:
            await work
