"""From the ticks of many calls to the mean of each step. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fx_explorer.spread import interquartile_range
from fx_explorer.worker.ledger.timeline import RawTick, signature


@dataclass(frozen=True, slots=True)
class CallSeconds:
    """The intervals between the ticks of the calls that took the most frequent path."""

    ticks: Sequence[RawTick]
    """Those of one of these calls."""
    means_s: list[float]
    """Of each interval, over the calls whose time is in the middle half of all."""
    iqrs_s: list[float]
    """Range of the middle half of each interval, over all these calls."""
    calls: int
    other_calls: int
    clock_s: float
    """What the clock took in a call; it is in none of the intervals."""


LEAST_OF_COST, MOST_OF_COST = 0.5, 4.0
"""What a tick takes in the program is taken to be within these multiples of what it takes in a loop
of its own, where everything is in the processor's caches.
"""


def account(
    calls: Sequence[Sequence[RawTick]], cost_s: Mapping[str, float], plain_s: float
) -> CallSeconds:
    """Average the calls. ``cost_s``: kind of tick → what one takes in a loop of its own. ``plain_s``:
    what a call takes without a clock. What calls with a clock take longer is shared among the ticks,
    and taken off half from the interval before each and half from the one behind it.
    """
    paths = Counter(map(signature, calls))
    usual, _ = paths.most_common(1)[0]
    alike = [call for call in calls if signature(call) == usual]
    middle = _middle_half(alike)
    means = [sum(column) / len(column) for column in zip(*map(_intervals, middle), strict=True)]
    in_loop = [
        (cost_s.get(one, 0.0) + cost_s.get(other, 0.0)) / 2
        for (one, _), (other, _) in pairwise(usual)
    ]
    multiple = max(
        LEAST_OF_COST, min(MOST_OF_COST, (sum(means) - plain_s) / max(sum(in_loop), 1e-12))
    )
    without = [max(0.0, mean - multiple * cost) for mean, cost in zip(means, in_loop, strict=True)]
    spreads = [interquartile_range(column) for column in zip(*map(_intervals, alike), strict=True)]
    return CallSeconds(
        middle[0], without, spreads, len(alike), len(calls) - len(alike), sum(means) - sum(without)
    )


def _intervals(call: Sequence[RawTick]) -> list[float]:
    return [later - earlier for (earlier, _, _), (later, _, _) in pairwise(call)]


def _middle_half(calls: list[Sequence[RawTick]]) -> list[Sequence[RawTick]]:
    """Return the calls whose times are in the middle half: what disturbs one must not be in the mean."""
    ordered = sorted(calls, key=lambda call: call[-1][0] - call[0][0])
    quarter = len(ordered) // 4
    return ordered[quarter : len(ordered) - quarter]


def middle_mean(values: Sequence[float]) -> float:
    """Return the mean of the middle half. Unlike the median it adds up: the means of parts are the
    mean of the whole.
    """
    ordered = sorted(values)
    quarter = len(ordered) // 4
    middle = ordered[quarter : len(ordered) - quarter]
    return sum(middle) / len(middle)
