"""This module has the menus: a leader key opens a menu at the bottom with the keys that may follow
it, and the effect of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.style import Style
from textual.widget import Widget

from fx_explorer.tui.commands import AppCommand, Menu, key_label
from fx_explorer.tui.dialogs.dialog import Dialog
from fx_explorer.tui.keys import closing_bindings

GAP = 3
"""Cells between two columns."""

WhyNot = Callable[[str], str]
"""Id of a command → why it is unavailable now; empty if it is available."""


class MenuScreen(Dialog[None]):
    """Shows a menu until one of its keys is pressed. Escape leaves it."""

    DEFAULT_CSS = """
    MenuScreen { align: center bottom; background: $background 0%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = closing_bindings()

    class Chosen(Message):
        """Posted when a command was chosen. The app carries it out; keys typed after it wait for
        that.
        """

        def __init__(self, menu: MenuScreen, command: AppCommand) -> None:
            super().__init__()
            self.menu = menu
            self.command = command

    def __init__(self, menu: Menu, why_not: WhyNot) -> None:
        super().__init__()
        self._table = MenuTable(menu, why_not)
        self._is_done = False

    def compose(self) -> ComposeResult:
        yield self._table

    def on_key(self, event: events.Key) -> None:
        if self._is_done or event.key == "escape":
            return  # what is typed behind the choice is for what it opens
        event.stop()
        event.prevent_default()
        entry = self._table.menu.entry(event.key) or self._table.menu.entry(event.character or "")
        if entry is None:
            self.app.bell()
        else:
            self.take(entry)

    def take(self, entry: AppCommand | Menu) -> None:
        """Open a menu below this one, or run a command."""
        if isinstance(entry, Menu):
            self._table.show(entry)
        elif not self._is_done:
            self._is_done = True
            self.app.post_message(self.Chosen(self, entry))

    def on_click(self, event: events.Click) -> None:
        key = event.style.meta.get("menu_key")
        entry = self._table.menu.entry(key) if key else None
        if entry is not None:
            self.take(entry)
        elif event.widget is self:
            self.action_leave()

    def action_leave(self) -> None:
        self.dismiss(None)


class MenuTable(Widget):
    """Keys and words in columns, as many as fit, under the title of the menu."""

    DEFAULT_CSS = """
    MenuTable { height: auto; width: 1fr; background: $panel; border: round $border; padding: 0 1; }
    """

    def __init__(self, menu: Menu, why_not: WhyNot) -> None:
        super().__init__()
        self.menu = menu
        self._why_not = why_not
        self._words: list[tuple[str, str, bool]] = []
        """(key, label, whether it does something now) of each entry. It is computed once, because a
        menu is drawn twice for each frame.
        """
        self.show(menu)

    def show(self, menu: Menu) -> None:
        self.menu = menu
        self._words = [(key, *self._about(entry)) for key, entry in menu.entries.items()]
        self.border_title = f"{' '.join(map(key_label, menu.keys))}  {menu.title}"
        self.border_subtitle = "esc leaves"
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows(width))

    def render(self) -> Content:
        return Content("\n").join(self._rows(self.size.width))

    def _rows(self, width: int) -> list[Content]:
        most_rows = max(1, self.app.size.height - 3)
        return menu_rows(self._words, width, most_rows)

    def _about(self, entry: AppCommand | Menu) -> tuple[str, bool]:
        """Return the title of an entry, and whether it is available now."""
        if isinstance(entry, Menu):
            return f"{entry.title} …", True
        return entry.title, not self._why_not(entry.id)


def menu_rows(
    entries: Sequence[tuple[str, str, bool]], width: int, most_rows: int
) -> list[Content]:
    """Return ``entries`` (key, words, whether it is available) in columns of one width, read
    downwards. Words are shortened if the terminal is too small.
    """
    keys = max((cell_len(key_label(key)) for key, _, _ in entries), default=1)
    widest = keys + 1 + max((cell_len(words) for _, words, _ in entries), default=1)
    columns = max(1, min(len(entries), (width + GAP) // (widest + GAP)))
    columns = max(columns, -(-len(entries) // most_rows))
    per_column = -(-len(entries) // columns) if entries else 0
    # Where words must be shortened, they get the room between the columns as well.
    gap = GAP if columns * (widest + GAP) - GAP <= width else 1
    cells = max(keys + 2, min(widest, (width + gap) // columns - gap))
    rows = []
    for row in range(per_column):
        parts = [_entry(entries[at], keys, cells) for at in range(row, len(entries), per_column)]
        rows.append(Content(" " * gap).join(parts))
    return rows


def _entry(entry: tuple[str, str, bool], keys: int, cells: int) -> Content:
    key, words, does_something = entry
    label, room = key_label(key), cells - keys - 1
    if cell_len(words) <= room:
        shown = words
    else:
        shown = set_cell_size(words, max(0, room - 1)) + "…"
    padded = " " * (keys - cell_len(label)) + label
    if does_something:
        style, key_style = "", "bold $text-accent"
    else:
        style = key_style = "$text-disabled"
    title = Content.styled(f" {set_cell_size(shown, max(0, room))}", style)
    content = Content.styled(padded, key_style) + title
    return content.stylize(Style.from_meta({"menu_key": key}))
