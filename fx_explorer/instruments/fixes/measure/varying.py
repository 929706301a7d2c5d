"""This module finds what varies between runs of one program, whatever is changed: times,
identities, numbers from unseeded generators, and what is computed from them.
"""

from __future__ import annotations

import math
import re
import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol, TypeVar


class _Comparison(Protocol):
    @property
    def is_all_equal(self) -> bool: ...


ComparisonT = TypeVar("ComparisonT", bound=_Comparison)

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


@dataclass(frozen=True)
class VaryingLines:
    """Lines that differ between two runs of the original: printed lines, or records of effects
    outside the process.

    A line goes by its *shape*, the text without its numbers, and by its rank among those of this
    shape.
    """

    numbers: Mapping[tuple[str, int], frozenset[int]] = field(default_factory=dict)
    """(shape, rank) → the ranks of the numbers in it that vary."""
    sometimes: frozenset[str] = frozenset()
    """Shapes of lines that do not occur equally often in each run."""
    around: frozenset[tuple[str, str]] = frozenset()
    """(beginning, end) of lines whose middle varies from run to run: the name of a temporary file.
    """

    @classmethod
    def of(
        cls, lines: Sequence[str], of_other_run: Sequence[str], *, of_progress: bool = False
    ) -> VaryingLines:
        """Find what varies between two runs. With ``of_progress``, a line that varies in more than
        its numbers may also occur more or less often, as a progress bar does.
        """
        one, two = (list(map(_without_addresses, run)) for run in (lines, of_other_run))
        around = cls(around=_parts_around(one, two))
        first, second = by_shape(around.masked(one)), by_shape(around.masked(two))
        sometimes = set()
        for kind in first.keys() | second.keys():
            if len(first.get(kind, ())) != len(second.get(kind, ())):
                sometimes.add(kind)
        if of_progress:
            sometimes |= {shape(f"{beginning}…{end}") for beginning, end in around.around}
        varying = {}
        for kind in first.keys() - sometimes:
            pairs = zip(first[kind], second[kind], strict=True)
            for rank, (line, other) in enumerate(pairs, 1):
                differing = _numbers_that_differ(line, other)
                if differing:
                    varying[kind, rank] = differing
        return cls(varying, frozenset(sometimes), around.around)

    def __or__(self, other: VaryingLines) -> VaryingLines:
        """Return what varies in either of the two."""
        lines = self.numbers.keys() | other.numbers.keys()
        nothing: frozenset[int] = frozenset()
        return VaryingLines(
            {
                line: self.numbers.get(line, nothing) | other.numbers.get(line, nothing)
                for line in lines
            },
            self.sometimes | other.sometimes,
            self.around | other.around,
        )

    def masked(self, lines: Sequence[str]) -> list[str]:
        """Return the lines without the parts that vary, and without lines that vary as a whole."""
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

    def describe(self) -> list[str]:
        """Return what is not compared because these lines vary, as phrases."""
        lines = dict.fromkeys(kind for kind, _ in self.numbers)
        return [
            *(
                f"numbers in the line {_cut(kind)!r}, which differ from run to run"
                for kind in lines
            ),
            *(
                f"the line {_cut(kind)!r}, which is not written equally often in each run"
                for kind in sorted(self.sometimes)
            ),
            *(
                f"{_cut(f'{beginning}…{end}')!r}, which differs from run to run"
                for beginning, end in sorted(self.around)
            ),
        ]


@dataclass(frozen=True)
class Varying:
    """The differences between two runs of the original."""

    names: frozenset[str] = frozenset()
    """Names of values that differ between two runs."""
    unlike: frozenset[str] = frozenset()
    """Names of the values in ``names`` that vary even in type, dtype or shape."""
    holders: frozenset[str] = frozenset()
    """Names of containers and objects whose parts vary in number or in name from run to run: a dict
    whose keys are times.
    """
    calls: frozenset[str] = frozenset()
    """Calls that end differently from run to run."""
    printed: VaryingLines = field(default_factory=VaryingLines)
    errors: VaryingLines = field(default_factory=VaryingLines)
    effects: VaryingLines = field(default_factory=VaryingLines)
    messages: VaryingLines = field(default_factory=VaryingLines)
    """Lines of exception messages that differ between two runs."""

    def __or__(self, other: Varying) -> Varying:
        """Return what varies in either of the two."""
        return Varying(
            self.names | other.names,
            self.unlike | other.unlike,
            self.holders | other.holders,
            self.calls | other.calls,
            self.printed | other.printed,
            self.errors | other.errors,
            self.effects | other.effects,
            self.messages | other.messages,
        )

    def leaves_out(self, name: str) -> bool:
        """Return whether the value of this name is not compared."""
        return name in self.names or is_within(name, self.holders)

    def keeps_form(self, name: str) -> bool:
        """Return whether a varying value exists in each run with the same type, dtype and shape."""
        is_there = name not in self.unlike and not is_within(name, self.holders)
        return name in self.names and is_there

    def describe(self) -> list[str]:
        """Return what is not compared because it varies from run to run, as phrases."""
        kinds = (self.printed, self.errors, self.effects, self.messages)
        lines: list[str] = []
        for of_kind in kinds:
            lines += of_kind.describe()
        lines += [
            f"the result of the call {call}, which ends differently from run to run"
            for call in sorted(self.calls)
        ]
        if not self.names:
            return lines
        first, *others = sorted(self.names)
        if others:
            values = "value" if len(others) == 1 else "values"
            what = f"{first} and {len(others)} more {values}, which differ"
        else:
            what = f"{first}, which differs"
        return [f"{what} from run to run", *lines]


