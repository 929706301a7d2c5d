"""This module turns changes on screen into bytes for the terminal: the same cells as Textual's, but
faster.

Where four panes turn a page, Textual asks every widget on screen for its strips, cuts each of them
where other widgets begin or end, and makes three objects for each of some 300 pieces, to say where
the terminal's cursor goes. Which widget is in front where depends on the layout alone, so it is
worked out once for each layout, and only widgets that show a changed cell are painted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import NamedTuple

from rich.console import Console
from textual._compositor import Compositor, CompositorUpdate
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

Placed = dict[Widget, tuple[Region, Region]]
"""Widgets from the front to the back, each with its place on the screen and the part that may be
seen.
"""


class Stretch(NamedTuple):
    """Adjacent cells of one row that show the same widget."""

    left: int
    right: int
    widget: Widget


class FrameCompositor(Compositor):
    """Textual's compositor, for a screen on which much changes at each key."""

    def __init__(self) -> None:
        super().__init__()
        self._in_front: tuple[Placed, list[list[Stretch]]] = ({}, [])
        """The placement of all widgets, and for each row its stretches from left to right."""

    # Textual only asks the answer for its text, and whether it is a CompositorUpdate.
    def render_partial_update(self) -> ChangedCells | None:  # type: ignore[override]
        changed, self._dirty_regions = self._dirty_regions, set()
        if not changed:
            return None
        placed = self.visible_widgets
        if self._in_front[0] is not placed:
            self._in_front = placed, _stretches(placed, self.size.height)
        return ChangedCells(list(_pieces(self._regions_to_spans(changed), *self._in_front)))


def _pieces(
    spans: Iterable[tuple[int, int, int]], placed: Placed, rows: list[list[Stretch]]
) -> Iterator[StripPiece]:
    """Yield what the front widgets show in these spans, each given as row, left and right."""
    painted: dict[Widget, tuple[Region, list[Strip]]] = {}
    for row, left, right in spans:
        for first, end, widget in rows[row]:
            if end <= left or right <= first:
                continue
            if widget not in painted:
                painted[widget] = _painted(widget, *placed[widget])
            part, strips = painted[widget]
            start, stop = max(left, first), min(right, end)
            yield StripPiece(row, start, strips[row - part.y].crop(start - part.x, stop - part.x))


def _stretches(placed: Placed, height: int) -> list[list[Stretch]]:
    """Return the stretches of each row of the screen, from left to right."""
    # Textual's own ``cuts`` may be those of the layout before.
    parts = [(widget, region.intersection(clip)) for widget, (region, clip) in placed.items()]
    edges: list[set[int]] = [set() for _ in range(height)]
    for _, part in parts:
        for row in part.line_range:
            edges[row] |= {part.x, part.right}
    in_front: list[dict[int, Widget]] = [{} for _ in range(height)]
    for widget, part in parts:
        for row in part.line_range:
            for edge in edges[row]:
                if part.x <= edge < part.right:
                    in_front[row].setdefault(edge, widget)
    return [
        _joined(sorted(of_row), widgets) for of_row, widgets in zip(edges, in_front, strict=True)
    ]


def _joined(edges: list[int], in_front: dict[int, Widget]) -> list[Stretch]:
    """Return the stretches of a row. ``in_front`` has the widget that begins or continues at an
    edge.
    """
    stretches = []
    for widget, cells in groupby(pairwise(edges), key=lambda cell: in_front.get(cell[0])):
        (left, right), *others = cells
        if others:
            right = others[-1][1]
        if widget is not None:
            stretches.append(Stretch(left, right, widget))
    return stretches


def _painted(widget: Widget, region: Region, clip: Region) -> tuple[Region, list[Strip]]:
    """Return the part of a widget that may be seen, in cells of the screen, and its strips."""
    part = region.intersection(clip)
    return part, widget.render_lines(part.translate(-region.offset))


class StripPiece(NamedTuple):
    """A strip, and the cell of the screen where it begins."""

    row: int
    column: int
    strip: Strip


class ChangedCells(CompositorUpdate):
    """Pieces of rows that changed, from left to right in each row."""

    def __init__(self, pieces: list[StripPiece]) -> None:
        self._pieces = pieces

    def render_segments(self, console: Console) -> str:
        return "".join(
            [
                f"\x1b[{row + 1};{column + 1}H{strip.render(console)}"
                for row, column, strip in self._pieces
            ]
        )
