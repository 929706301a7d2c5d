"""Printed lines as texts with numbers in them."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")

RELATIVE = 1e-5
"""How far apart, relative to their size, the numbers with a point may be that compiled code computes in another order."""


def shape(line: str) -> str:
    """Return the line without its numbers: ``"loss #"``."""
    return _NUMBER.sub("#", line)


def numbers(line: str) -> list[str]:
    """Return the numbers in the line, as they are written."""
    return _NUMBER.findall(line)


def with_numbers(line: str, change: Callable[[int, str], str]) -> str:
    """Return the line with each number changed, given its rank and how it is written."""
    ranks = iter(range(len(line)))
    return _NUMBER.sub(lambda number: change(next(ranks), number[0]), line)


def by_shape(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return shape → lines, in their order."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        found[shape(line)].append(line)
    return found


def that_differ(before: Counter[str], after: Counter[str], *, may_be_rounded: bool) -> tuple[list[str], list[str]]:
    """Return the lines that only one of them has. Of lines that are alike but for their numbers each is held against the one
    of the same rank: with ``may_be_rounded`` they are equal if their numbers are near each other.
    """
    lost, new = list((before - after).elements()), list((after - before).elements())
    if not may_be_rounded:
        return lost, new
    others = by_shape(new)
    for kind, lines in by_shape(lost).items():
        for line, other in zip(lines, others.get(kind, ()), strict=False):
            if _are_near(line, other):
                lost.remove(line)
                new.remove(other)
    return lost, new


def _are_near(line: str, other: str) -> bool:
    return all(one == two or _is_near(one, two) for one, two in zip(numbers(line), numbers(other), strict=True))


def _is_near(one: str, two: str) -> bool:
    return "." in one and "." in two and math.isclose(float(one), float(two), rel_tol=RELATIVE)
