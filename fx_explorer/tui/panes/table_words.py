"""The words above a table, in two lines; in a short terminal, in one."""

from __future__ import annotations

from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from fx_explorer.drawing import view_table as views
from fx_explorer.highlight import printable

SHORT_ROWS = 30
"""A terminal with as many rows or fewer shows one line of heading: what is worth noticing."""


class TableNotes(Widget):
    """Shows what the rows of a view mean, where they came from, and what is worth noticing."""

    def __init__(self) -> None:
        super().__init__()
        self._content = self._short = Content("")

    def show(self, table: views.ViewTable, old: str) -> None:
        """``old`` says that the rows are; empty when they are not."""
        origin = Content.styled(f"  From {table.origin}.", "$foreground 60%")
        notice = Content.styled(printable(table.notice), "$text-secondary")
        if old:
            notice = Content.styled(printable(f"▲ {old}."), "$text-warning") + Content(" ") + notice
        self._content = Content("\n").join(
            [Content(table.shows) + origin, *([notice] if notice.plain else [])]
        )
        self._short = notice if notice.plain else Content(table.shows)
        self.refresh(layout=True)

    def render(self) -> Content:
        if self._is_short:
            return self._short.truncate(self.size.width, ellipsis=True)
        return self._content

    @property
    def _is_short(self) -> bool:
        """Return whether the terminal has room for one line of heading only."""
        return self.app.size.height <= SHORT_ROWS

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return 1 if self._is_short else super().get_content_height(container, viewport, width)
