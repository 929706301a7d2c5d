"""This module runs the guided tour in the real app: ten times a second it checks whether the step
is done, and shows the next one.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.tui.commands import by_id
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.controllers.trials import Trials
from fx_explorer.tui.keys import first_key
from fx_explorer.tui.screens.menu import MenuScreen

if TYPE_CHECKING:
    from fx_explorer.tui.screens.tour_panel import PanelText
    from fx_explorer.tui.tour_steps import GuidedTour, TourMoment, TourStep


def moment(services: Services, trials: Trials, captures: int, target: Path) -> TourMoment:
    """Return the present state of the app. It takes some microseconds, because it is called ten
    times a second.
    """
    from fx_explorer.tui.tour_steps import TourMoment

    explorer, shown = services.explorer, services.captures
    waiting = shown.waiting
    panes = explorer.linked.panes if explorer.view == "source" else []
    body = explorer.views.body
    row = body.cursor if body else 0
    gate = waiting.gate if waiting else None
    return TourMoment(
        screen=type(services.app.screen).__name__,
        view=explorer.view,
        row=row,
        place=explorer.place,
        lit=sum(len(pane.lit) for pane in panes if pane is not explorer.linked.active),
        panes=frozenset(pane.document.kind for pane in panes if pane.document),
        shows_stage=bool(panes) and explorer.linked.stage_words.text is not None,
        gate=gate or "",
        is_compiled=bool(captures) and not shown.is_running and explorer.reader is not None,
        captures=captures,
        trials=trials.count_trials(),
        verdict=trials.last_verdict() or "",
        saved_ns=_saved_ns(target),
    )


def _saved_ns(file: Path) -> int:
    """Return when a file was written; 0 if it does not exist, as in the middle of saving."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


# What the tour is made of is imported where it is needed: most who start the app go through none.

NO_TOUR = "No tour is running: start it with fx-explorer tour."
LEFT = "The tour is closed; the app stays. fx-explorer tour continues from here."
NOT_KEPT = "Your progress cannot be saved ({problem}): the next tour begins from the start."

BACK_TO_THE_TOUR = "to return to the place where the tour continues"
WAITS = "Wait a moment: torch.compile is running."

SKIPS, BACK, LEAVES = "tour.skip", "tour.back", "tour.leave"


class TourGuide:
    """Runs the steps of the guided tour. Without a walk it does nothing."""

    def __init__(self, services: Services, trials: Trials, walk: GuidedTour | None) -> None:
        self._services = services
        self._trials = trials
        self._walk = walk
        self._at = walk.begins_at if walk else 0
        self._began: TourMoment | None = None
        """The app when the step began."""
        self.captures = 0
        """Number of captures that were begun, counted by the code that makes them."""

    @property
    def step(self) -> TourStep:
        from fx_explorer.tui.tour_steps import STEPS

        return STEPS[self._at]

    @property
    def is_going_on(self) -> bool:
        return self._walk is not None

    def look(self) -> None:
        """Go to the next step if this one is done, and show the position in the tour. It is cheap,
        because it is called ten times a second.
        """
        if self._walk is None:
            return
        now = moment(self._services, self._trials, self.captures, self._walk.target)
        if self._began is None:
            self._began = now
        # A step that is done already is never shown: that the file is changed, where no fix was
        # written.
        while self._began and self.step.at(now).is_done(self._began, now):
            self._go_to(self._at + 1, now)
        self._show(now)

    def skip(self) -> None:
        """Go on to the next step without doing this one."""
        self._go_by(1)

    def back(self) -> None:
        self._go_by(-1)

    def leave(self) -> None:
        """Close the tour. The step it has reached is stored already."""
        if self._walk is None:
            self._services.notify(NO_TOUR)
            return
        from fx_explorer.tui.screens.tour_panel import TourPanel

        self._walk = None
        for screen in self._services.app.screen_stack:
            for panel in screen.walk_children(TourPanel):
                panel.remove()
        self._services.notify(LEFT)

    def _go_by(self, steps: int) -> None:
        if self._walk is None:
            self._services.notify(NO_TOUR)
            return
        self._go_to(self._at + steps, None)
        self.look()

    def _go_to(self, at: int, now: TourMoment | None) -> None:
        from fx_explorer.tui.tour_steps import STEPS

        assert self._walk is not None
        self._at = max(0, min(at, len(STEPS) - 1))
        self._began = now
        try:
            self._walk.keep(self._at)
        except OSError as error:
            self._services.notify(NOT_KEPT.format(problem=error.strerror), severity="warning")

    def _show(self, now: TourMoment) -> None:
        """Show the panel on the topmost screen. A menu is only as high as needed, so that the panel
        of the screen below it stays visible.
        """
        from fx_explorer.tui.screens.tour_panel import TourPanel

        screen = self._services.app.screen
        if isinstance(screen, MenuScreen) or not screen.is_mounted:
            return
        text = self._text(now)
        for panel in screen.walk_children(TourPanel):
            panel.show(text)
            return
        screen.mount(TourPanel(text))

    def _text(self, now: TourMoment) -> PanelText:
        from fx_explorer.tui.screens.tour_panel import PanelText
        from fx_explorer.tui.tour_steps import MAIN_SCREEN, STEPS

        step = self.step.at(now)
        key, does = self._key(step.command), step.does
        if not step.is_there(now):
            key = self._key(step.way)
            does = BACK_TO_THE_TOUR if step.way else WAITS
        on_main = now.screen == MAIN_SCREEN
        skips = ((SKIPS, "skips"), (BACK, "back"), (LEAVES, "leaves")) if on_main else ()
        others = tuple((self._key(command), words, command) for command, words in skips)
        return PanelText(self._at + 1, len(STEPS), step.sentence, key, does, others)

    def _key(self, command: str) -> str:
        """Return the key of a command as the user has it; empty for no command."""
        if command:
            return first_key(by_id(command), self._services.explorer.keymap)
        return ""