MOST_RUNS = 3
"""Maximum number of extra runs of the original."""


class VariesByItself:
    """Compares results with the original's, and leaves out the values that differ between runs of
    the original itself.

    Which values those are is found out only where something differs: the original then runs once
    more, and again where two runs may have been equal by chance.
    """

    def __init__(self, runs: Sequence[Callable[[], Varying | None]], *, is_of_chance: bool) -> None:
        """Each of ``runs`` runs the original and returns the differences from the first run; None
        if it did not finish. ``is_of_chance`` says that the original calls functions whose results
        vary.
        """
        self._runs = list(runs) if is_of_chance else list(runs[:1])
        self._varying = Varying()

    def compared(self, compare: Callable[[Varying], ComparisonT]) -> ComparisonT:
        """Return the result of ``compare``, to which the values that vary are given. While it shows
        differences, the original is run again to find more such values.
        """
        comparison = compare(self._varying)
        while self._runs and not comparison.is_all_equal:
            self._varying |= self._runs.pop(0)() or Varying()
            comparison = compare(self._varying)
        return comparison


def is_within(name: str, holders: Set[str]) -> bool:
    """Return whether the name belongs to a part of one of ``holders``, at any depth."""
    own_name = name.removeprefix("the gradient of ")
    return any(own_name.startswith(holder) for holder in holders) and any(
        holder in holders for holder in _holders(own_name)
    )


def holder(name: str, of_both: Set[str]) -> str:
    """Return the innermost value of ``of_both`` that contains the value of this name; empty when
    none does.
    """
    return next((name for name in _holders(name) if name in of_both), "")


def _holders(name: str) -> Iterator[str]:
    """Yield the names of the values that may contain it, innermost first: ``log[1.5]`` and ``log``
    for ``log[1.5].step``.
    """
    for at in range(len(name) - 1, 0, -1):
        if name[at] in ".['" or name.startswith(", ", at):
            yield name[:at]


def _without_addresses(line: str) -> str:
    """Return the line without addresses of objects, which differ in each process."""
    return _ADDRESS.sub("0x…", line)


def _without_numbers(line: str, ranks: frozenset[int]) -> str:
    if not ranks:
        return line

    def masked(rank: int, number: str) -> str:
        return "…" if rank in ranks else number

    return with_numbers(line, masked)


def _numbers_that_differ(line: str, other: str) -> frozenset[int]:
    pairs = zip(numbers(line), numbers(other), strict=True)
    return frozenset(rank for rank, (one, two) in enumerate(pairs) if one != two)


def _parts_around(texts: Sequence[str], of_other_run: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return (beginning, end) around the part that differs between two runs, for texts that differ
    in more than numbers. Whole words are taken to vary, and texts without a common word are not
    paired.
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
    """Return the common beginning of both."""
    return one[
        : next(
            (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
            min(len(one), len(other)),
        )
    ]


_OF_WORDS = string.ascii_letters + string.digits + "_"

_MOST_SHOWN = 60
"""Maximum number of characters of a line that a message quotes."""


def _cut(text: str) -> str:
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{text[: _MOST_SHOWN - 1]}…"


# Printed lines as texts with numbers in them.

_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")

RELATIVE, RELATIVE_IF_BUILT = 1e-5, 2e-4
"""Largest relative difference between numbers with a decimal point, for compiled code, which
computes in another order, and for built code.
"""

_LAST_PLACE = 1e-2
"""Tolerance, in units of the last printed digit, for a digit that differs by one."""


def shape(line: str) -> str:
    """Return the line without its numbers: ``"loss #"``."""
    return _NUMBER.sub("#", line)


def numbers(line: str) -> list[str]:
    """Return the numbers in the line, as they are written."""
    return _NUMBER.findall(line)


def with_numbers(line: str, change: Callable[[int, str], str]) -> str:
    """Return the line with each number replaced by ``change(rank, text)``."""
    ranks = iter(range(len(line)))
    return _NUMBER.sub(lambda number: change(next(ranks), number[0]), line)


def by_shape(lines: Iterable[str]) -> dict[str, list[str]]:
    """Return shape → lines, in their order."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        found[shape(line)].append(line)
    return found


def that_differ(
    before: Counter[str], after: Counter[str], relative: float = 0.0
) -> tuple[list[str], list[str]]:
    """Return the lines that occur in only one of the two. Lines that are alike except for their
    numbers are compared pairwise by rank, and are equal if no number is farther from the other than
    ``relative``.
    """
    lost, new = list((before - after).elements()), list((after - before).elements())
    if not relative:
        return lost, new
    others = by_shape(new)
    for kind, lines in by_shape(lost).items():
        for line, other in zip(lines, others.get(kind, ()), strict=False):
            if _are_near(line, other, relative):
                lost.remove(line)
                new.remove(other)
    return lost, new


def _are_near(line: str, other: str, relative: float) -> bool:
    return all(
        one == two or _is_near(one, two, relative)
        for one, two in zip(numbers(line), numbers(other), strict=True)
    )


def _is_near(one: str, two: str, relative: float) -> bool:
    if "." not in one or "." not in two:
        return False
    first, second = float(one), float(two)
    if one.replace(".", "").isdigit():
        last_place = 10.0 ** -len(one.partition(".")[2])
    else:
        last_place = 0.0
    in_last_place = abs(first - second) <= 1.01 * last_place and math.isclose(
        first, second, rel_tol=_LAST_PLACE
    )
    return in_last_place or math.isclose(first, second, rel_tol=relative)
