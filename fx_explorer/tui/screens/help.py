"""Help for what has the focus: what it shows, and every key that works in it, as the user has
mapped them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Label

from fx_explorer.tui.commands import COMMANDS, GROUPS, OF_VIEW, Keymap, by_id
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.help_topics import Topic
from fx_explorer.tui.keys import closing_bindings, first_key, keys_text
from fx_explorer.tui.widgets.row_list import GAP, ListColumn, Row, RowList, Rows
from fx_explorer.tui.widgets.text_layout import wrapped

KEYS_CELLS = 18


class Help(Dialog[None]):
    """Shows the topic's words, then the table of keys."""

    DEFAULT_CSS = """
    Help { align: center middle; }
    Help > Vertical { width: 94%; max-width: 120; height: 90%; background: $surface; border: round $border; padding: 0 1; }
    Help Label { width: 1fr; padding: 0 1 1 1; }
    Help RowList { height: 1fr; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = closing_bindings("app.help", "app.quit")

    def __init__(self, topic: Topic, keymap: Keymap, without: Collection[str] = ()) -> None:
        """``without``: commands that the session cannot carry out."""
        super().__init__()
        self._topic = topic
        self._without = without
        self._keymap = keymap
        columns = (
            ListColumn("", "label", min_width=KEYS_CELLS, max_width=KEYS_CELLS),
            ListColumn("", "text", max_width=200),
        )
        self._list = RowList(columns, header=False)

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = f"Help · {self._topic.title}"
            box.border_subtitle = "esc closes"
            yield Label(self._topic.text_without(self._without), markup=False)
            yield self._list

    def on_mount(self) -> None:
        self._list.focus()
        self.call_after_refresh(self._fill)

    def on_resize(self) -> None:
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        """Write the rows, as wide as there is room."""
        width = max(20, self._list.body_width - KEYS_CELLS - GAP)
        self._list.load(Rows(help_rows(self._topic, self._keymap, width, self._without)))

    def action_leave(self) -> None:
        self.dismiss(None)


def _rows_of_view(topic: Topic, keymap: Keymap, width: int, without: Collection[str]) -> list[Row]:
    """Return the commands that matter most here, as the footer has them."""
    rows: list[Row] = []
    for command_id, word in OF_VIEW.get(topic.title, ()):
        if command_id in without:
            continue
        command = by_id(command_id)
        first, *rest = wrapped(f"{word}: {command.help}", width)
        rows += [(first_key(command, keymap), first), *(("", row) for row in rest)]
    return [(("Here", "strong"), ""), *rows] if rows else []


def help_rows(topic: Topic, keymap: Keymap, width: int, without: Collection[str] = ()) -> list[Row]:
    """Return the groups of commands, the most useful first. Sentences are wrapped to ``width``
    cells.
    """
    rows = _rows_of_view(topic, keymap, width, without)
    for group in sorted(GROUPS, key=lambda group: group != topic.first):
        rows += [*([("", "")] if rows else []), ((group, "strong"), "")]
        for command in COMMANDS:
            if command.group == group:
                first, *rest = wrapped(command.help, width)
                rows += [(keys_text(command, keymap), first), *(("", row) for row in rest)]
    rows += [("", ""), ("", ("Any key can be changed: fx-explorer keys --help says how.", "muted"))]
    return rows
