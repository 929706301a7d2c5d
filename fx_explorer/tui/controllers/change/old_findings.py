"""Which of the user's files are other files by now than the ones that were captured: what is on screen
is old then, and says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from fx_explorer.analysis.facts import OF_FILES, Fact
from fx_explorer.analysis.words import file_name, listed
from fx_explorer.errors import FxExplorerError
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.captured_files import CapturedFiles, ChangedFile, user_texts
from fx_explorer.tui.beside import made_beside
from fx_explorer.tui.bindings import first_key
from fx_explorer.tui.commands import Keymap, by_id
from fx_explorer.tui.controllers.services import Services

LOOK_S = 1.0
"""Seconds between two looks at the files."""


class OldFindings:
    """Looks at the files of the session on screen, beside the screen."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self.changed: tuple[ChangedFile, ...] = ()
        """The files that have another text now."""
        self._files = CapturedFiles({})
        self._of: tuple[Path, int] | None = None
        """The session that the files are of, and its version."""
        self._is_looking = False

    @property
    def paths(self) -> list[Path]:
        """Return the user's files that were captured."""
        return [Path(path) for path in self._files.texts]

    def begin_to_look(self) -> None:
        """Look, unless a look is under way, or the session is being written just now."""
        captures = self._services.captures
        is_written = captures.incoming is not None and captures.incoming is self._services.explorer.reader
        if not self._is_looking and not (is_written and not captures.waiting):
            self._services.begin(self.look(), "old", "old", "look whether files have changed", may_fail=True)

    async def look(self) -> None:
        """Look at the files now, and show what is old."""
        explorer = self._services.explorer
        reader = explorer.reader
        if reader is None:
            return
        self._is_looking = True
        try:
            await self._read(reader)
            changed = await asyncio.to_thread(self._files.changed)
        except FxExplorerError:
            return  # a session that cannot be read says so itself, wherever it is looked at
        finally:
            self._is_looking = False
        if reader is explorer.reader and changed != self.changed:
            self.changed = changed
            explorer.show_old(old_fact(changed, self._key()), self.words)
            self._services.look()

    async def _read(self, reader: SessionReader) -> None:
        """Read from the session what the files were. Those that a session of somebody else's names are
        not looked at: they may be anything on this machine.
        """
        now = (reader.path, reader.data_version())
        if now != self._of:
            is_own = self._services.captures.can_run or await asyncio.to_thread(self._is_own, reader.path)
            made = await made_beside(reader.path, user_texts) if is_own else None
            if made:
                made.reader.close()
            self._files = CapturedFiles(made.value if made else {})
            self._of = now

    def _is_own(self, session: Path) -> bool:
        from fx_explorer.client.trust import RUNS  # not needed for the first paint

        return self._services.consents.is_needless(session, RUNS)

    def _key(self) -> str:
        """Return the key that captures again; empty where there is no program to run."""
        captures = self._services.captures
        return key_that_captures(self._services.explorer.keymap, is_waiting=captures.is_running) if captures.can_run else ""

    @property
    def words(self) -> str:
        """Return ``old: model.py has changed since``; empty when nothing has."""
        return f"old: {old_in_words(self.changed)}" if self.changed else ""


def key_that_captures(keymap: Keymap, *, is_waiting: bool) -> str:
    """Return the key that captures again: while the compiler waits, ``r`` goes on instead."""
    return first_key(by_id("capture.watch" if is_waiting else "capture.again"), keymap)


def old_in_words(changed: Sequence[ChangedFile]) -> str:
    """Return ``model.py has changed since``."""
    names = listed(file_name(one.path) for one in changed)
    return f"{names} {'has' if len(changed) == 1 else 'have'} changed since"


def old_fact(changed: Sequence[ChangedFile], key: str) -> Fact | None:
    """Return the fact that what is on screen is old; None when it is not."""
    if not changed:
        return None
    first = changed[0]
    text = f"What is shown here is old: {old_in_words(changed)} it was captured, first in line {first.line}."
    told = f"{key} captures again, and says what came of it." if key else "Capture the program again to see it as it is now."
    return Fact("since", "notice", text, told, difference=OF_FILES)
