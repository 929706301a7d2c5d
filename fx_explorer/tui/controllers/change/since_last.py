"""What changed since the last capture: a card on the overview, and the differences that its lines lead
to. Both are made beside the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from fx_explorer.analysis.facts import OF_FILES, Fact
from fx_explorer.session import SessionReader
from fx_explorer.source_edit.captured_files import ChangedFile
from fx_explorer.source_edit.on_disk import read
from fx_explorer.tui.commands import by_id
from fx_explorer.tui.controllers.change.old_findings import OldFindings
from fx_explorer.tui.controllers.services import Services
from fx_explorer.tui.earlier.sessions import Earlier
from fx_explorer.tui.failures.unreadable import explained
from fx_explorer.tui.keys.bindings import first_key
from fx_explorer.tui.tasks.beside import read_beside
from fx_explorer.tui.tasks.conversation import ask, conversation
from fx_explorer.tui.views.reads import OVERVIEW_READS

if TYPE_CHECKING:
    from fx_explorer.analysis.since_last.differences import Differences

NOTHING_BEFORE = "There is no capture before this one to compare it with: {key} captures again."
COMPARING = "Comparing this capture with the last one …"
SAVED = "This is a saved session: there is no capture before it. fx-explorer diff compares two sessions."


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
        earlier = captures.earlier_of(reader.path) if reader else None
        if reader is None or earlier is None:
            return
        is_through = self._is_through(reader)
        has_ended = reader.meta("outcome") is not None
        now = (reader, earlier, is_through, has_ended)
        if now != self._made_of and (is_through or has_ended):
            self._made_of = now
            work = partial(self._make, reader, earlier, is_through=is_through)
            self._services.begin(
                work, "since", "since", "compare this capture with the last one", exclusive=True
            )

    def _is_through(self, reader: SessionReader) -> bool:
        """Return whether Dynamo has seen the whole program of the session on screen."""
        live = self._services.captures.live
        return live is not None and reader.path == live.session_path and live.is_through

    async def _make(self, reader: SessionReader, earlier: Earlier, *, is_through: bool) -> None:
        explorer = self._services.explorer
        with explained(explorer):
            card = await read_beside(reader.path, partial(_card, earlier, is_through))
            if reader is explorer.reader:
                explorer.show_of_app("since", card)

    @conversation("differences", "show what changed since the last capture")
    async def show(self, aspect: str = "") -> None:
        """Show the differences, those of one line of the card first."""
        reader = self._services.explorer.reader
        earlier = self._services.captures.earlier_of(reader.path) if reader else None
        if reader is None or (earlier is None and aspect != OF_FILES):
            self._services.notify(self._nothing_before())
            return
        if aspect == OF_FILES:
            heading, before = "Your files: as they were captured, and as they are now", reader.path
            found = await read_beside(reader.path, partial(_of_files, self._old.old.changed))
        else:
            assert earlier is not None
            heading, before = "Since the last capture: before, and now", earlier.session
            if OVERVIEW_READS.takes_long(reader):
                self._services.notify(COMPARING)
            found = await read_beside(
                reader.path, partial(_differences, earlier, self._is_through(reader))
            )
        from fx_explorer.tui.screens.changes import ChangesScreen  # not needed for the first paint

        await ask(
            self.app,
            ChangesScreen(
                heading, before, reader.path, found, aspect, self._services.explorer.keymap
            ),
        )

    def _nothing_before(self) -> str:
        again = first_key(by_id("capture.again"), self._services.explorer.keymap)
        return NOTHING_BEFORE.format(key=again) if self._services.captures.can_run else SAVED


def _card(earlier: Earlier, is_through: bool, reader: SessionReader) -> Sequence[Fact]:
    from fx_explorer.analysis.since_last.card import since  # not needed for the first paint

    with SessionReader(earlier.session) as before:
        return since(before, reader, was_through=earlier.is_through, is_through=is_through)


def _differences(earlier: Earlier, is_through: bool, reader: SessionReader) -> Differences:
    from fx_explorer.analysis.since_last.card import extent_of, extent_of_both
    from fx_explorer.analysis.since_last.differences import differences

    with SessionReader(earlier.session) as before:
        then, now = (
            extent_of(before, is_through=earlier.is_through),
            extent_of(reader, is_through=is_through),
        )
        return differences(before, reader, extent_of_both(then, now))


def _of_files(changed: Sequence[ChangedFile], _: SessionReader) -> Differences:
    """Return the user's files, as they were captured beside as they are now."""
    from fx_explorer.analysis.since_last.changes import ChangedSource
    from fx_explorer.analysis.since_last.differences import Differences, source_row

    return Differences(
        tuple(
            source_row(ChangedSource(one.file.path, one.file.text, read(one.file.path).text))
            for one in changed
        ),
        (),
    )
