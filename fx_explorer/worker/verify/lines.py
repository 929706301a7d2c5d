"""Printed lines as texts with numbers in them."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")

RELATIVE, RELATIVE_IF_BUILT = 1e-5, 2e-4
"""How far apart, relative to their size, the numbers with a point may be that compiled code computes in another order, and
built code."""

_LAST_PLACE = 1e-2
"""As far as this the last place that is written may differ by one."""


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


def that_differ(
    before: Counter[str], after: Counter[str], relative: float = 0.0
) -> tuple[list[str], list[str]]:
    """Return the lines that only one of them has. Of lines that are alike but for their numbers each is held against the one
    of the same rank: they are equal if no number is farther from the other than ``relative`` says.
    """
    lost, new = list((before - after).elements()), list((after - before).elements())
    if not relative:
        return lost, new
    others = by_shape(new)
    for kind, lines in by_shape(lost).items():
        for line, other in zip(lines, others.get(kind, ()), strict=False):
            if _are_near(line, other, relative):
                lost.remove(line)
                new.remove(other)
    return lost, new


def _are_near(line: str, other: str, relative: float) -> bool:
    return all(
        one == two or _is_near(one, two, relative)
        for one, two in zip(numbers(line), numbers(other), strict=True)
    )


def _is_near(one: str, two: str, relative: float) -> bool:
    if "." not in one or "." not in two:
        return False
    first, second = float(one), float(two)
    last_place = 10.0 ** -len(one.partition(".")[2]) if one.replace(".", "").isdigit() else 0.0
    in_last_place = abs(first - second) <= 1.01 * last_place and math.isclose(
        first, second, rel_tol=_LAST_PLACE
    )
    return in_last_place or math.isclose(first, second, rel_tol=relative)
