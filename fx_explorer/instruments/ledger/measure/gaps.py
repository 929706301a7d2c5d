"""Between which two kernels the GPU does nothing, for how long, and what the host does meanwhile.
Pure.

The gaps are those of calls that a profiler looks at, which makes kernels start later: they are
longer than in other calls, and say where and why the GPU waits rather than how much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fx_explorer.instruments.ledger.measure.timeline import RawTick, signature
from fx_explorer.spread import interquartile_range

LEAST_S = 0.5e-6
"""Kernels that are started one right after the other are about so far apart."""


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """Something that the GPU does, with seconds on the clock of the ticks."""

    name: str
    begin_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class DeviceCall:
    """A call with the ticks of the host, and what the GPU does in it."""

    ticks: Sequence[RawTick]
    work: Sequence[DeviceWork]
    """In the order in which it begins."""


@dataclass(frozen=True, slots=True)
class IdleGap:
    """Time in which the GPU does nothing."""

    before: str
    """What ran before it; empty where nothing has run in the call yet."""
    after: str
    """What runs behind it; empty where nothing does in the call any more."""
    seconds: float
    of_steps: Mapping[int, float]
    """Step of the host, by its position among the intervals of the ticks → its seconds in the gap.
    """


def gaps(calls: Sequence[DeviceCall], usual: tuple[tuple[str, int], ...]) -> list[IdleGap]:
    """Return the gaps of the calls that took the path ``usual`` and ran the same on the GPU, in the
    order of the call.
    """
    alike = _alike([call for call in calls if call.work and signature(call.ticks) == usual])
    if not alike:
        return []
    found = map(_mean, zip(*map(_between, alike), strict=True))
    return [gap for gap in found if gap.seconds >= LEAST_S]


def _alike(calls: list[DeviceCall]) -> list[DeviceCall]:
    """Return the calls that ran what most of them ran."""
    paths = Counter(tuple(work.name for work in call.work) for call in calls)
    usual = paths.most_common(1)[0][0] if paths else ()
    return [call for call in calls if tuple(work.name for work in call.work) == usual]


def _between(call: DeviceCall) -> Iterator[IdleGap]:
    """Yield what is before each work and behind the last one. What runs beside other work, on
    another stream, has a gap of no length before it.
    """
    last, until = "", call.ticks[0][0]
    for work in call.work:
        yield _gap(call.ticks, last, work.name, until, work.begin_s)
        if work.end_s > until:
            last, until = work.name, work.end_s
    yield _gap(call.ticks, last, "", until, call.ticks[-1][0])


def _gap(
    ticks: Sequence[RawTick], before: str, after: str, begin_s: float, end_s: float
) -> IdleGap:
    meanwhile = {}
    for at, ((earlier, _, _), (later, _, _)) in enumerate(pairwise(ticks)):
        within = min(later, end_s) - max(earlier, begin_s)
        if within > 0:
            meanwhile[at] = within
    return IdleGap(before, after, max(0.0, end_s - begin_s), meanwhile)


def _mean(of_calls: Sequence[IdleGap]) -> IdleGap:
    """Return the mean of the same gap in several calls."""
    steps = sorted({at for gap in of_calls for at in gap.of_steps})
    of_steps = {at: middle_mean([gap.of_steps.get(at, 0.0) for gap in of_calls]) for at in steps}
    return IdleGap(
        of_calls[0].before,
        of_calls[0].after,
        middle_mean([gap.seconds for gap in of_calls]),
        of_steps,
    )


# From the ticks of many calls to the mean of each step. Pure.


@dataclass(frozen=True, slots=True)
class CallIntervals:
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
) -> CallIntervals:
    """Average the calls. ``cost_s``: kind of tick → what one takes in a loop of its own.
    ``plain_s``: what a call takes without a clock. What calls with a clock take longer is shared
    among the ticks, and taken off half from the interval before each and half from the one behind
    it.
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
    return CallIntervals(
        middle[0], without, spreads, len(alike), len(calls) - len(alike), sum(means) - sum(without)
    )


def _intervals(call: Sequence[RawTick]) -> list[float]:
    return [later - earlier for (earlier, _, _), (later, _, _) in pairwise(call)]


def _middle_half(calls: list[Sequence[RawTick]]) -> list[Sequence[RawTick]]:
    """Return the calls whose times are in the middle half: what disturbs one must not be in the
    mean.
    """
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
