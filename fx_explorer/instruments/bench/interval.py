"""This module computes the median of some values and the interval that contains the true median
with 95 %, whatever their distribution: order statistics (Conover, Practical Nonparametric
Statistics, 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import median

from fx_explorer.model import BenchClock

CONFIDENCE = 0.95

BETWEEN_PROCESSES: dict[BenchClock, float] = {"wall": 0.02, "events": 0.01}
"""Part by which two processes that compile and call the same differ beyond their rounds' intervals.

Each may pick other library kernels and other tilings, and its memory lies elsewhere. Measured on an
H100: a convolutional network took 2,603 µs (2,594 to 2,610) in one process and 2,632 µs (2,632 to
2,634) in the next. On two virtual processors, in five benches of a ViT none of whose rounds was
disturbed, the medians of three cells had a standard deviation of 2.0 % (282 to 301 µs with
Inductor), as much as their intervals reached to either side.
"""

MOST_BETWEEN_PROCESSES = max(BETWEEN_PROCESSES.values())
"""The largest of these values, used for a session with an unknown clock."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A median, and the ends of its interval, in the unit of the values."""

    middle: float
    low: float
    high: float

    @property
    def spread(self) -> float:
        """Return how far the interval reaches to the wider side, as a part of the median."""
        if self.middle:
            return max(self.high - self.middle, self.middle - self.low) / self.middle
        return 0.0

    def reaching_down(self, part: float) -> Interval:
        """Return the interval for a value that may be smaller than measured, down to ``part`` of
        it.
        """
        return Interval(self.middle, self.low * part, self.high)

    def reaching(self, part: float) -> Interval:
        """Return the interval of a ratio if both of its times may be smaller, down to ``part`` of
        them.
        """
        return Interval(self.middle, self.low * part, self.high / part)

    def measured_again(self, clock: BenchClock, processes: int = 1) -> Interval:
        """Return the interval that the same figure would have if it were measured again: a time
        needs one process, a ratio two.
        """
        wider = processes * BETWEEN_PROCESSES.get(clock, MOST_BETWEEN_PROCESSES)
        return Interval(self.middle, self.low * (1 - wider), self.high * (1 + wider))


LEAST_ROUNDS = 6
"""Minimum number of values that have an interval of 95 %."""


def median_interval(values: Sequence[float]) -> Interval | None:
    """Return the median of the values with its interval; None for too few values (5 or less)."""
    rank = _rank(len(values))
    if rank is None:
        return None
    ordered = sorted(values)
    return Interval(median(ordered), ordered[rank], ordered[-1 - rank])


def ratios(of: Sequence[float], to: Sequence[float]) -> list[float]:
    """Return ``of`` ÷ ``to`` round by round. Rounds of the same number were made at the same
    time.
    """
    return [value / base for value, base in zip(of, to, strict=False) if base]


def ratios_by_round(of: Mapping[int, float], to: Mapping[int, float]) -> list[float]:
    """Return ``of`` ÷ ``to`` for every round that both have, given values by the round's number."""
    both = sorted(of.keys() & to.keys())
    return ratios([of[number] for number in both], [to[number] for number in both])


def factor(value: float) -> str:
    """Return a factor with two digits after the point; with three when two would round it
    to 1.00.
    """
    if f"{value:.2f}" == "1.00" and value != 1:
        return f"{value:.3f}"
    return f"{value:.2f}"


@cache
def _rank(count: int) -> int | None:
    """Return how many of the least, and of the greatest, of ``count`` values lie outside the
    interval.

    The median lies below the least k+1 values with the chance that at most k of ``count`` coins
    show heads.
    """
    outside, rank = 0.0, None
    for k in range(count // 2):
        outside += 2 * math.comb(count, k) / 2**count
        if outside > 1 - CONFIDENCE:
            break
        rank = k
    return rank
