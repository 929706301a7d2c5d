"""One row of text. An optional part at the right edge is never cut."""

from __future__ import annotations

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip

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

    def paint_lines(self, crop: Region) -> list[Strip]:
        """Paint the row as Textual would, in a third of the time, where the row is all there is:
        no border, and nothing to wrap or to align. At each key, up to seven rows are painted.
        """
        width, height = self.outer_size
        if height != 1:
            return super().paint_lines(crop)
        base, padding = self.visual_style, self.styles.padding
        space = base.background_style.rich_style
        pieces = self.render().render(base, end="", parse_style=self.app.stylesheet.parse_style)
        segments = [Segment(" " * padding.left, space)] if padding.left else []
        segments += [Segment(text, (base + style).rich_style) for text, style in pieces]
        strip = Strip(segments).adjust_cell_length(width, space)
        for line_filter in self.get_line_filters():
            strip = strip.apply_filter(line_filter, base.background or self.background_colors[1])
        return [strip.crop(crop.x, crop.right)]


def fitted(left: Content, right: Content, width: int) -> Content:
    """Return ``left`` and ``right`` at the two ends of a row of ``width`` cells."""
    if not right:
        return left.truncate(width, ellipsis=True)
    right = right.truncate(width, ellipsis=True)
    room = max(0, width - right.cell_length - GAP)
    left = left.truncate(room, ellipsis=True)
    return left + Content(" " * max(0, width - left.cell_length - right.cell_length)) + right
