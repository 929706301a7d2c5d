"""This module computes what a terminal shows after a part of a frame: each cell that is written,
with its style.
"""

from __future__ import annotations

import re

from rich.cells import cell_len

Cell = tuple[int, int]
"""Row and column, from 0."""

_SEQUENCE = re.compile(
    r"\x1b\[(?P<row>\d+);(?P<column>\d+)H|\x1b\[(?P<style>[\d;]*)m|\x1b\]8;(?P<link>[^\x1b]*)\x1b\\|\n"
)


def written_cells(sent: str) -> dict[Cell, tuple[str, str, str]]:
    """Return the character, the style and the link of each cell that is written. Of a wide
    character the second cell is left out. Styles are those that are set and taken back around each
    text, as rich and Textual do.
    """
    written: dict[Cell, tuple[str, str, str]] = {}
    row = column = end = 0
    style = link = ""
    for sequence in _SEQUENCE.finditer(sent + "\n"):
        for character in (sent + "\n")[end : sequence.start()]:
            assert character.isprintable(), f"{character!r} is sent, which is no text"
            written[row, column] = character, style, link
            column += cell_len(character)
        end = sequence.end()
        if sequence["row"]:
            row, column = int(sequence["row"]) - 1, int(sequence["column"]) - 1
        elif sequence["style"] is not None:
            style = sequence["style"].removeprefix("0")
        elif sequence["link"] is not None:
            link = sequence["link"]
    return written
