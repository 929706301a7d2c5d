"""Narrows the guards to those with the words that the user types, at each key."""

from __future__ import annotations

import functools

from textual.widgets import Input

from fx_explorer.session import SessionReader
from fx_explorer.tui.dialogs.ask import Ask
from fx_explorer.tui.panes.table_pane import TablePane
from fx_explorer.tui.views.guards import guards_table


class GuardFilter(Ask):
    """One line at the bottom, below the list it narrows. Enter keeps the narrowed list, escape
    shows all guards again.
    """

    DEFAULT_CSS = """
    GuardFilter { align: center bottom; background: $background 0%; }
    """

    def __init__(self, pane: TablePane, reader: SessionReader) -> None:
        super().__init__("Only checks with these words: a name, a kind, inputs, model.py:31", pane.narrowed_to, verb="keeps")
        self._pane = pane
        self._reader = reader

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._narrow(event.value.strip())

    def action_leave(self) -> None:
        self._narrow("")
        super().action_leave()

    def _narrow(self, words: str) -> None:
        if words != self._pane.narrowed_to:
            self._pane.narrow(words, functools.partial(guards_table, search=words), self._reader)
