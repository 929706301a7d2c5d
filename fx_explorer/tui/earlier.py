"""Keeps the session of the capture before the one on screen, to compare the two, until the next
capture or the end of the app.

One in a temporary directory stays where it is. One that the user keeps in a file (``-o``) is about
to be replaced there, and is copied first.
"""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.errors import FxExplorerError
from fx_explorer.tui.content.live import CaptureLike, LiveCapture

if TYPE_CHECKING:
    from fx_explorer.temporary_folder import Lock

COPY = "before.fxs"
"""Name of a copy. Where the app was killed, the next start removes its directory: it holds no
capture's ``session.fxs``.
"""

NOT_KEPT = (
    "What changes with this capture cannot be told: a copy of the session before could not "
    "be made ({error})."
)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The session of the capture before."""

    session: Path
    is_through: bool
    """Whether Dynamo had seen the whole program, which a session that was stopped does not tell."""


class EarlierSessions:
    """Knows of each capture which session came before it."""

    def __init__(self) -> None:
        self._before: list[tuple[CaptureLike, Earlier]] = []
        self._copies: dict[Path, Lock] = {}
        """Directories with a copy, which are locked so that they do not pass for interrupted
        captures.
        """

    async def kept(self, shown: LiveCapture | None) -> tuple[Earlier | None, list[str]]:
        """Return the session on screen, kept for a comparison with the next one, and what the user
        should know. None where there is none, or it cannot be kept.
        """
        if shown is None:
            return None, []
        session = shown.session_path
        if not shown.capture.is_temporary:
            try:
                session = await asyncio.to_thread(self._copy, session)
            except (OSError, FxExplorerError, sqlite3.Error) as error:
                return None, [NOT_KEPT.format(error=error)]
        return Earlier(session, shown.is_through), []

    def note(self, coming: CaptureLike, earlier: Earlier | None) -> None:
        """Note what comes before the capture that is about to be made."""
        if earlier:
            self._before.append((coming, earlier))

    def _copy(self, session: Path) -> Path:
        from fx_explorer.client.leftovers import (
            new_directory,
        )  # not needed for the first paint, both
        from fx_explorer.client.session_files import copy_session, session_file

        directory, lock = new_directory()
        self._copies[directory] = lock
        copy = directory / COPY
        copy_session(session, session_file(copy))
        return copy

    def of(self, session: Path) -> Earlier | None:
        """Return what came before the capture that made ``session``."""
        return next(
            (
                earlier
                for capture, earlier in reversed(self._before)
                if capture.session_path == session
            ),
            None,
        )

    def forget(self, *captures: CaptureLike) -> None:
        """Forget what came before these captures."""
        self._retain(
            [(capture, earlier) for capture, earlier in self._before if capture not in captures]
        )

    def forget_others(self, shown: CaptureLike) -> None:
        """Forget what came before any other capture than the one that is on screen now."""
        self._retain([(capture, earlier) for capture, earlier in self._before if capture is shown])

    def _retain(self, before: list[tuple[CaptureLike, Earlier]]) -> None:
        """Remove the copies of all others."""
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
