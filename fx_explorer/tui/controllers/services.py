"""What every controller needs: the app, the captures, the main screen, and what the user agreed
to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from textual.app import App
from textual.notifications import SeverityLevel
from textual.worker import Worker, WorkType

from fx_explorer.session import SessionReader
from fx_explorer.trials.recapture import TrialWorker
from fx_explorer.tui.capturing import Captures
from fx_explorer.tui.controllers.consents import Consents
from fx_explorer.tui.screens.explorer import Explorer


@dataclass(slots=True)
class Services:
    """Shared by all controllers of one app."""

    app: App[int]
    captures: Captures
    explorer: Explorer
    consents: Consents
    look: Callable[[], None]
    """Shows how things stand, now."""
    trial_worker: TrialWorker
    write_past_screen: Callable[[str], None]
    """Writes sequences that make the terminal do something."""

    @property
    def stepped_session(self) -> SessionReader | None:
        """Return the session of the capture that is stepped through."""
        return self.captures.incoming or self.explorer.reader

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
    ) -> None:
        """Tell the user. ``timeout``: seconds."""
        self.app.notify(message, title=title, severity=severity, timeout=timeout)

    def begin(
        self,
        work: WorkType[None],
        name: str,
        group: str,
        description: str,
        *,
        exclusive: bool = False,
        may_fail: bool = False,
    ) -> Worker[None]:
        """Do it beside the screen, and return what does.

        ``exclusive``: it ends what the group does. ``may_fail``: an exception in it does not end
        the app.
        """
        ends_app = not may_fail
        return self.app.run_worker(
            work,
            name=name,
            group=group,
            description=description,
            exclusive=exclusive,
            exit_on_error=ends_app,
        )

    async def ask_to_run(self) -> None:
        """Ask whether the program of the session may be run. Raises UsageError when the user does
        not want that.
        """
        from fx_explorer.client.trust import RUNS  # not needed for the first paint

        reader = self.stepped_session
        if reader:
            await self.consents.ask(reader, RUNS)
