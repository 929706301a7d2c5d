"""This module draws a flame chart as a self-contained SVG: a block for each frame, with its details
when the mouse is over it.

Letters beside the blocks are of a grey that can be read on white and on black.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from rich.cells import cell_len, set_cell_size

from fx_explorer.analysis.flame import FlameFrame, short_name
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.highlight import printable

WIDTH, MARGIN, ROW, LINE = 1200, 10, 20, 16
"""Sizes in pixels: the width of the picture, its margin, the height of a row of blocks, and of a
line of letters.
"""

LETTER = 6.7
"""Pixels between letters in the requested fonts, at this size."""

LEAST_CUT = 4
"""Minimum number of letters in which the beginning of a name is shown."""

MANY, LEAST_PIXELS = 5_000, 0.05
"""In a chart of more than MANY frames, blocks narrower than LEAST_PIXELS are left out with all
their children: they would be invisible.
"""

TICKS = 8

INK = "#16181d"
"""Colour of the letters in a block."""

GREY = "#767676"
"""Colour with a contrast of 4.5 to 1 against white and 4.6 to 1 against black."""

STYLE = f"""
text {{ font: 11px "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: {INK}; pointer-events: none; }}
.beside {{ fill: {GREY}; }}
.title {{ font-weight: bold; }}
rect {{ stroke: {INK}; stroke-opacity: 0.4; stroke-width: 0.5; }}
g:hover rect {{ stroke-opacity: 1; stroke-width: 1.5; }}
"""

_NOT_IN_XML = re.compile("[\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class FlamePicture:
    """A flame chart to be drawn as SVG: frames, titles, colours and texts under the mouse."""

    root: FlameFrame
    titles: Sequence[str]
    """Sentences above the blocks."""
    about: Callable[[FlameFrame], list[str]]
    """The lines that the mouse shows of a frame."""
    colours: Mapping[str, str]
    """Kind of a frame → its colour; dark letters can be read on each."""
    legend: Mapping[str, str]
    """Kind → its label in the legend, for the kinds that the chart has."""


def flame_picture_svg(picture: FlamePicture) -> str:
    """Return the SVG text of a flame chart, which needs no other file."""
    sentences = " ".join(filter(None, picture.titles))
    titles = textwrap.wrap(sentences, int((WIDTH - 2 * MARGIN) / LETTER))
    chart = _Chart(picture, top=MARGIN + LINE * len(titles))
    legend = list(_legend(picture, chart.bottom + 3 * LINE))
    legend_rows = 1 + max((row for row, _ in legend), default=0)
    height = chart.bottom + 2 * LINE + MARGIN + LINE * legend_rows
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">',
        f"<style>{STYLE}</style>",
    ]
    for number, title in enumerate(titles):
        lines.append(_text(MARGIN, MARGIN + LINE * number + 7, title, "beside title"))
    lines += chart.blocks()
    lines += chart.axis()
    lines += [drawn for _, drawn in legend]
    lines.append("</svg>\n")
    return "\n".join(lines)


class _Chart:
    """Draws the blocks, and the axis of time below them."""

    def __init__(self, picture: FlamePicture, top: int) -> None:
        root = picture.root
        self._picture = picture
        self._root = root
        self._top = top
        if root.duration_s > 0:
            self._scale = (WIDTH - 2 * MARGIN) / root.duration_s
        else:
            self._scale = 0.0
        depths = [frame.depth for frame in root.frames()]
        self._least = LEAST_PIXELS if len(depths) > MANY else 0.0
        self.bottom = top + ROW * (1 + max(depths) - root.depth)

    def blocks(self) -> Iterator[str]:
        waiting = [self._root]
        while waiting:
            frame = waiting.pop()
            yield self._block(frame)
            inner = reversed(frame.children)
            waiting += [child for child in inner if self._width(child) >= self._least]

    def _block(self, frame: FlameFrame) -> str:
        left, width = self._x(frame.began_s), self._width(frame)
        top = self._top + ROW * (frame.depth - self._root.depth)
        name = _fitting(_safe(frame.name), int((width - 6) / LETTER))
        colour = self._picture.colours[frame.kind]
        drawn = (
            f"<title>{escape(_safe_lines(self._picture.about(frame)))}</title>"
            f'<rect x="{left:.2f}" y="{top}" width="{width:.2f}" height="{ROW}" fill="{colour}"/>'
        )
        if name:
            drawn += _text(left + 3, top + 14, name)
        return f"<g>{drawn}</g>"

    def axis(self) -> Iterator[str]:
        """Yield times, each below the place where it is in the chart."""
        for tick in range(TICKS + 1):
            time_s = self._root.duration_s * tick / TICKS
            left = MARGIN + time_s * self._scale
            anchor = "middle"
            if tick == 0:
                anchor = "start"
            elif tick == TICKS:
                anchor = "end"
            yield f'<path d="M{left:.2f} {self.bottom} v5" stroke="{GREY}"/>'
            yield _text(left, self.bottom + 17, run_time(time_s), "beside", anchor)

    def _x(self, time_s: float) -> float:
        return MARGIN + (time_s - self._root.began_s) * self._scale

    def _width(self, frame: FlameFrame) -> float:
        return frame.duration_s * self._scale


def _legend(picture: FlamePicture, top: int) -> Iterator[tuple[int, str]]:
    """Yield a coloured square and its words for each kind, with the row that it stands in."""
    row, left = 0, float(MARGIN)
    for kind, text in picture.legend.items():
        width = LINE + (len(text) + 2) * LETTER
        if left + width > WIDTH - MARGIN and left > MARGIN:
            row, left = row + 1, float(MARGIN)
        y = top + LINE * row
        colour = picture.colours[kind]
        square = f'<rect x="{left:.2f}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
        yield row, square + _text(left + LINE, y, text, "beside")
        left += width


def _fitting(name: str, letters: int) -> str:
    """Return the longest form of a name that fits, or its beginning; empty if neither does."""
    for text in (name, short_name(name)):
        if cell_len(text) <= letters:
            return text
    if letters >= LEAST_CUT:
        return set_cell_size(short_name(name), letters - 1).rstrip() + "…"
    return ""


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    styled = f' class="{style}"' if style else ""
    anchored = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.2f}" y="{y}"{styled}{anchored}>{escape(_safe(text))}</text>'


def _safe(text: str) -> str:
    """Return the text in one line, with characters that XML forbids made visible."""
    return _NOT_IN_XML.sub("\ufffd", printable(text))


def _safe_lines(lines: list[str]) -> str:
    return "\n".join(map(_safe, lines))
