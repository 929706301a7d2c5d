"""The facts of the overview: those of the session, read beside the screen, and those that only the app knows."""

from __future__ import annotations

from collections.abc import Callable

from fx_explorer.analysis.facts import Fact
from fx_explorer.analysis.overview.overview import overview
from fx_explorer.session import SessionReader
from fx_explorer.tui.commands import Keymap
from fx_explorer.tui.panes.overview import FactList
from fx_explorer.tui.status.live import Waiting
from fx_explorer.tui.status.waiting_fact import waiting_fact
from fx_explorer.tui.tasks.beside import Beside, Renewed
from fx_explorer.tui.views.reads import OVERVIEW_READS, READING, UNREADABLE


class OverviewFacts:
    """Keeps the overview up to date."""

    def __init__(self, shown: FactList, keymap: Keymap, shows_others: Callable[[], None]) -> None:
        """``shows_others`` is called when other facts are shown."""
        self._shown = shown
        self._keymap = keymap
        self._shows_others = shows_others
        self._read: Renewed[list[Fact]] = Renewed(
            Beside(shown, "overview", "read the overview"), self._show, self._cannot_read
        )
        self.waiting: Waiting | None = None
        """Where the compiler waits for the user, which is a fact too."""

    def forget(self) -> None:
        """Drop what is said of a session, which is about to be closed."""
        self._read.forget()
        self._shown.forget_of_app()

    def renew(self, reader: SessionReader) -> None:
        """Say what is known of the session by now."""
        waiting, keymap = self.waiting, self._keymap

        def facts(of: SessionReader) -> list[Fact]:
            return overview(of, waiting_fact(of, waiting, keymap))

        takes_long = OVERVIEW_READS.takes_long(reader)
        if not self._read.renew(reader, facts, takes_long=takes_long, given=waiting):
            self._shown.say_what_is_done(READING.format(what=OVERVIEW_READS.words(reader)))

    def _show(self, facts: list[Fact]) -> None:
        self._shown.show(facts)
        self._shows_others()

    def _cannot_read(self) -> None:
        self._shown.say_what_is_done(UNREADABLE)
