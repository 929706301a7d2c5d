"""What is something else in each run of a program, whatever is changed: times, and what is computed from them."""

from __future__ import annotations

import string
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
    around: frozenset[tuple[str, str]] = frozenset()
    """(beginning, end) of lines, and of what is done outside the process, that have something else between them in
    each run: the name of a temporary file."""

    def masked(self, line: str) -> str:
        """Return the line without what varies."""
        if varying := self.numbers.get(shape(line)) if self.numbers else None:
            return with_numbers(line, lambda rank, number: "…" if rank in varying else number)
        for beginning, end in self.around:
            if len(line) > len(beginning) + len(end) and line.startswith(beginning) and line.endswith(end):
                return f"{beginning}…{end}"
        return line

    def told(self) -> list[str]:
        """Say what is not compared for it."""
        lines = [f"numbers in the line {_cut(line)!r}, which are others in each run" for line in self.numbers]
        lines += [f"{_cut(f'{beginning}…{end}')!r}, which is another in each run" for beginning, end in sorted(self.around)]
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


def varying_parts(texts: Sequence[str], of_other_run: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return what stands around the part that differs between two runs, of texts that do not differ in numbers alone.
    Whole words are taken to vary, and a text that has no word in common with the other is another one.
    """
    if len(texts) != len(of_other_run):
        return frozenset()
    pairs = zip(texts, of_other_run, strict=True)
    around = (_around(one, other) for one, other in pairs if shape(one) != shape(other))
    return frozenset(pair for pair in around if any(map(str.isalnum, "".join(pair))))


def _around(one: str, other: str) -> tuple[str, str]:
    beginning = _common(one, other)
    end = _common(one[len(beginning) :][::-1], other[len(beginning) :][::-1])[::-1]
    return beginning.rstrip(_OF_WORDS), end.lstrip(_OF_WORDS)


def _common(one: str, other: str) -> str:
    """Return what both begin with."""
    return one[: next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))]


_OF_WORDS = string.ascii_letters + string.digits + "_"

_MOST_SHOWN = 60
"""Characters of a line."""


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
