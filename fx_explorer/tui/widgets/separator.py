"""A line across the screen between two widgets."""

from __future__ import annotations

from textual.content import Content

from fx_explorer.tui.widgets.cached import Cached


class Separator(Cached):
    """Draws the line in a row of its own.

    A widget with a border is painted by Textual's cache of styles, at each change: an inspector
    with one cost 0.5 ms per key.
    """

    DEFAULT_CSS = """
    Separator { height: 1; width: 1fr; background: $surface; color: $border; }
    """

    def render(self) -> Content:
        return Content("─" * self.size.width)
