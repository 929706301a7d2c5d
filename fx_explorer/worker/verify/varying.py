"""What is something else in each run of a program, whatever is changed: times, and what is computed from them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")


@dataclass(frozen=True)
class Varying:
    """What two runs of the original do not have in common."""

    names: frozenset[str] = frozenset()
    """Names of values."""
    numbers: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """A printed line without its numbers → which of them vary."""

    def told(self) -> list[str]:
        """Say what is not compared for it."""
        first = min(self.names, default="")
        values = first if len(self.names) < 2 else f"{first} and {len(self.names) - 1} more values"
        said = f"{values}, which {'is' if len(self.names) < 2 else 'are'} something else in each run"
        lines = (f"numbers in the line {_cut(shape)!r}, which are others in each run" for shape in self.numbers)
        return [*([said] if first else []), *lines]

    def masked(self, line: str) -> str:
        """Return the line without the numbers that vary."""
        varying = self.numbers.get(_shape(line), frozenset())
        if not varying:
            return line
        numbers = iter(range(len(line)))
        return _NUMBER.sub(lambda number: "…" if next(numbers) in varying else number[0], line)


def varying_numbers(lines: Sequence[str], of_other_run: Sequence[str]) -> dict[str, frozenset[int]]:
    """Return which numbers differ between the lines of two runs: of lines that are alike but for their numbers,
    each is compared with the one of the same rank.
    """
    runs = [_by_shape(lines), _by_shape(of_other_run)]
    found: dict[str, frozenset[int]] = {}
    for shape in runs[0].keys() & runs[1].keys():
        pairs = zip(runs[0][shape], runs[1][shape], strict=False)
        differ = {place for one, other in pairs for place, (a, b) in enumerate(zip(one, other, strict=True)) if a != b}
        if differ:
            found[shape] = frozenset(differ)
    return found


def _by_shape(lines: Sequence[str]) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = defaultdict(list)
    for line in lines:
        found[_shape(line)].append(_NUMBER.findall(line))
    return found


_MOST_SHOWN = 60
"""Characters of a line."""


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"


def _shape(line: str) -> str:
    return _NUMBER.sub("#", line)
