"""Which names are one object, or share memory, in one of two observations and not in the other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any


def identity_differences(
    before: Mapping[str, Any], after: Mapping[str, Any], both: Set[str]
) -> Iterator[tuple[str, str]]:
    """Yield the differences, for names that both observations have (``ReachedValues.same``,
    ``ReachedValues.overlapping``): the name, and what is to be said.
    """
    one, other = _first_names(before["same"], both), _first_names(after["same"], both)
    for name in sorted(one.keys() | other.keys()):
        was, now = one.get(name, name), other.get(name, name)
        if was != now:
            yield name, _told(name, was, now)
    shared, sharing = (_pairs(seen["overlapping"], both) for seen in (before, after))
    yield from (
        (name, f"{name} and {another} shared memory and no longer do")
        for name, another in sorted(shared - sharing)
    )
    yield from (
        (name, f"{name} and {another} share memory now")
        for name, another in sorted(sharing - shared)
    )


def _first_names(groups: Iterable[Sequence[str]], both: Set[str]) -> dict[str, str]:
    """Return name → the first name of its object, for objects with several names."""
    found: dict[str, str] = {}
    for group in groups:
        names = sorted(name for name in group if name in both)
        found |= dict.fromkeys(names, names[0]) if len(names) > 1 else {}
    return found


def _pairs(pairs: Iterable[Sequence[str]], both: Set[str]) -> set[tuple[str, str]]:
    return {(one, other) for one, other in pairs if one in both and other in both}


def _told(name: str, was: str, now: str) -> str:
    if was == name:
        return f"{name} was an object of its own and is {now}"
    return f"{name} was {was} itself and is {'an object of its own' if now == name else now}"
