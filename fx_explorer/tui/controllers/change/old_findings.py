"""Which of the user's files are other files by now than the ones that were captured: what is on screen
is old then, and says so.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from fx_explorer.errors import FxExplorerError
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.captured_files import FilesNow, captured_files
from fx_explorer.tui.commands import by_id
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.keys.bindings import first_key
from fx_explorer.tui.status.old_files import OldFiles
from fx_explorer.tui.tasks.beside import read_beside

LOOK_S = 1.0
"""Seconds between two looks at the files."""

CAPTURES_AGAIN = "{key} captures again, and says what came of it."
IS_CAPTURED = "It is being captured again just now."
NOTHING_TO_RUN = "Capture the program again to see it as it is now."


class OldFindings:
    """Looks at the files of the session on screen, beside the screen."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.old = OldFiles()
        self._files = FilesNow(())
        self._read: tuple[SessionReader, int] | None = None
        """The session that the files are of, and its version."""
        self._shown: tuple[SessionReader, OldFiles, str] | None = None
        """What the screen says."""
        self._is_looking = False

    @property
    def paths(self) -> list[Path]:
        """Return the user's files that were captured."""
        return [Path(file.path) for file in self._files.files]

    def begin_to_look(self) -> None:
        """Look, unless a look is under way, or the session is being written just now."""
        captures = self._services.captures
        is_written = (
            captures.incoming is not None and captures.incoming is self._services.explorer.reader
        )
        if not self._is_looking and (captures.waiting or not is_written):
            self._services.begin(
                self.look, "old", "old", "look whether files have changed", may_fail=True
            )

    async def look(self) -> None:
        """Look at the files now, and show what is old."""
        reader = self._services.explorer.reader
        if reader is None:
            return
        self._is_looking = True
        try:
            files = await self._files_of(reader)
            changed = await asyncio.to_thread(files.changed)
        except FxExplorerError:
            return  # a session that cannot be read says so itself, wherever it is looked at
        finally:
            self._is_looking = False
        if reader is self._services.explorer.reader:
            self._show(reader, OldFiles(changed))

    async def _files_of(self, reader: SessionReader) -> FilesNow:
        """Return what the files of a session were. Those that a session of somebody else's names are not
        looked at: they may be anything on this machine.
        """
        now = (reader, reader.data_version())
        if now != self._read:
            is_own = self._services.captures.can_run or await asyncio.to_thread(
                self._is_own, reader.path
            )
            files = FilesNow(await read_beside(reader.path, captured_files) if is_own else ())
            if files.files != self._files.files:
                self._files = files
            self._read = now
        return self._files

    def _is_own(self, session: Path) -> bool:
        from fx_explorer.client.trust import RUNS  # not needed for the first paint

        return self._services.consents.is_needless(session, RUNS)

    def _show(self, reader: SessionReader, old: OldFiles) -> None:
        now = (reader, old, self._remedy())
        if now != self._shown:
            self.old = old
            self._shown = now
            self._services.explorer.show_old(old, now[2])
            self._services.look()

    def _remedy(self) -> str:
        """Say what to do where something is old."""
        captures = self._services.captures
        if not captures.can_run:
            return NOTHING_TO_RUN
        if captures.is_running and not captures.waiting:
            return IS_CAPTURED
        # While the compiler pauses, the other key goes on.
        command = by_id("capture.watch" if captures.is_running else "capture.again")
        return CAPTURES_AGAIN.format(key=first_key(command, self._services.explorer.keymap))
