"""This module shows the captures of the history, and opens or compares the chosen one."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from fx_explorer.analysis.words import size
from fx_explorer.client.history import History, Hold, KeptCapture, is_in_history, project_of
from fx_explorer.client.history_settings import read_history_settings
from fx_explorer.errors import SessionError, UsageError
from fx_explorer.session import SessionReader
from fx_explorer.tui.background_tasks import read_in_thread
from fx_explorer.tui.controllers.leaving import Leaving
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.conversation import ask, conversation, needs_no_dialog_soon
from fx_explorer.tui.dialogs.choose import Choice, Chooser, matching

if TYPE_CHECKING:
    from fx_explorer.overview.history_rows import HistoryRow

EMPTY = "No other capture of this project is kept: {project}"
OFF = f"{EMPTY}. The history is switched off: keep = false in the configuration file."

Action = Literal["compare", "open"]


class PastCaptures:
    """Lets the user choose a capture of the history, to compare it or to open it."""

    def __init__(self, services: Services, leaving: Leaving, target: str) -> None:
        """``target`` is the user's own text."""
        self._services = services
        self._leaving = leaving
        self._target = target
        self.app = services.app

    @conversation("history", "list the captures of this project")
    async def choose(self) -> None:
        """List the captures of the project, and ask what to do with the chosen one."""
        reader = self._services.explorer.reader
        shown = reader.path if reader else None
        project = await asyncio.to_thread(_project_of, shown, self._target)
        rows = await asyncio.to_thread(_read_rows, project, shown)
        if not rows:
            settings = await asyncio.to_thread(read_history_settings)
            text = EMPTY if settings.keep else OFF
            self._services.notify(text.format(project=project))
            return
        choices = [Choice(_title(row), _detail(row), row.capture) for row in rows]
        title = f"Captures of {project}"
        capture = await ask(self.app, Chooser(title, matching(choices)))
        if capture is None:
            return
        try:
            hold = Hold(capture.folder)
        except OSError as error:
            raise UsageError(f"{capture.name} was removed meanwhile") from error
        try:
            action = await self._ask_action(capture, shown)
            if action == "open":
                self._leaving.opens_next = capture.name
                await self._leaving.leave()
            elif action == "compare" and shown:
                await self._compare(capture, shown)
        finally:
            hold.release()

    async def _ask_action(self, capture: KeptCapture, shown: Path | None) -> Action | None:
        """Ask what to do with a capture; with nothing on screen it can only be opened."""
        opening: Choice[Action] = Choice("open it", "in place of this one", "open")
        if shown is None:
            return "open"
        comparing: Choice[Action] = Choice("compare", "with the capture on screen", "compare")
        return await ask(self.app, Chooser(capture.name, matching([comparing, opening])))

    async def _compare(self, capture: KeptCapture, shown: Path) -> None:
        """Show the differences between a capture and the one on screen, the older one first."""
        # few compare
        from fx_explorer.instruments.diff.differences import differences_of_files
        from fx_explorer.tui.screens.difference_screens import ChangesScreen

        is_newer = is_in_history(shown) and capture.number > int(shown.parent.name)
        before, after = (shown, capture.session) if is_newer else (capture.session, shown)
        names = ("on screen", capture.name)
        if not is_newer:
            names = (capture.name, "on screen")
        needs_no_dialog_soon(self.app)
        differences = await read_in_thread(after, partial(differences_of_files, before))
        keymap = self._services.explorer.keymap
        heading = f"{names[0]} → {names[1]}"
        screen = ChangesScreen(heading, before, after, differences, "", keymap, names)
        await ask(self.app, screen)


def _project_of(shown: Path | None, target: str) -> str:
    """Return the project of the session on screen: that of its capture in the history, else that
    of its program, else that of the target.
    """
    if shown is None:
        return project_of(target)
    if is_in_history(shown):
        for capture in History().captures():
            if capture.session == shown:
                return capture.project
    with contextlib.suppress(SessionError), SessionReader(shown) as reader:
        file = (reader.meta("target") or {}).get("file")
        if isinstance(file, str) and Path(file).is_file():
            return project_of(file)
    return project_of(target)


def _read_rows(project: str, shown: Path | None) -> list[HistoryRow]:
    """Return the captures of a project but for the one on screen, the newest first."""
    from fx_explorer.overview.history_rows import history_row  # not needed for the first paint

    return [
        history_row(capture)
        for capture in History().captures()
        if capture.project == project and capture.session != shown
    ]


def _title(row: HistoryRow) -> str:
    return f"{row.capture.number:>3}  {row.when}  {row.name}"


def _detail(row: HistoryRow) -> str:
    return f"{row.result} · {size(row.capture.size_bytes)}"
