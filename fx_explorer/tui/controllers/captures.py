"""This module runs captures one after another for the app: it has the running one, its session, the
previous session, and the temporary files of all.

The session of the capture before the one on screen is kept to compare the two, until the next
capture or the end of the app. One in a temporary directory or in the history stays where it is. One
that the user keeps in a file (``-o``) is about to be replaced there, and is copied first.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.client.history import is_in_history
from fx_explorer.errors import FxExplorerError, SessionError
from fx_explorer.model import Compilation, Stage
from fx_explorer.session import SessionReader
from fx_explorer.tui.content.live import CaptureLike, LiveCapture, Waiting

if TYPE_CHECKING:
    from fx_explorer.folders import Lock


MakeCapture = Callable[[], CaptureLike]

MakeBuilt = Callable[[str], CaptureLike]
"""A function that makes a capture that builds the kernels, given the error that the program raised
during inspection.
"""

STOPPED_EARLY = (
    "The capture was stopped before anything was compiled; the screen still shows the previous one."
)

Show = Callable[[SessionReader], None]
"""A function that puts a session on screen."""


class Captures:
    """Runs the captures of ``make_capture``, one at a time. It knows no screen; the caller passes a
    function that shows a session.
    """

    def __init__(
        self, make_capture: MakeCapture | None, read_log: MakeCapture | None = None
    ) -> None:
        """With ``make_capture`` None nothing is run, and the app shows a saved session, or a log
        read by ``read_log``.
        """
        self._make_capture = make_capture or read_log
        self.begins_by_itself = self._make_capture is not None
        """Whether the app has something to start with: a program to capture, or a log to read."""
        self.reads_log = make_capture is None and read_log is not None
        """Whether a log is being read instead of a program being run."""
        self._made: list[CaptureLike] = []
        """The captures whose temporary session may still be on screen, or in a comparison."""
        self._earlier = EarlierSessions()
        self._shown: LiveCapture | None = None
        """The last capture that was shown to its end."""
        self.live: LiveCapture | None = None
        """The running capture, or the last one."""
        self.incoming: SessionReader | None = None
        """The session of the running capture."""
        self._saved: tuple[Path, int] | None = None
        """The session that the user saved last, and how many compilations it had."""

    def make_by(self, make_capture: MakeCapture) -> None:
        """Make captures by ``make_capture`` from now on."""
        self._make_capture = make_capture
        self.begins_by_itself = True

    @property
    def can_run(self) -> bool:
        return self.begins_by_itself and not self.reads_log

    def look_at(self, compilation: int) -> None:
        """Tell the reader of a log which compilation is on screen."""
        if self.reads_log and self.live and not self.live.is_over:
            self.live.look_at(compilation)

    @property
    def has_worker(self) -> bool:
        """Return whether a worker is there, busy or waiting."""
        return self.live is not None and not self.live.is_over

    @property
    def is_running(self) -> bool:
        """Return whether something continues, or waits at a gate in the middle. It does not when
        the program has ended and the worker stayed.
        """
        return self.live is not None and not self.live.is_at_rest

    @property
    def waiting(self) -> Waiting | None:
        """Return where the worker waits for a command."""
        return self.live.waiting if self.live else None

    @property
    def running_stages(self) -> frozenset[Stage]:
        if self.live:
            return self.live.running_stages
        return frozenset()

    async def run(self, show: Show, *, show_from_the_start: bool) -> list[str]:
        """Run a capture until its program has ended, show its session, and return further messages
        for the user.

        ``show_from_the_start``: show it while it grows; else whatever is on screen stays until this
        one is complete. Raises FxExplorerError when the capture cannot be made.
        """
        assert self._make_capture is not None
        await self.stop()  # a worker that stayed
        earlier, notes = await self._earlier.kept(self._shown)
        if self._shown and self._shown.capture.history_problem:
            notes.append(self._shown.capture.history_problem)
        try:
            live = LiveCapture(self._make_capture())
            self._made.append(live.capture)
            self._earlier.note(live.capture, earlier)
            self.live = live
            await live.start()
            self.incoming = SessionReader(live.session_path)
            if show_from_the_start:
                show(self.incoming)
            await live.follow()
        except BaseException:
            self.live = self.incoming = None
            raise
        self.incoming = None
        if not show_from_the_start and self._was_stopped_empty(live):
            self._earlier.forget(live.capture)
            self._discard(self._made[-1:])
            return [*notes, *live.notes, STOPPED_EARLY]
        before, self._shown = self._shown, live
        show(SessionReader(live.session_path))  # it may have been moved to its place
        self._earlier.forget_others(live.capture)
        compared = {live.capture}
        if before:
            compared.add(before.capture)
        self._discard([capture for capture in self._made if capture not in compared])
        return [*notes, *live.notes]

    def earlier_of(self, session: Path) -> Earlier | None:
        """Return the session of the capture before the one that made ``session``; None without
        one.
        """
        return self._earlier.before_session(session)

    def _was_stopped_empty(self, live: LiveCapture) -> bool:
        """Return whether the user stopped the capture before anything was compiled."""
        outcome = live.capture.outcome
        return (
            outcome is not None
            and outcome.kind == "cancelled"
            and not _compilations(live.session_path)
        )

    async def linger(self, show: Show) -> None:
        """Follow a worker that stayed when its program had ended, to its end."""
        live = self.live
        while live and not live.is_over:
            await live.follow()
            if live is self.live and live.is_over:
                show(SessionReader(live.session_path))  # in its place now

    async def stop(self, grace_s: float | None = None) -> None:
        """End the worker, if there is one; its results are kept."""
        if self.live and not self.live.is_over:
            await self.live.stop(grace_s)

    @property
    def last_session(self) -> Path | None:
        """Return the session of the last capture that recorded anything."""
        if self._made:
            return self._made[-1].session_path
        return None

    def count_unsaved(self) -> int:
        """Return how many compilations of the last capture exist only in a temporary file; 0 if
        none would be lost.
        """
        capture = self._made[-1] if self._made else None
        if capture is None or not capture.is_temporary:
            return 0
        count = _compilations(capture.session_path)
        if self._saved == (capture.session_path, count):
            return 0
        return count

    def note_saved(self, session: Path) -> None:
        """Record that the present content of ``session`` has been saved elsewhere."""
        self._saved = (session, _compilations(session))

    async def stop_and_tidy(self, *, keep_unsaved: bool = False) -> list[str]:
        """Leave no process and no temporary file, except for the unsaved session if that is to be
        kept, or if the history cannot take it.

        Returns what of the program runs on, in words, and where the last capture is.
        """
        await self.stop(grace_s=0.0)
        self.live = None
        words = []
        last = self._made[-1] if self._made else None
        if last:
            is_lost = self.count_unsaved() > 0
            if is_lost and (keep_unsaved or last.history_problem):
                last.keep()
            words = [last.left_behind, _describe_place(last, is_lost=is_lost)]
        self._discard(self._made)
        self._earlier.remove()
        return [sentence for sentence in words if sentence]

    def _discard(self, captures: list[CaptureLike]) -> None:
        for capture in captures:
            capture.discard()
        self._made = [capture for capture in self._made if capture not in captures]


def _describe_place(capture: CaptureLike, *, is_lost: bool) -> str:
    """Say where a capture is when the app is left; empty for one in the user's own file."""
    if capture.history_problem and is_lost:
        place = "It is still in a temporary directory: recover it with fx-explorer recover."
        return f"{capture.history_problem}. {place}"
    if capture.kept_name:
        return f"kept as {capture.kept_name}: fx-explorer {capture.kept_name} opens it again"
    return ""


