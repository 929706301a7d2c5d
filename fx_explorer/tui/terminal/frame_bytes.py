"""Turns what changed on screen into what the terminal is sent: the same bytes as Textual's, sooner.

Where four panes turn a page, some 200 pieces of rows change. Textual makes three objects for each,
to say where the terminal's cursor goes, and paints every container below the panes as well, of
which nothing is seen. Together that was an eighth of all that such a key costs.
"""

from __future__ import annotations

from rich.console import Console
from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.widget import Widget

Placed = dict[Widget, tuple[Region, Region]]
"""Widgets from the front to the back, each with its place on the screen and the part that may be
seen.
"""


class FrameCompositor(Compositor):
    """Textual's compositor, for a screen on which much changes at each key."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: tuple[Placed, Placed] = ({}, {})
        """What is placed, and what is seen of it. Worked out once for each layout."""

    def render_partial_update(self) -> ChopsUpdate | None:
        placed = self.visible_widgets
        if self._seen[0] is not placed:
            self._seen = placed, self._not_covered(placed)
        self._visible_widgets = seen = self._seen[1]
        try:
            update = super().render_partial_update()
        finally:
            if self._visible_widgets is seen:  # nothing was laid out meanwhile
                self._visible_widgets = placed
        return update and ChangedRows(update.chops, update.spans, update.chop_ends)

    def _not_covered(self, placed: Placed) -> Placed:
        """Leave out widgets of which nothing is seen: what is in front of them covers them."""
        taken: list[set[int]] = [set() for _ in self.cuts]
        seen = {}
        for widget, (region, clip) in placed.items():
            part = region.intersection(clip)
            for row in part.line_range:
                mine = {cut for cut in self.cuts[row] if part.x <= cut < part.right} - taken[row]
                if mine:
                    taken[row] |= mine
                    seen[widget] = region, clip
        return seen


class ChangedRows(ChopsUpdate):
    """Pieces of rows that changed, of each row from left to right."""

    def render_segments(self, console: Console) -> str:
        sent: list[str] = []
        last_row = self.spans[-1][0]
        for row, left, right in self.spans:
            for end, (start, strip) in zip(self.chop_ends[row], self.chops[row].items(), strict=False):
                if strip is None or start > right or end <= left:
                    continue
                if not (left <= start < right and end <= right):
                    strip = strip.crop(0, min(end, right) - start)
                sent.append(f"\x1b[{row + 1};{start + 1}H{strip.render(console)}")
            if row != last_row:
                sent.append("\n")
        return "".join(sent)
