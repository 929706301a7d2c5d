"""The slim scroll track in a LineView's last column has a glyph for each row."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence

TRACK = " "
"""Character of the track: a space, because panes have a rule between them already."""

THUMB = "┃"
MARK = "╸"
MATCH = "·"
MOST_TICKS = 2_000
"""Maximum number of marks that are looked at: more would fill the track anyway."""


def row_of(line: int, height: int, line_count: int) -> int:
    """Return the row of the track for ``line``."""
    return min(height - 1, line * height // max(line_count, height, 1))


def top_at(row: int, height: int, line_count: int) -> int:
    """Return the first visible line after the user points at ``row`` of the track: the thumb's
    middle goes there.
    """
    if line_count <= height or height <= 0:
        return 0
    size = thumb_size(height, line_count)
    return max(
        0,
        min(
            round((row - size / 2 + 0.5) * (line_count - height) / max(1, height - size)),
            line_count - height,
        ),
    )


def thumb_size(height: int, line_count: int) -> int:
    return max(1, height * height // line_count)


def ticks(
    height: int, line_count: int, marks: Iterable[int], matches: Sequence[int]
) -> dict[int, str]:
    """Return row of the track → glyph of its tick. Marks win over matches."""
    if height <= 0 or line_count <= 0:
        return {}
    rows = dict.fromkeys(_rows_with_any(height, line_count, matches), MATCH)
    for count, line in enumerate(marks):
        if count >= MOST_TICKS:
            break
        rows[row_of(line, height, line_count)] = MARK
    return rows


def _rows_with_any(height: int, line_count: int, matches: Sequence[int]) -> list[int]:
    """Return the rows with a match, by bisection: matches are sorted, and there may be a hundred
    thousand.
    """
    if not matches:
        return []
    rows = []
    for row in range(height):
        first = -(-row * max(line_count, height) // height)
        index = bisect_left(matches, first)
        if index < len(matches) and row_of(matches[index], height, line_count) == row:
            rows.append(row)
    return rows


def glyphs(height: int, line_count: int, top: int, tick_rows: dict[int, str]) -> list[str]:
    """Return the glyph of each row: a tick, else the thumb, else the track. Empty when everything
    is visible.
    """
    if line_count <= height:
        column = [TRACK] * height
    else:
        size = thumb_size(height, line_count)
        first = top * (height - size) // (line_count - height)
        thumb = range(first, first + size)
        column = [TRACK] * height
        for row in range(height):
            if row in thumb:
                column[row] = THUMB
    for row, tick in tick_rows.items():
        if row < height:  # the ticks are those of the old height while a pane is closed or resized
            column[row] = tick
    return column
