"""The frame of a dialog has its title in the border; where the border is too narrow for it, the
title stands inside, in as many rows as it needs.
"""

from __future__ import annotations

from rich.cells import cell_len
from textual import events
from textual.containers import Vertical
from textual.widgets import Label

from fx_explorer.highlight import printable

CORNERS = 6
"""Cells of a border that its title cannot have: the corners, a line beside each, and a blank."""


class TitledBox(Vertical):
    """Holds the contents of a dialog, with its title in the border or above them."""

    DEFAULT_CSS = """
    TitledBox > .box-title { height: auto; width: 1fr; text-style: bold; display: none; }
    TitledBox.-long > .box-title { display: block; }
    """

    def __init__(self, title: str = "") -> None:
        self._long = Label("", markup=False, classes="box-title")
        super().__init__(self._long)
        self._title = title

    def show_title(self, title: str) -> None:
        """Show another title."""
        self._title = title
        self._place_title()

    def on_mount(self) -> None:
        self._place_title()

    def on_resize(self, event: events.Resize) -> None:
        self._place_title()

    def _place_title(self) -> None:
        title = printable(self._title)
        room = self.outer_size.width - CORNERS
        is_long = 0 < room < cell_len(title)
        self.set_class(is_long, "-long")
        if is_long:
            self._long.update(title)
            self.border_title = ""
        else:
            self.border_title = title
