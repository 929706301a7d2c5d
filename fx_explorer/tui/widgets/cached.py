"""A widget that is painted again only when it was refreshed."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """Off, because Textual would ask each widget how a link looks, and there are none."""
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
