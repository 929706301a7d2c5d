"""Narrows a table to the rows with the words that the user types, at each key."""

from __future__ import annotations

from textual.widgets import Input

from fx_explorer.tui.dialogs.ask import Ask
from fx_explorer.tui.panes.table_pane import TablePane


class TableFilter(Ask):
    """One line at the bottom, below the list it narrows. Enter keeps the narrowed list, escape
    shows all rows again.
    """

    DEFAULT_CSS = """
    TableFilter { align: center bottom; background: $background 0%; }
    """

    def __init__(self, pane: TablePane, words: str) -> None:
        super().__init__(words, pane.narrowed_to, verb="keeps")
        self._pane = pane

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self._pane.narrow(event.value.strip())

    def action_leave(self) -> None:
        self._pane.narrow("")
        super().action_leave()
