"""This module saves the session and leaves the app, so that no unsaved work is lost without a
question, and no process stays behind. What the history keeps is saved.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
from functools import partial
from pathlib import Path, PurePath
from typing import ClassVar, Literal

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Label

from fx_explorer.analysis.words import counted
from fx_explorer.client.session_files import copy_session, session_content
from fx_explorer.errors import FxExplorerError, SessionWriteError, UsageError
from fx_explorer.folders import typed_path
from fx_explorer.highlight import printable
from fx_explorer.output_file import OutputFile, never_ours
from fx_explorer.session import SessionReader
from fx_explorer.tui.controllers.kernel_builds import KernelBuilds
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.conversation import ask, conversation
from fx_explorer.tui.dialogs.dialog import Ask, Dialog
from fx_explorer.tui.keys import closing_bindings
from fx_explorer.tui.terminal import driver

TERMINATED = 128 + signal.SIGTERM


class Leaving:
    """Ends the app and the processes that it started."""

    def __init__(self, services: Services, kernel_builds: KernelBuilds, target: str) -> None:
        """``target`` is the user's own text, after which a saved session is named."""
        self._services = services
        self._kernel_builds = kernel_builds
        self._target = target
        self.app = services.app
        self.last_words: list[str] = []
        """Sentences for when the app has ended: where the capture is, and which processes of the
        program still run.
        """
        self.opens_next = ""
        """The capture of the history that is opened when the app has ended; empty for none."""

    @conversation("save", "save the session")
    async def save(self) -> None:
        reader = self._services.explorer.reader
        if reader is None:
            self._services.notify("There is no session to save yet.")
        elif self._services.captures.is_running:
            if self._services.captures.reads_log:
                what = "log is still being read"
            else:
                what = "capture is still running"
            self._services.notify(f"The {what}: save it when it has finished.")
        elif name := await self._ask_name(OR_A_PAGE):
            if name.lower().endswith(PAGE):
                await self._save_page(reader.path, name)
            else:
                self._save(reader.path, name)

    async def _ask_name(self, also: str = "") -> str | None:
        question = f"Save the session as{also}"
        return await ask(self.app, Ask(question, suggested_name(self._target)))

    async def _save_page(self, session: Path, name: str) -> None:
        """Save the session as a page for the browser, and say how that went."""
        self._services.notify("Making the page …", timeout=5)
        try:
            path = await asyncio.to_thread(save_page, session, typed_path(name))
        except FxExplorerError as error:
            self._services.notify(str(error), severity="error", timeout=10)
            return
        self._services.captures.note_saved(session)
        self._services.notify(
            f"Saved {path}. It opens in a browser, and with: fx-explorer {path}", timeout=10
        )

    def _save(self, session: Path, name: str) -> bool:
        """Save the session. Returns False, with a message to the user, when it could not be
        saved.
        """
        try:
            path = save_session(session, typed_path(name))
        except FxExplorerError as error:
            self._services.notify(str(error), severity="error", timeout=10)
            return False
        self._services.captures.note_saved(session)
        self._services.notify(f"Saved {path}. Open it again with: fx-explorer {path}", timeout=10)
        return True

    async def quit(self) -> None:
        """Leave the app, after asking about unsaved work. No process stays behind: the worker's
        whole group is ended first.
        """
        if any(isinstance(screen, Quitting) for screen in self.app.screen_stack):
            return
        unsaved = self._services.captures.count_unsaved()
        if not unsaved:
            await self.leave()
            return
        asking = partial(self._ask_and_quit, unsaved)
        described = "ask what to do with a capture that is not saved"
        self._services.begin(asking, "quit", "quit", described, exclusive=True)

    async def _ask_and_quit(self, compilations: int) -> None:
        what = (
            f"The capture of {Path(self._target).name or 'the program'} "
            f"({counted(compilations, 'compilation')})"
        )
        answer = await ask(self.app, Quitting(what))
        if answer == "discard" or (answer == "save" and await self._save_all()):
            await self.leave()

    async def _save_all(self) -> bool:
        """Stop running work and save the last capture, which is complete as far as it went. Returns
        whether it was saved.
        """
        captures = self._services.captures
        name = await self._ask_name()
        if not name:
            return False
        if captures.is_running:
            await captures.stop()
        return captures.last_session is not None and self._save(captures.last_session, name)

    async def leave(self, exit_code: int = 0, *, keep_unsaved: bool = False) -> None:
        """End the app, even if stopping the worker fails."""
        try:
            await self._end_helpers()
            self.last_words = await self._services.captures.stop_and_tidy(keep_unsaved=keep_unsaved)
        finally:
            self.app.exit(exit_code, return_code=exit_code)

    async def _end_helpers(self) -> None:
        """End the processes that wait for more work."""
        await self._kernel_builds.close()
        if self._services.trial_worker.fork_server:
            self._services.trial_worker.fork_server.close()

    # signals

    def leave_on_signals(self) -> None:
        """Leave as ``q`` does when the terminal is closed or a kill arrives: the worker is stopped,
        temporary files go.
        """
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.leave_on_sigterm)
        loop.add_signal_handler(signal.SIGHUP, self.leave_without_terminal)

    def leave_on_sigterm(self) -> None:
        """Leave without asking, because the user may be gone: unsaved work stays in its temporary
        file, and the next start names it.
        """
        leaving = partial(self.leave, TERMINATED, keep_unsaved=True)
        self._services.begin(leaving, "terminate", "leave", "leave after a signal", exclusive=True)

    def leave_without_terminal(self) -> None:
        self._services.begin(
            self._leave_without_terminal,
            "leave",
            "leave",
            "leave: the terminal is gone",
            exclusive=True,
        )

    async def _leave_without_terminal(self) -> None:
        await self._end_helpers()
        await self._services.captures.stop_and_tidy(keep_unsaved=True)
        driver.leave_at_once()


