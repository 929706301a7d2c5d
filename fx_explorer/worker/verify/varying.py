"""What is something else in each run of a program, whatever is changed: times, and what is computed from them."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fx_explorer.worker.verify.lines import by_shape, numbers, shape, with_numbers

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


@dataclass(frozen=True)
class VaryingLines:
    """Which lines two runs of the original do not have in common: of what is printed, or of what is done outside the process.

    A line goes by its *shape*, the text without its numbers, and by its rank among those of this shape.
    """

    numbers: Mapping[tuple[str, int], frozenset[int]] = field(default_factory=dict)
    """(shape, rank) → the ranks of the numbers in it that vary."""
    sometimes: frozenset[str] = frozenset()
    """Shapes of lines of which there are not as many in each run."""
    around: frozenset[tuple[str, str]] = frozenset()
    """(beginning, end) of lines that have something else between them in each run: the name of a temporary file."""

    @classmethod
    def of(
        cls, lines: Sequence[str], of_other_run: Sequence[str], *, of_progress: bool = False
    ) -> VaryingLines:
        """Find what varies between two runs. With ``of_progress`` a line that varies in more than its numbers may also come
        more or less often: it is a progress bar.
        """
        one, two = (list(map(_without_addresses, run)) for run in (lines, of_other_run))
        around = cls(around=_parts_around(one, two))
        first, second = by_shape(around.masked(one)), by_shape(around.masked(two))
        sometimes = {
            kind
            for kind in first.keys() | second.keys()
            if len(first.get(kind, ())) != len(second.get(kind, ()))
        }
        sometimes |= {
            shape(f"{beginning}…{end}") for beginning, end in around.around if of_progress
        }
        varying = {
            (kind, rank): differ
            for kind in first.keys() - sometimes
            for rank, pair in enumerate(zip(first[kind], second[kind], strict=True), 1)
            if (differ := _numbers_that_differ(*pair))
        }
        return cls(varying, frozenset(sometimes), around.around)

    def masked(self, lines: Sequence[str]) -> list[str]:
        """Return the lines without what varies in them, and without those that vary as a whole."""
        return list(self._masked(lines))

    def _masked(self, lines: Sequence[str]) -> Iterator[str]:
        ranks: Counter[str] = Counter()
        for line in map(self._without_parts, map(_without_addresses, lines)):
            kind = shape(line) if self.numbers or self.sometimes else ""
            ranks[kind] += 1
            if not kind or kind not in self.sometimes:
                yield _without_numbers(line, self.numbers.get((kind, ranks[kind]), frozenset()))

    def _without_parts(self, line: str) -> str:
        for beginning, end in self.around:
            if (
                len(line) > len(beginning) + len(end)
                and line.startswith(beginning)
                and line.endswith(end)
            ):
                return f"{beginning}…{end}"
        return line

    def told(self) -> list[str]:
        """Say what is not compared for it."""
        lines = dict.fromkeys(kind for kind, _ in self.numbers)
        return [
            *(
                f"numbers in the line {_cut(kind)!r}, which are others in each run"
                for kind in lines
            ),
            *(
                f"the line {_cut(kind)!r}, which is not written as often in each run"
                for kind in sorted(self.sometimes)
            ),
            *(
                f"{_cut(f'{beginning}…{end}')!r}, which is another in each run"
                for beginning, end in sorted(self.around)
            ),
        ]


@dataclass(frozen=True)
class Varying:
    """What two runs of the original do not have in common."""

    names: frozenset[str] = frozenset()
    """Names of values."""
    printed: VaryingLines = field(default_factory=VaryingLines)
    errors: VaryingLines = field(default_factory=VaryingLines)
    effects: VaryingLines = field(default_factory=VaryingLines)

    def told(self) -> list[str]:
        """Say what is not compared for it."""
        lines = [
            told for of_kind in (self.printed, self.errors, self.effects) for told in of_kind.told()
        ]
        if not self.names:
            return lines
        first, *others = sorted(self.names)
        more = f" and {len(others)} more value{'s' * (len(others) > 1)}" if others else ""
        return [
            f"{first}{more}, which {'are' if others else 'is'} something else in each run",
            *lines,
        ]


def _without_addresses(line: str) -> str:
    """Return the line without addresses of objects, which are others in each process."""
    return _ADDRESS.sub("0x…", line)


def _without_numbers(line: str, ranks: frozenset[int]) -> str:
    return (
        with_numbers(line, lambda rank, number: "…" if rank in ranks else number) if ranks else line
    )


def _numbers_that_differ(line: str, other: str) -> frozenset[int]:
    return frozenset(
        rank
        for rank, (a, b) in enumerate(zip(numbers(line), numbers(other), strict=True))
        if a != b
    )


def _parts_around(texts: Sequence[str], of_other_run: Sequence[str]) -> frozenset[tuple[str, str]]:
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
    return one[
        : next(
            (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
            min(len(one), len(other)),
        )
    ]


_OF_WORDS = string.ascii_letters + string.digits + "_"

_MOST_SHOWN = 60
"""Characters of a line."""


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
