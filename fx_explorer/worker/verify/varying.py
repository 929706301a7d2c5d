"""What is something else in each run of a program, whatever is changed: times, and what is computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fx_explorer.worker.verify.lines import by_shape, numbers, shape, with_numbers


@dataclass(frozen=True)
class Varying:
    """What two runs of the original do not have in common."""

    names: frozenset[str] = frozenset()
    """Names of values."""
    numbers: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """A printed line without its numbers → the ranks of those that vary."""

    def masked(self, line: str) -> str:
        """Return the line without the numbers that vary."""
        varying = self.numbers.get(shape(line)) if self.numbers else None
        return with_numbers(line, lambda rank, number: "…" if rank in varying else number) if varying else line

    def told(self) -> list[str]:
        """Say what is not compared for it."""
        lines = [f"numbers in the line {_cut(line)!r}, which are others in each run" for line in self.numbers]
        if not self.names:
            return lines
        first, *others = sorted(self.names)
        more = f" and {len(others)} more value{'s' * (len(others) > 1)}" if others else ""
        return [f"{first}{more}, which {'are' if others else 'is'} something else in each run", *lines]


def varying_numbers(lines: Sequence[str], of_other_run: Sequence[str]) -> dict[str, frozenset[int]]:
    """Return which numbers differ between the lines of two runs: of lines that are alike but for their numbers,
    each is compared with the one of the same rank.
    """
    runs = by_shape(lines), by_shape(of_other_run)
    found: dict[str, frozenset[int]] = {}
    for kind in runs[0].keys() & runs[1].keys():
        pairs = ((numbers(line), numbers(other)) for line, other in zip(runs[0][kind], runs[1][kind], strict=False))
        differ = {rank for one, other in pairs for rank, (a, b) in enumerate(zip(one, other, strict=True)) if a != b}
        if differ:
            found[kind] = frozenset(differ)
    return found


_MOST_SHOWN = 60
"""Characters of a line."""


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
