"""This module has what every controller needs: the app, the captures, the main screen, and the
user's consents.

The user is asked before anything of a session is run or compiled that they did not capture on this
machine, and before a program is loaded that can run code of whoever made it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from textual.app import App
from textual.notifications import SeverityLevel
from textual.worker import Worker, WorkType

from fx_explorer.errors import FxExplorerError, UsageError
from fx_explorer.session import SessionReader
from fx_explorer.trials import TrialWorker
from fx_explorer.tui.controllers.captures import Captures
from fx_explorer.tui.conversation import ask
from fx_explorer.tui.dialogs.dialog import Consent
from fx_explorer.tui.screens.explorer import Explorer

QUESTION = "You did not capture this session on this machine. Continue?"
QUESTION_OF_PROGRAM = "Load this program?"
NOT_AGREED = (
    "You did not allow running code from this session, which was not captured by you on this "
    "machine."
)

READ_S = 15


class Consents:
    """Remembers the user's consents, until the app ends."""

    def __init__(self, app: App[int], *, trusts_sessions: bool = False) -> None:
        """``trusts_sessions`` (``--trust``): the user has agreed already."""
        self._app = app
        self._trusts_sessions = trusts_sessions
        self._agreed: set[tuple[Path, str]] = set()
        """(session or program, the action the user agreed to)."""

    def is_needless(self, session: Path, consequence: str) -> bool:
        """Return whether no consent is needed. It reads the texts of the session, so it is not
        called in the thread that draws.
        """
        from fx_explorer.session.ownership import is_own_session  # not needed for the first paint

        return (
            self._trusts_sessions
            or (session, consequence) in self._agreed
            or is_own_session(session)
        )

    async def ask(self, reader: SessionReader, consequence: str) -> None:
        """Ask once per session and consequence. Raises UsageError when the user does not agree.
        Only a worker of Textual can call it, because it can wait for an answer.
        """
        path = reader.path
        if await asyncio.to_thread(self.is_needless, path, consequence):
            return
        if not await ask(self._app, Consent(QUESTION, consequence)):
            raise UsageError(NOT_AGREED)
        self.note(path, consequence)

    async def ask_to_load(self, program: Path) -> None:
        """Ask once whether a target program may be loaded. Raises UsageError if the user does not
        agree.
        """
        from fx_explorer.session.ownership import LOADS  # not needed for the first paint

        if self._trusts_sessions or (program, LOADS) in self._agreed:
            return
        words = f"{program} is an ExportedProgram. {LOADS} Agree only if you trust its author."
        if not await ask(self._app, Consent(QUESTION_OF_PROGRAM, words)):
            raise UsageError(f"You did not allow loading {program.name}. r asks again.")
        self.note(program, LOADS)

    def note(self, asked_about: Path, consequence: str) -> None:
        """Note that the user has agreed to it."""
        self._agreed.add((asked_about, consequence))


class Measuring:
    """Knows which measurement runs in the background, and for how long, for the header."""

    def __init__(self) -> None:
        self.doing = ""
        """``measuring: inductor: compiling it``; empty while nothing is measured."""
        self._began_s = 0.0

    def begin(self, doing: str) -> None:
        """Start the clock."""
        self.doing = doing
        self._began_s = time.monotonic()

    def end(self) -> None:
        """Stop the clock."""
        self.doing = ""

    @property
    def elapsed_s(self) -> float:
        """Return the seconds since the measurement began."""
        return time.monotonic() - self._began_s


@dataclass(slots=True)
class Services:
    """The objects that all controllers of one app share: the app, the captures, the main screen,
    and functions for redrawing.
    """

    app: App[int]
    captures: Captures
    explorer: Explorer
    consents: Consents
    look: Callable[[], None]
    """Shows how things stand, now."""
    trial_worker: TrialWorker
    write_past_screen: Callable[[str], None]
    """Writes sequences that make the terminal do something."""
    measuring: Measuring = field(default_factory=Measuring)

    @property
    def worker_of_trials(self) -> TrialWorker:
        """Return the worker for trials of the shown session's program."""
        reader = self.explorer.reader
        return self.trial_worker.after_capture(reader) if reader else self.trial_worker

    @property
    def stepped_session(self) -> SessionReader | None:
        """Return the session of the capture that is being stepped through."""
        return self.captures.incoming or self.explorer.reader

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
    ) -> None:
        """Show a message to the user, for ``timeout`` seconds."""
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
        """Run work in the background, and return its worker.

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
        from fx_explorer.session.ownership import RUNS  # not needed for the first paint

        reader = self.stepped_session
        if reader:
            await self.consents.ask(reader, RUNS)

    async def user_agrees_to_run(self) -> bool:
        """Return whether the program of the session may be run; if not, tell the user."""
        try:
            await self.ask_to_run()
        except FxExplorerError as error:
            self.notify(str(error), title="not run", severity="warning", timeout=READ_S)
            return False
        return True
