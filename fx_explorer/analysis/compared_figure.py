"""This module has ``Figure``, one line of a comparison: the counted or measured quantity, both
sides as text, and how they differ, with sign, percentage and whether that is better.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from fx_explorer.analysis.measured_times import run_time, with_spread
from fx_explorer.analysis.words import seconds, size

Wanted = Literal["", "less", "more"]
"""Which of two amounts is better; empty if neither."""

Verdict = Literal["", "other", "better", "worse"]
"""Meaning of a difference: none, neither better nor worse, an improvement, or a loss."""

MINUS = "−"
DIFFERS = "differs"
"""Text in place of a change when the two values are not numbers."""

MOST_PERCENT = 1000
"""A larger growth is reported as a multiple."""


@dataclass(frozen=True, slots=True)
class Figure:
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
        return self.left != self.right

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


def count_figure(what: str, left: int, right: int, *, wanted: Wanted = "") -> Figure:
    return _figure(what, left, right, wanted, lambda count: f"{int(count):,}")


def size_figure(what: str, left: int, right: int, *, wanted: Wanted = "less") -> Figure:
    return _figure(what, left, right, wanted, lambda size_bytes: size(int(size_bytes)))


def one_timing_figure(what: str, left: float, right: float) -> Figure:
    """Compare two times in seconds, each measured once. Neither is called better, however different
    they are: the same compile takes another time when repeated (``analysis/measured_times.py`` has
    the rule).
    """
    figure = _figure(what, left, right, "", seconds)
    if not figure.difference:
        return figure
    return replace(figure, difference=f"{figure.difference}, one timing each")


def text_figure(what: str, left: str, right: str, *, remark: str = "") -> Figure:
    """Return a line of words. ``remark`` stands where the difference of amounts would."""
    if left == right:
        return Figure(what, left, right, "", "")
    return Figure(what, left, right, remark, "other")


def run_time_figure(what: str, left: tuple[float, float], right: tuple[float, float]) -> Figure:
    """Compare two measured times, (median, range of the middle half) each, in seconds. Where the
    middle halves overlap, no difference is shown.
    """
    texts = with_spread(*left), with_spread(*right)
    figure = _figure(what, left[0], right[0], "less", run_time)
    if abs(left[0] - right[0]) <= (left[1] + right[1]) / 2:
        return text_figure(what, *texts, remark="within the spread")
    return Figure(what, *texts, figure.difference, figure.verdict)


def _figure(
    what: str, left: float, right: float, wanted: Wanted, written: Callable[[float], str]
) -> Figure:
    texts = written(left), written(right)
    if texts[0] == texts[1]:
        return Figure(what, *texts)
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
    return Figure(what, *texts, difference, verdict)


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
