"""This module searches for the first bad of many steps (commits, releases) in few trials, where
some cannot be tried. It knows nothing of what a step is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["good", "bad", "skipped"]


@dataclass(slots=True)
class Search:
    """A binary search over ``count`` steps, of which the first is said to be good and the last bad.

    The last is tried first: its failure is what the others are compared with. The first is tried
    only when every other one is bad, since one good step is as good as another.
    """

    count: int
    verdicts: dict[int, Verdict] = field(default_factory=dict)

    def next_step(self) -> int | None:
        """Return the step to try now; None when nothing is left to try."""
        last = self.count - 1
        if last not in self.verdicts:
            return last
        if self.verdicts[last] != "bad":
            return None
        untried = self._untried
        if not untried:
            return None
        return untried[int(len(untried) * _spread(self._skipped_between + 1))]

    @property
    def last_good(self) -> int | None:
        """Return the last good step before the first bad one; None while none is known."""
        good = [step for step, verdict in self.verdicts.items() if verdict == "good"]
        return max(good, default=None)

    @property
    def first_bad(self) -> int:
        """Return the first step that is known to be bad."""
        return min(step for step, verdict in self.verdicts.items() if verdict == "bad")

    @property
    def suspects(self) -> Sequence[int]:
        """Return the steps of which one is the first bad one: several where some were skipped."""
        after = 0 if self.last_good is None else self.last_good + 1
        return range(after, self.first_bad + 1)

    @property
    def most_left(self) -> int:
        """Return how many trials are left at most, if none of them is skipped."""
        if self.count - 1 not in self.verdicts:
            return 1 + self.count.bit_length() - int(self.count & (self.count - 1) == 0)
        return len(self._untried).bit_length()

    @property
    def _untried(self) -> list[int]:
        after = -1 if self.last_good is None else self.last_good
        return [step for step in range(after + 1, self.first_bad) if step not in self.verdicts]

    @property
    def _skipped_between(self) -> int:
        """Return how many steps between the last good and the first bad one were skipped."""
        after = -1 if self.last_good is None else self.last_good
        between = range(after + 1, self.first_bad)
        return sum(self.verdicts.get(step) == "skipped" for step in between)


def _spread(number: int) -> float:
    """Return 1/2, 1/4, 3/4, 1/8 … for 1, 2, 3, 4 …: neighbours of a step that cannot be tried often
    cannot be tried either, so the next trial is far from it.
    """
    share, part = 0.0, 0.5
    while number:
        share += part * (number % 2)
        number //= 2
        part /= 2
    return share
