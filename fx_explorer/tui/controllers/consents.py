"""Asking before anything of a session is run or compiled that this user did not capture on this
machine, and before a program is loaded that can run code of whoever made it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual.app import App

from fx_explorer.errors import UsageError
from fx_explorer.session import SessionReader
from fx_explorer.tui.dialogs.consent import Consent
from fx_explorer.tui.tasks.conversation import ask

QUESTION = "You did not capture this session on this machine. Continue?"
QUESTION_OF_PROGRAM = "Load this program?"
NOT_AGREED = (
    "You did not agree to run anything of this session, which you did not capture on this machine."
)


class Consents:
    """Remembers what the user agreed to, for as long as the app is open."""

    def __init__(self, app: App[int], *, trusts_sessions: bool = False) -> None:
        """``trusts_sessions`` (``--trust``): the user has agreed already."""
        self._app = app
        self._trusts_sessions = trusts_sessions
        self._agreed: set[tuple[Path, str]] = set()
        """(session or program, what will happen)."""

    def is_needless(self, session: Path, consequence: str) -> bool:
        """Return whether nobody has to be asked. It reads the texts of the session, so it is not
        called in the thread that draws.
        """
        from fx_explorer.client.trust import is_own  # not needed for the first paint

        return self._trusts_sessions or (session, consequence) in self._agreed or is_own(session)

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
        """Ask once whether a program that is a target may be loaded. Raises UsageError when the
        user does not agree.
        """
        from fx_explorer.client.trust import LOADS  # not needed for the first paint

        if self._trusts_sessions or (program, LOADS) in self._agreed:
            return
        words = f"{program} is an ExportedProgram. {LOADS} Agree if you trust whoever made it."
        if not await ask(self._app, Consent(QUESTION_OF_PROGRAM, words)):
            raise UsageError(f"You did not agree to load {program.name}. r asks again.")
        self.note(program, LOADS)

    def note(self, asked_about: Path, consequence: str) -> None:
        """Note that the user has agreed to it."""
        self._agreed.add((asked_about, consequence))
