"""One row of text. An optional part at the right edge is never cut."""

from __future__ import annotations

from textual.content import Content

from fx_explorer.tui.widgets.cached import Cached

GAP = 2


class OneLine(Cached):
    """Shows a row: ``left`` is cut with an ellipsis where ``right`` needs the room."""

    DEFAULT_CSS = """
    OneLine { height: 1; width: 1fr; padding: 0 1; }
    """

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._left = Content("")
        self._right = Content("")

    @property
    def text(self) -> str:
        """Return the text of the row, for tests and for copying."""
        return f"{self._left.plain}  {self._right.plain}".rstrip()

    def show(self, left: Content, right: Content | None = None) -> None:
        right = right or Content("")
        if left.is_same(self._left) and right.is_same(self._right):
            return
        self._left, self._right = left, right
        self.refresh()

    def render(self) -> Content:
        return fitted(self._left, self._right, self.size.width)


def fitted(left: Content, right: Content, width: int) -> Content:
    """Return ``left`` and ``right`` at the two ends of a row of ``width`` cells."""
    if not right:
        return left.truncate(width, ellipsis=True)
    right = right.truncate(width, ellipsis=True)
    room = max(0, width - right.cell_length - GAP)
    left = left.truncate(room, ellipsis=True)
    return left + Content(" " * max(0, width - left.cell_length - right.cell_length)) + right