def _compilations(session: Path) -> int:
    """Return how many compilations a session has; 0 if it cannot be read, so that no question is
    asked about it.
    """
    try:
        with SessionReader(session) as reader:
            return reader.count(Compilation)
    except SessionError:
        return 0


COPY = "before.fxs"
"""Name of a copy. Where the app was killed, the next start removes its directory: it holds no
capture's ``session.fxs``.
"""

NOT_KEPT = (
    "The effect of this capture cannot be shown: the previous session could not be copied "
    "({error})."
)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The session of the previous capture."""

    session: Path
    is_through: bool
    """Whether Dynamo had seen the whole program, which a stopped session does not record."""


class EarlierSessions:
    """Remembers for each capture the session of the one before it."""

    def __init__(self) -> None:
        self._before: list[tuple[CaptureLike, Earlier]] = []
        self._copies: dict[Path, Lock] = {}
        """Directories with a copy, which are locked so that they do not pass for interrupted
        captures.
        """

    async def kept(self, shown: LiveCapture | None) -> tuple[Earlier | None, list[str]]:
        """Return the session on screen, kept for a comparison with the next one, and messages for
        the user. None if there is none, or if it cannot be kept.
        """
        if shown is None:
            return None, []
        session = shown.session_path
        if not shown.capture.is_temporary and not is_in_history(session):
            try:
                session = await asyncio.to_thread(self._copy, session)
            except (OSError, FxExplorerError, sqlite3.Error) as error:
                return None, [NOT_KEPT.format(error=error)]
        return Earlier(session, shown.is_through), []

    def note(self, coming: CaptureLike, earlier: Earlier | None) -> None:
        """Record the session before the capture that is about to begin."""
        if earlier:
            self._before.append((coming, earlier))

    def _copy(self, session: Path) -> Path:
        from fx_explorer.client.session_files import (
            copy_session,
            new_capture_directory,  # not needed for the first paint, both
            session_file,
        )

        directory, lock = new_capture_directory()
        self._copies[directory] = lock
        copy = directory / COPY
        copy_session(session, session_file(copy))
        return copy

    def before_session(self, session: Path) -> Earlier | None:
        """Return the session of the capture before the one that made ``session``."""
        for capture, earlier in reversed(self._before):
            if capture.session_path == session:
                return earlier
        return None

    def forget(self, *captures: CaptureLike) -> None:
        """Forget the earlier sessions of these captures."""
        self._retain(
            [(capture, earlier) for capture, earlier in self._before if capture not in captures]
        )

    def forget_others(self, shown: CaptureLike) -> None:
        """Forget the earlier sessions of all captures except the one on screen."""
        self._retain([(capture, earlier) for capture, earlier in self._before if capture is shown])

    def _retain(self, before: list[tuple[CaptureLike, Earlier]]) -> None:
        """Keep the earlier captures that the user can return to, and remove the copies of all other
        sessions.
        """
        self._before = before
        needed = {earlier.session.parent for _, earlier in self._before}
        for directory in [path for path in self._copies if path not in needed]:
            self._remove(directory)

    def remove(self) -> None:
        """Remove all copies, because the app is left."""
        for directory in list(self._copies):
            self._remove(directory)

    def _remove(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        self._copies.pop(directory).release()
