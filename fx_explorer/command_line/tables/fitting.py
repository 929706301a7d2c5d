"""Plain text, fitted to the terminal of whoever reads it."""

from __future__ import annotations

import re
import sys
import textwrap
from typing import TextIO

from fx_explorer.output.terminal import width_for

LEAST_PROSE = 24
"""Cells that the last column has at least; on a narrower terminal its text begins in a row of its own."""

INDENT = 4

_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")


def fitted(text: str, width: int | None) -> str:
    """Return the text with long lines going on under their last column, below themselves where that begins too far to the
    right, or under their own indentation.
    Without a width, where a program reads, it stays as it is.
    """
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _parts(line, width))


def tell(text: str, out: TextIO | None = None) -> None:
    """Print a text at once, fitted to the terminal of whoever reads it: on stdout, unless ``out`` is another."""
    out = out or sys.stdout
    print(fitted(text, width_for(out)), file=out, flush=True)


def _parts(line: str, width: int) -> list[str]:
    if len(_COLOUR.sub("", line)) <= width:
        return [line]
    begins = [gap.end() for gap in _GAP.finditer(line) if gap.end() <= width - LEAST_PROSE]
    own = len(line) - len(line.lstrip())
    too_far = _GAP.search(line, own)
    if too_far and not begins:
        below = own + INDENT
        return [
            line[: too_far.start()],
            *_parts(" " * below + line[too_far.end() :], max(width, below + LEAST_PROSE)),
        ]
    indent = begins[-1] if begins else min(own, max(0, width - LEAST_PROSE))
    head, prose = line[:indent], line[indent:]
    room = max(1, width - indent)
    first, *rest = textwrap.wrap(prose, room, break_long_words=False, break_on_hyphens=False) or [
        ""
    ]
    return [head + first, *(" " * indent + part for part in rest)]
