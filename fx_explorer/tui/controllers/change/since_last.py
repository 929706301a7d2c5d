"""What changed since the last capture: a card on the overview, and the differences that its lines lead
to. Both are made beside the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fx_explorer.analysis.facts import OF_FILES, Fact
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.captured_files import ChangedFile
from fx_explorer.source_edit.on_disk import read
from fx_explorer.tui.beside import made_beside
from fx_explorer.tui.capturing import Earlier
from fx_explorer.tui.controllers.change.old_findings import OldFindings
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.conversation import ask, conversation

if TYPE_CHECKING:
    from fx_explorer.analysis.since_last.differences import Difference

NOTHING_BEFORE = "There is no capture before this one to compare it with: r captures again."


class SinceLast:
    """Makes the card when a capture is there, and opens the differences."""

    def __init__(self, services: Services, old: OldFindings) -> None:
        self._services = services
        self._old = old
        self.app = services.app
        self._made_of: tuple[object, ...] = ()
        """What the card on screen was made of."""

    def look(self) -> None:
        """Make the card anew where the session on screen is another one, or has come further."""
        captures, reader = self._services.captures, self._services.explorer.reader
        if reader is None:
            return
        earlier = captures.earlier_of(reader.path)
        is_live = captures.live is not None and reader.path == captures.live.session_path
        is_through = is_live and captures.is_through
        has_ended = earlier is not None and reader.meta("outcome") is not None
        now = (reader.path, earlier, is_through, has_ended)
        if now == self._made_of:
            return
        self._made_of = now
        if earlier is None or not (is_through or has_ended):
            self._services.explorer.show_change(())
        else:
            work = partial(self._make, reader, earlier, is_through=is_through)
            self._services.begin(work, "since", "since", "compare this capture with the last one", exclusive=True)

    async def _make(self, reader: SessionReader, earlier: Earlier, *, is_through: bool) -> None:
        explorer = self._services.explorer
        with explorer.explained():
            made = await made_beside(reader.path, partial(_card, earlier, is_through))
            made.reader.close()
            if reader is explorer.reader:
                explorer.show_change(made.value)

    @conversation("differences", "show what changed since the last capture")
    async def show(self, aspect: str = "") -> None:
        """Show the differences, those of one line of the card first."""
        from fx_explorer.tui.screens.changes import ChangesScreen  # not needed for the first paint

        explorer = self._services.explorer
        if explorer.reader is None:
            return
        session, earlier = explorer.reader.path, self._services.captures.earlier_of(explorer.reader.path)
        if aspect == OF_FILES:
            heading = "Your files: as they were captured, and as they are now"
            rows = [_of_file(one) for one in self._old.changed]
            await ask(self.app, ChangesScreen(heading, session, session, rows, aspect, explorer.keymap))
        elif earlier is None:
            self._services.notify(NOTHING_BEFORE)
        else:
            made = await made_beside(session, partial(_differences, earlier.session))
            made.reader.close()
            heading = "Since the last capture: before, and now"
            await ask(self.app, ChangesScreen(heading, earlier.session, session, made.value, aspect, explorer.keymap))


def _card(earlier: Earlier, is_through: bool, reader: SessionReader) -> Sequence[Fact]:
    from fx_explorer.analysis.since_last.card import since  # not needed for the first paint

    with SessionReader(earlier.session) as before:
        return since(before, reader, was_through=earlier.is_through, is_through=is_through)


def _differences(earlier: Path, reader: SessionReader) -> Sequence[Difference]:
    from fx_explorer.analysis.since_last.differences import differences

    with SessionReader(earlier) as before:
        return differences(before, reader)


def _of_file(one: ChangedFile) -> Difference:
    from fx_explorer.analysis.since_last.card import ChangedSource
    from fx_explorer.analysis.since_last.differences import of_source

    return of_source(ChangedSource(one.path, one.captured, read(one.path).text))
