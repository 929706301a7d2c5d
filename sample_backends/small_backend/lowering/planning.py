"""Where each intermediate value lies: one arena, in which a dead value's place is used again."""

from __future__ import annotations

from collections.abc import Mapping

LINE = 16
"""Elements of a cache line: every buffer begins at one, so that vectors of two threads never share it."""


def planned(lengths: Mapping[int, int], lifetimes: Mapping[int, tuple[int, int]]) -> dict[int, int]:
    """Return the first element of each buffer in the arena.

    ``lengths`` are in elements; a lifetime is the first and the last instruction that touches the
    buffer, both included. Each buffer takes the first gap among those that live at the same time.
    """
    starts: dict[int, int] = {}
    for buffer in sorted(lengths, key=lambda each: (lifetimes[each], each)):
        neighbours = [other for other in starts if _overlap(lifetimes[buffer], lifetimes[other])]
        starts[buffer] = _first_gap(
            lengths[buffer], sorted((starts[other], lengths[other]) for other in neighbours)
        )
    return starts


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _first_gap(length: int, taken: list[tuple[int, int]]) -> int:
    start = 0
    for begin, size in taken:
        if start + length <= begin:
            break
        start = max(start, -(-(begin + size) // LINE) * LINE)
    return start
