"""This module has a widget for a row of text, which is painted again only when it was refreshed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.segment import Segment
from textual.content import Content
from textual.geometry import Region, Size
from textual.reactive import Reactive
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from typing_extensions import Self  # in typing since Python 3.11


class Cached(Widget):
    """Keeps a widget's painted strips until it is refreshed. Inherit from it before a container.

    Textual asks every widget for its strips in each frame, whatever changed. Its own cache knows
    the lines, but first asks the widget and everything around it for their colours and sizes: 0.1
    ms per widget, and a frame with a moved cursor has ten.
    """

    auto_links = Reactive(False)
    """Off, because Textual would look up each widget's style of links, and there are none."""
    _kept: tuple[Region, Size, list[Strip]] | None = None
    """The part of the widget that was painted, the widget's size then, and the strips."""

    def render_lines(self, crop: Region) -> list[Strip]:
        if self._kept is None or self._kept[:2] != (crop, self.outer_size):
            self._kept = crop, self.outer_size, self.paint_lines(crop)
        return self._kept[2]

    def paint_lines(self, crop: Region) -> list[Strip]:
        """Return the strips of this part of the widget."""
        return super().render_lines(crop)

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        self._kept = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        self._kept = None
        super().notify_style_update()


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
        """Paint the row as Textual would, in a third of the time, for a plain row: no border, no
        wrapping or alignment. At each key, up to seven rows are painted.
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
