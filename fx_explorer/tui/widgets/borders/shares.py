"""How widgets side by side share their room when the border between two of them moves."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_CELLS = 12
"""No widget is made narrower than this by dragging."""


def moved(widths: Sequence[int], border: int, by: int) -> list[int]:
    """Return the widths when the border right of widget ``border`` moves by so many cells: the
    widgets on both sides of it share what they had together.
    """
    left, right = widths[border], widths[border + 1]
    least = min(LEAST_CELLS, left, right)
    by = max(least - left, min(by, right - least))
    found = list(widths)
    found[border], found[border + 1] = left + by, right - by
    return found
