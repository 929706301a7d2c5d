"""A finding is one thing in which ranks differ (``RankFinding``); and this module writes ranks in
words: ``ranks 0 and 2``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fx_explorer.analysis.words import listed

Aspect = Literal[
    "torch",
    "parts",
    "extra",
    "missing",
    "order",
    "reasons",
    "graph",
    "inputs",
    "tensors",
    "breaks",
    "guards",
    "cache",
    "collectives",
    "results",
    "status",
    "executed",
    "numbers",
    "guard_values",
]

ASPECTS: dict[Aspect, str] = {
    "torch": "releases of torch and Python",
    "parts": "parts of the model",
    "missing": "which functions were compiled",
    "extra": "which functions were compiled, and how often",
    "order": "the order of compilations",
    "reasons": "why functions were compiled again",
    "graph": "operations of the graphs",
    "inputs": "sizes and types of inputs",
    "tensors": "sizes and types in the graphs",
    "breaks": "graph breaks",
    "guards": "what is checked before a call",
    "cache": "answers of torch's caches",
    "collectives": "order of collectives",
    "results": "sizes and types in the generated code",
    "status": "how compilations ended",
    "executed": "the order in which compiled graphs ran",
    "numbers": "numbers among the arguments",
    "guard_values": "numbers that are checked",
}
"""Aspect → in words, in the order in which one leads to the next."""

NOTED: tuple[Aspect, ...] = ("parts", "numbers", "guard_values")
"""Aspects that are told and no divergence: a rank's own number, its part of the data and its part
of the model differ by design.
"""


@dataclass(frozen=True, slots=True)
class RankFinding:
    """One difference between a group of ranks and those it is compared with."""

    aspect: Aspect
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    position: int
    """Before which compilation of the others it is seen, from 0."""
    words: str
    compilation: str = ""
    """Its name on the ranks that differ; empty where they lack it."""
    other_compilation: str = ""
    function: str = ""
    file: str = ""
    """The user's line where it is known, else where the function begins."""
    line: int = 0

    @property
    def is_divergence(self) -> bool:
        return self.aspect not in NOTED


MOST_RANGES = 6
"""Ranges that are written out; there are more where ranks alternate."""


def rank_words(ranks: Iterable[int]) -> str:
    """Return ``rank 3``, ``ranks 0 and 2`` or ``ranks 0–255``."""
    found = sorted(set(ranks))
    return f"rank{'' if len(found) == 1 else 's'} {rank_numbers(found)}"


def rank_numbers(ranks: Iterable[int]) -> str:
    """Return ``0–3, 5 and 7``."""
    return listed(_ranges(sorted(set(ranks))), MOST_RANGES)


def others_in_words(others: Collection[int], ranks: Collection[int], among: int) -> str:
    """Return ``the others`` where ``ranks`` and ``others`` are all there are, and else which they
    are.
    """
    if len(others) > 1 and len(others) + len(ranks) == among:
        return "the others"
    return rank_words(others)


def _ranges(ranks: list[int]) -> Iterator[str]:
    start = 0
    for at, rank in enumerate(ranks):
        if at + 1 == len(ranks) or ranks[at + 1] != rank + 1:
            if at - start >= 2:
                yield f"{ranks[start]}–{rank}"
            else:
                yield from map(str, ranks[start : at + 1])
            start = at + 1
