"""This module has what our own pictures share as SVG: sizes, letters, colours and the legend. They
need no other file and no library. Letters beside coloured areas are of a grey that can be read on
white and on black; those in them are dark, and the colours light.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from xml.sax.saxutils import escape

from fx_explorer.highlight import printable

WIDTH, MARGIN, LINE = 1200, 10, 16
"""Sizes in pixels: the width of a picture, its margin, and the height of a line of letters."""

LETTER = 6.7
"""Pixels between letters in the requested fonts, at this size."""

INK = "#16181d"
"""Colour of letters in an area."""

GREY = "#767676"
"""Colour with a contrast of 4.5 to 1 against white and 4.6 to 1 against black."""

STYLE = f"""
text {{ font: 11px "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: {INK}; \
pointer-events: none; }}
.beside {{ fill: {GREY}; }}
.title {{ font-weight: bold; }}
rect {{ stroke: {INK}; stroke-opacity: 0.4; stroke-width: 0.5; }}
g:hover rect {{ stroke-opacity: 1; stroke-width: 1.5; }}
"""

SVG_END = "</svg>\n"

_NOT_IN_XML = re.compile("[\ufffe\uffff]")


def svg_start(height: float) -> str:
    """Return the beginning of a picture of the whole width."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}">\n<style>{STYLE}</style>'
    )


def svg_text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    styled = f' class="{style}"' if style else ""
    anchored = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text x="{x:.2f}" y="{y}"{styled}{anchored}>{escape(safe_line(text))}</text>'


def legend_svg(entries: Iterable[tuple[str, str]], top: float) -> Iterator[tuple[int, str]]:
    """Yield a square and its words for each (colour, words), with the row that it stands in."""
    row, left = 0, float(MARGIN)
    for colour, text in entries:
        width = LINE + (len(text) + 2) * LETTER
        if left + width > WIDTH - MARGIN and left > MARGIN:
            row, left = row + 1, float(MARGIN)
        y = top + LINE * row
        square = f'<rect x="{left:.2f}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
        yield row, square + svg_text(left + LINE, y, text, "beside")
        left += width


def safe_line(text: str) -> str:
    """Return the text in one line, with characters that XML forbids made visible."""
    return _NOT_IN_XML.sub("\ufffd", printable(text))


def safe_lines(lines: Sequence[str]) -> str:
    return "\n".join(map(safe_line, lines))
