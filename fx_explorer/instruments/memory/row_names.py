"""This module tells rows of the memory view apart that have the same name: each gets its line, its
shape, its graph or torch's own name, whichever differs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from fx_explorer.instruments.memory.saved_values import SavedValue
from fx_explorer.session.file_names import in_file

Traits = Sequence[str]
"""Texts that may tell a row apart, the plainest first."""


def distinct_names(
    values: Iterable[SavedValue], names: Mapping[int, str], shapes: Mapping[int, str]
) -> dict[int, str]:
    """Return the name of each value (by its row): its own, or of several alike ``h (m.py:8)``.

    ``shapes`` are the values' dtypes and shapes as they are shown.
    """
    alike: dict[str, list[SavedValue]] = defaultdict(list)
    for value in values:
        alike[names.get(value.saved.id, value.saved.name)].append(value)
    distinct = {}
    for name, group in alike.items():
        traits = [_traits(value, shapes[value.saved.id]) for value in group]
        for value, trait in zip(group, distinguishing(traits), strict=True):
            distinct[value.saved.id] = f"{name} ({trait})" if trait else name
    return distinct


def _traits(value: SavedValue, shape: str) -> Traits:
    line = in_file(value.file, value.line) if value.file else ""
    return line, shape, f"[{value.compilation}]", value.saved.name


def distinguishing(rows: Sequence[Traits]) -> list[str]:
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
