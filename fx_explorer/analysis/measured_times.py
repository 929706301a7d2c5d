"""This module writes measured times in words, and has the rule for when they say something.
``ComparedFigure`` is one line of a comparison: both sides as text, and how they differ.

Two times differ where an interval of their ratio or difference, round by round, does not hold "no
difference" (``median_interval``): that takes 6 rounds. The interval contains the true median with
95 %, whatever the distribution of the values: order statistics (Conover, Practical Nonparametric
Statistics, 3.2).

Two times that were each measured once are never called better or worse. The parts of a whole are
known only as well as they add up to it: the difference may belong to any of them, so no part
smaller than it is named. Where that difference, or the range of the middle half, is more than
``MAX_SPREAD`` of the whole, no parts are shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median
from typing import Literal

from fx_explorer import model
from fx_explorer.analysis.words import counted, seconds, size
from fx_explorer.model import BenchClock
from fx_explorer.session import SessionReader

Measurements = dict[model.Measured, model.Measurement]


def measured(reader: SessionReader, variant: model.Compilation) -> Measurements:
    """Return the last measurement of each kind; empty without any."""
    return {row.what: row for row in reader.rows(model.Measurement, compilation=variant.id)}


def with_spread(median_s: float, iqr_s: float) -> str:
    """Return ``1.23 ms ± 45 µs``: the median, and half the range of the middle half."""
    return f"{run_time(median_s)} ± {run_time(iqr_s / 2)}"


def run_time(duration_s: float) -> str:
    """Return three digits of a time that may be short: ``12.3 µs``, ``1.23 ms``, ``0.123 s``."""
    if duration_s < 1e-3:
        return f"{duration_s * 1e6:.3g} µs"
    if duration_s < 0.1:
        return f"{duration_s * 1e3:.3g} ms"
    return f"{duration_s:.3g} s"


MAX_SPREAD = 0.3
"""Maximum fraction of a time that may vary from call to call, or be missing from the sum of its
parts. Above it, the parts are not shown.
"""

IDLE = "measure again when the machine is idle"


def parts_are_known(whole_s: float, parts_s: float, iqr_s: float) -> bool:
    """Return whether the parts of a measured time explain the whole: their sum ``parts_s`` is near
    ``whole_s``, and the whole is steady. ``iqr_s`` is the range of the middle half of its times.
    All are seconds.
    """
    return max(abs(whole_s - parts_s), iqr_s) <= MAX_SPREAD * whole_s


# at graph breaks


@dataclass(frozen=True, slots=True)
class RunTime:
    """The time of one call at a break, from leaving the graph before it to entering the next
    graph.
    """

    median_s: float
    iqr_s: float
    """Range of the middle half, in seconds."""
    call: model.CallTime
    """The calls in which it was measured."""

    @property
    def description(self) -> str:
        """Return ``4.43 ms ± 130 µs of a call of 34.6 ms (median of 55 calls on cpu)``."""
        whole = (
            f"a call of {run_time(self.call.median_s)} (median of "
            f"{counted(self.call.runs, 'call')} on {self.call.device})"
        )
        varies = f", times vary widely: {IDLE}" if self.varies else ""
        return f"{with_spread(self.median_s, self.iqr_s)} of {whole}{varies}"

    @property
    def varies(self) -> bool:
        return self.iqr_s > MAX_SPREAD * self.median_s


def call_time(reader: SessionReader) -> model.CallTime | None:
    """Return the last measurement of calls; None if breaks were not measured."""
    return next(reversed(reader.rows(model.CallTime)), None)


def break_times(reader: SessionReader) -> dict[int, RunTime]:
    """Return GraphBreak → the time of calls there in the last measurement."""
    call = call_time(reader)
    if call is None:
        return {}
    rows = reader.rows(model.BreakTime, call=call.id)
    return {row.graph_break: RunTime(row.median_s, row.iqr_s, call) for row in rows}


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


Wanted = Literal["", "less", "more"]
"""Which of two amounts is better; empty if neither."""

Verdict = Literal["", "other", "better", "worse"]
"""Meaning of a difference: none, neither better nor worse, an improvement, or a loss. ``other`` may
also stand where both texts are equal and what they name is not: two kernels of one name.
"""

MINUS = "−"
DIFFERS = "differs"
"""Text in place of a change when the two values are not numbers."""

MOST_PERCENT = 1000
"""A larger growth is reported as a multiple."""


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One line of a comparison, both sides as text."""

    what: str
    left: str
    right: str
    difference: str = ""
    """Difference of the right side from the left: ``−3 (−25 %)``, or why it is not stated. Empty if
    both sides are the same, or are not amounts.
    """
    verdict: Verdict = ""

    @property
    def differs(self) -> bool:
        return self.left != self.right or self.verdict == "other"

    @property
    def change(self) -> str:
        """Return the difference in words that need no colour: ``−3 (−25 %), better``."""
        if not self.differs:
            return ""
        if not self.difference:
            has_sides = self.left or self.right
            return DIFFERS if has_sides else ""
        if self.verdict in ("better", "worse"):
            return f"{self.difference}, {self.verdict}"
        return self.difference


