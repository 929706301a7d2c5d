"""Ranks in words."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from fx_explorer.analysis.words import listed

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
