"""This package has the controllers, which carry out commands: one for each kind of thing, all
sharing ``Services``.

A command calls a method of a controller (``tui/commands/``). One controller knows another only
where it needs what that one does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.tui.availability import SHOWN_ANYWAY, Compiler, Situation, needs_the_rest, why_not
from fx_explorer.tui.commands import COMMANDS, OF_VIEW, ON_TOP, SYNONYMS, AppCommand, by_id
from fx_explorer.tui.config import AfterFix
from fx_explorer.tui.controllers.capturing import Capturing
from fx_explorer.tui.controllers.changes import Comparisons, SourceFiles
from fx_explorer.tui.controllers.exports import Exports
from fx_explorer.tui.controllers.guided_tour import TourGuide
from fx_explorer.tui.controllers.history import PastCaptures
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
from fx_explorer.tui.conversation import ask, conversation
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching
from fx_explorer.tui.keys import first_key, textual_action

if TYPE_CHECKING:
    from fx_explorer.instruments.dynamic.screen import TryDynamic
    from fx_explorer.instruments.fixes.offers import TryFix
    from fx_explorer.tui.dialogs.running import MeasureBreaks
    from fx_explorer.tui.tour_steps import GuidedTour

__all__ = ["Controllers", "Services", "TrialRunners"]


@dataclass(frozen=True, slots=True)
class TrialRunners:
    """Functions that run a trial, for tests to replace; None uses a worker that runs the program
    again.
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
        """``target`` is the user's own text; ``walk`` is the guided tour, if this is one;
        ``after_fix`` is the action after a fix was written, unless the tour decides it.
        """
        self._after_fix: AfterFix = after_fix
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
            self._what_follows_a_fix,
            runners.try_fix,
            runners.try_dynamic,
        )
        self.tour = TourGuide(services, self.trials, walk)
        self.leaving = Leaving(services, self.kernel_builds, target)
        self.past_captures = PastCaptures(services, self.leaving, target)
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

    def _what_follows_a_fix(self) -> AfterFix:
        if self.tour.is_going_on:
            return "nothing"
        return self._after_fix

    async def carry_out(self, command: AppCommand) -> None:
        """Carry out a command that calls a controller."""
        assert not isinstance(command.action, str), f"{command.id} is an action of Textual"
        work = command.action(self)
        if work is not None:
            await work


class CommandRuns:
    """Runs commands. It asks first if a command needs a stage that lies ahead, and explains why a
    command is unavailable.
    """

    def __init__(
        self, services: Services, stepping: Stepping, capturing: Capturing, tour: TourGuide
    ) -> None:
        self._services = services
        self._stepping = stepping
        self._capturing = capturing
        self._tour = tour
        self.app = services.app
        self._not_wanted: set[tuple[Path, str]] = set()
        """Session and command: the user did not want to continue for it."""

    def why_not(self, command_id: str) -> str:
        """Return why a command is unavailable now; empty if it is available."""
        return why_not(command_id, self._situation())

    def _situation(self) -> Situation:
        captures, explorer = self._services.captures, self._services.explorer
        panes = len(explorer.linked.panes) if explorer.view == "source" else 0
        active = explorer.linked.active
        shows_graph = bool(panes and active and active.document and active.document.kind == "graph")
        return Situation(
            explorer.reader,
            self._compiler(),
            captures.can_run,
            self._capturing.ways_to_capture,
            panes,
            shows_graph,
            self._tour.is_going_on,
        )

    def _compiler(self) -> Compiler:
        """Return the present state of the compiler."""
        captures = self._services.captures
        waiting = captures.waiting
        if not captures.has_worker:
            return "none"
        if not waiting:
            return "works"
        return "pauses" if waiting.gate else "rests"

    async def run(self, command_id: str) -> None:
        """Run a command. If it needs a stage that lies ahead while the compiler pauses, it asks
        whether to continue first.
        """
        is_view = (
            command_id.startswith("view.") and command_id != "view.candidates"
        )  # views are shown first: view_shown
        if is_view or not self._asks_to_go_on(command_id):
            await self._run(command_id)
        else:
            await self._go_on_then(command_id)

    async def view_shown(self, view: str) -> None:
        """Ask whether to continue, in front of a view that is empty because its stage lies
        ahead.
        """
        if self._asks_to_go_on(f"view.{view}"):
            await self._go_on_then(f"view.{view}")

    def _asks_to_go_on(self, command_id: str) -> bool:
        """Return whether a command needs a stage that lies ahead. A command that can be carried out
        anyway asks once a capture.
        """
        reader = self._services.stepped_session
        was_told = reader is not None and (reader.path, command_id) in self._not_wanted
        return not was_told and needs_the_rest(
            command_id, replace(self._situation(), reader=reader)
        )

    @conversation("continue first", "ask whether to continue, if the rest is needed")
    async def _go_on_then(self, command_id: str) -> None:
        words = f"“{by_id(command_id).title}”"
        reader = self._services.stepped_session
        if await self._stepping.go_on_then(words, lambda: self._run(command_id)):
            return
        is_shown = command_id in SHOWN_ANYWAY
        if reader and (is_shown or command_id.startswith("view.")):
            self._not_wanted.add((reader.path, command_id))
        if is_shown:
            await self._run(command_id)

    async def _run(self, command_id: str) -> None:
        command = by_id(command_id)
        explorer = self._services.explorer
        namespaces: dict[str, object] = {
            "app": self.app,
            "explorer": explorer,
            "lines": self.app.focused or explorer,
        }
        namespace = namespaces[command.scope]
        await self.app.run_action(textual_action(command), namespace)  # type: ignore[arg-type]

    def _is_listed(self, command: AppCommand) -> bool:
        if command.id == "app.palette" or command.scope in ON_TOP:
            return False
        return command.group != "Tour" or self._tour.is_going_on

    @conversation("commands", "list the commands")
    async def choose(self) -> None:
        """Show our list of commands. Textual's own palette ends the app if a page is turned in an
        empty list, or if it is closed twice (8.2).
        """
        explorer = self._services.explorer
        choices: list[Choice[str]] = []
        others: list[Choice[str]] = []
        for command in filter(self._is_listed, COMMANDS):
            reason = self.why_not(command.id)
            name = f"{command.title} ({first_key(command, explorer.keymap)})"
            also = SYNONYMS.get(command.id, "")
            if reason:
                others.append(Choice(name, f"not now: {reason}", command.id, also))
            else:
                choices.append(Choice(name, command.help, command.id, also))
        commands_of_view = [command_id for command_id, _ in OF_VIEW.get(explorer.view, ())]
        positions = {command_id: at for at, command_id in enumerate(commands_of_view)}
        choices.sort(key=lambda choice: positions.get(choice.value, len(positions)))
        chosen = await ask(
            self.app, Chooser("Find a command, and run it", matching([*choices, *others]))
        )
        if chosen:
            await self.run(chosen)