def count_figure(what: str, left: int, right: int, *, wanted: Wanted = "") -> ComparedFigure:
    return _figure(what, left, right, wanted, lambda count: f"{int(count):,}")


def size_figure(what: str, left: int, right: int, *, wanted: Wanted = "less") -> ComparedFigure:
    return _figure(what, left, right, wanted, lambda size_bytes: size(int(size_bytes)))


def one_timing_figure(what: str, left: float, right: float) -> ComparedFigure:
    """Compare two times in seconds, each measured once. Neither is called better, however different
    they are: the same compile takes another time when repeated (``analysis/measured_times.py`` has
    the rule).
    """
    figure = _figure(what, left, right, "", seconds)
    if not figure.difference:
        return figure
    return replace(figure, difference=f"{figure.difference}, one timing each")


def text_figure(what: str, left: str, right: str, *, remark: str = "") -> ComparedFigure:
    """Return a line of words. ``remark`` stands where the difference of amounts would."""
    if left == right:
        return ComparedFigure(what, left, right, "", "")
    return ComparedFigure(what, left, right, remark, "other")


def run_time_figure(
    what: str, left: tuple[float, float], right: tuple[float, float]
) -> ComparedFigure:
    """Compare two measured times, (median, range of the middle half) each, in seconds. Where the
    middle halves overlap, no difference is shown.
    """
    texts = with_spread(*left), with_spread(*right)
    figure = _figure(what, left[0], right[0], "less", run_time)
    if abs(left[0] - right[0]) <= (left[1] + right[1]) / 2:
        return text_figure(what, *texts, remark="within the spread")
    return ComparedFigure(what, *texts, figure.difference, figure.verdict)


def _figure(
    what: str, left: float, right: float, wanted: Wanted, written: Callable[[float], str]
) -> ComparedFigure:
    texts = written(left), written(right)
    if texts[0] == texts[1]:
        return ComparedFigure(what, *texts)
    is_less = right < left
    sign = MINUS if is_less else "+"
    difference = f"{sign}{written(abs(right - left))}"
    share = percentage(left, right)
    if share:
        difference += f" ({share})"
    verdict: Verdict
    if not wanted:
        verdict = "other"
    elif is_less == (wanted == "less"):
        verdict = "better"
    else:
        verdict = "worse"
    return ComparedFigure(what, *texts, difference, verdict)


def percentage(left: float, right: float) -> str:
    """Return ``−25 %``, ``+3.2 %`` or ``×12``: how much larger or smaller ``right`` is; empty if
    ``left`` is 0.
    """
    if left <= 0:
        return ""
    change = 100 * (right - left) / left
    if change >= MOST_PERCENT:
        return f"×{right / left:,.0f}"
    digits = 0 if abs(change) >= 10 else 1
    sign = MINUS if change < 0 else "+"
    return f"{sign}{abs(change):.{digits}f} %"
