"""This module tells rows of the memory view apart that have the same name: each gets its line, its
module, its shape or its graph, whichever differs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple


class NamedRow(NamedTuple):
    """A row with its name and texts that may tell it apart, the plainest first."""

    key: int
    name: str
    traits: Sequence[str]


def distinct_names(rows: Iterable[NamedRow]) -> dict[int, str]:
    """Return the name of each row by its key: its own, or of several alike ``h (m.py:8)``."""
    alike: dict[str, list[NamedRow]] = defaultdict(list)
    for row in rows:
        alike[row.name].append(row)
    names = {}
    for name, group in alike.items():
        for row, trait in zip(group, distinguishing([row.traits for row in group]), strict=True):
            names[row.key] = _with_trait(name, trait)
    return names


def _with_trait(name: str, trait: str) -> str:
    if not trait:
        return name
    return f"{name} {trait}" if trait.startswith("[") else f"{name} ({trait})"


def distinguishing(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return for each row the fewest of its traits that no other row has; numbers where all are the
    same; nothing for a single row.
    """
    if len(rows) < 2:
        return [""] * len(rows)
    kinds = range(len(rows[0]))
    for count in range(1, len(kinds) + 1):
        for chosen in combinations(kinds, count):
            texts = [" ".join(filter(None, (row[kind] for kind in chosen))) for row in rows]
            if len(set(texts)) == len(rows):
                return texts
    return [f"{number} of {len(rows)}" for number in range(1, len(rows) + 1)]
