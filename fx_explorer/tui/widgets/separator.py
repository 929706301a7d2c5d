"""A line across the screen between two widgets."""

from __future__ import annotations

from textual.content import Content

from fx_explorer.tui.widgets.cached import Cached


class Separator(Cached):
    """Draws the line in a row of its own, so that the row below it has no border: Textual paints a
    border again at each change of the row.
    """

    DEFAULT_CSS = """
    Separator { height: 1; width: 1fr; background: $surface; color: $border; }
    """

    def render(self) -> Content:
        return Content("─" * self.size.width)