# Saving the session the user looks at as a file of their own. It copies: the app continues reading
# the one it has open.


def suggested_name(target: str) -> str:
    """Suggest a file's name: ``dir/mymodel.py:MLP`` → ``mymodel.fxs``."""
    name = (
        PurePath(target.partition(":")[0] or "session")
        .name.removesuffix(".fxs")
        .removesuffix(".py")
    )
    return f"{name.rpartition('.')[2] or 'session'}.fxs"


PAGE = ".html"

OR_A_PAGE = " (.fxs, or .html for a page to send)"


def save_page(source: Path, target: Path) -> Path:
    """Write a session as a page for the browser. Never overwrites. Raises SessionWriteError."""
    from fx_explorer.report.page.page import html_page  # few save one

    if os.path.lexists(target):
        raise SessionWriteError(f"{target} already exists: choose another name")
    try:
        with SessionReader(source) as reader:
            page = html_page(reader, session_content(source))
        OutputFile(target, "page", never_ours).write_text(page, errors="backslashreplace")
    except (sqlite3.Error, OSError, UsageError) as error:
        raise SessionWriteError(f"cannot write {target}: {error}. Choose another place.") from error
    return target


def save_session(source: Path, target: Path) -> Path:
    """Copy a session completely, including its WAL. Never overwrites. Raises SessionWriteError."""
    if target.suffix == ".fxs":
        target = target
    else:
        target = target.with_name(target.name + ".fxs")
    if os.path.lexists(target):
        raise SessionWriteError(f"{target} already exists: choose another name")
    try:
        copy_session(source, OutputFile(target, "session", never_ours))
    except (sqlite3.Error, OSError, UsageError) as error:
        raise SessionWriteError(f"cannot write {target}: {error}. Choose another place.") from error
    return target


# The question before the app is left while a capture is in a temporary place only.

Answer = Literal["save", "discard", "stay"]


class Quitting(Dialog[Answer]):
    """Shows the work that would be lost, and asks what to do with it."""

    DEFAULT_CSS = """
    Quitting { align: center middle; }
    Quitting > Vertical {
        width: auto; min-width: 40; max-width: 96%; height: auto;
        background: $surface; border: round $border; padding: 0 1;
    }
    Quitting Label { width: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer('save')", "Save as", show=False),
        Binding("n", "answer('discard')", "Discard", show=False),
        *closing_bindings("app.quit"),
    ]

    def __init__(self, what: str) -> None:
        """``what`` describes the capture in a few words."""
        super().__init__()
        self._what = what

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Save before quitting?"
            box.border_subtitle = "y yes · n no · esc stay"
            yield Label(printable(f"{self._what} is not saved."), markup=False)
            yield Label("Quitting without saving loses it.", markup=False)

    def action_answer(self, answer: Answer) -> None:
        self.dismiss(answer)

    def action_leave(self) -> None:
        self.dismiss("stay")
