"""Two runs of one program: the keys by which they asked torch's caches, part by part, and the first part that differs."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from fx_explorer.analysis.caches.answers import CacheAnswer, cache_answers
from fx_explorer.analysis.caches.component_words import KeyDifference, explain
from fx_explorer.session import SessionReader
from fx_explorer.torch_texts.cache_record import Cache


@dataclass(frozen=True, slots=True)
class DifferingComponent:
    """A part of the key that is not equal; a side that lacks it has an empty text."""

    name: str
    left: str
    right: str


@dataclass(frozen=True, slots=True)
class KeyPair:
    """What both runs asked of one cache for the same compilation."""

    cache: Cache
    left: CacheAnswer
    right: CacheAnswer
    components: tuple[DifferingComponent, ...]
    """Those that differ, in torch's order."""
    first: KeyDifference | None
    """The first of them in words; None where none is known to differ."""

    @property
    def is_same_key(self) -> bool:
        return self.left.record.key == self.right.record.key


def key_pairs(left: SessionReader, right: SessionReader) -> list[KeyPair]:
    """Return what both runs asked, paired by compilation, cache and order; without what has no key on a side."""
    sides = [_by_question(reader) for reader in (left, right)]
    pairs = []
    for question, of_left in sides[0].items():
        for one, other in zip(of_left, sides[1].get(question, ()), strict=False):
            if one.record.key and other.record.key:
                pairs.append(_pair(left, right, one, other))
    return pairs


def _by_question(reader: SessionReader) -> dict[tuple[str, Cache], list[CacheAnswer]]:
    found = defaultdict(list)
    for answer in cache_answers(reader):
        found[answer.compilation.name, answer.record.cache].append(answer)
    return dict(found)


def _pair(
    left: SessionReader, right: SessionReader, one: CacheAnswer, other: CacheAnswer
) -> KeyPair:
    sides = [_named(answer) for answer in (one, other)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    differing = tuple(
        DifferingComponent(name, sides[0].get(name, ("", ""))[1], sides[1].get(name, ("", ""))[1])
        for name in names
        if sides[0].get(name, ("", ""))[0] != sides[1].get(name, ("", ""))[0]
    )
    first = (
        explain(left, right, one, other, differing[0].name, differing[0].left, differing[0].right)
        if differing
        else None
    )
    return KeyPair(one.record.cache, one, other, differing, first)


def _named(answer: CacheAnswer) -> dict[str, tuple[str, str]]:
    """Return name → hash and value. A name that stands twice is numbered."""
    found: dict[str, tuple[str, str]] = {}
    times: dict[str, int] = {}
    for part in answer.record.components:
        times[part.name] = times.get(part.name, 0) + 1
        name = part.name if times[part.name] == 1 else f"{part.name} ({times[part.name]})"
        found[name] = (part.digest, part.value)
    return found
