"""Which compilation of one rank is which of another: by function and graph, since torch numbers each rank's by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fx_explorer.analysis.ranks.summary import CompilationSummary
from fx_explorer.model.bounded_matching import BoundedMatcher


class Pair(NamedTuple):
    """The same compilation on two ranks, or one that only one of them has."""

    reference: CompilationSummary | None
    other: CompilationSummary | None
    is_moved: bool = False
    """Whether one rank has it before another compilation, and the other rank after it."""


def aligned(
    reference: Sequence[CompilationSummary], other: Sequence[CompilationSummary]
) -> list[Pair]:
    """Pair the compilations of two ranks, in the order of the reference."""
    pairs = list(_in_order(reference, other))
    lacking = [pair.reference for pair in pairs if pair.reference and not pair.other]
    extra = [pair.other for pair in pairs if pair.other and not pair.reference]
    moved = {id(one): two for one, two in _same(lacking, extra)}
    taken = {id(two) for two in moved.values()}
    return [
        Pair(pair.reference, moved[id(pair.reference)], is_moved=True)
        if id(pair.reference) in moved
        else pair
        for pair in pairs
        if pair.reference or id(pair.other) not in taken
    ]


def _in_order(
    reference: Sequence[CompilationSummary], other: Sequence[CompilationSummary]
) -> Iterator[Pair]:
    matcher = BoundedMatcher(list(map(_key, reference)), list(map(_key, other)), autojunk=False)
    for kind, start, end, other_start, other_end in matcher.get_opcodes():
        if kind == "equal":
            yield from map(Pair, reference[start:end], other[other_start:other_end])
        else:
            yield from _by_function(reference[start:end], list(other[other_start:other_end]))


def _by_function(
    reference: Sequence[CompilationSummary], other: list[CompilationSummary]
) -> Iterator[Pair]:
    """Pair those of one function that became another graph; what is left, only one of the ranks has."""
    for one in reference:
        found = next((two for two in other if _function(two) == _function(one)), None)
        if found is not None:
            other.remove(found)
        yield Pair(one, found)
    yield from (Pair(None, two) for two in other)


def _same(
    lacking: Sequence[CompilationSummary], extra: Sequence[CompilationSummary]
) -> Iterator[tuple[CompilationSummary, CompilationSummary]]:
    left = list(extra)
    for one in lacking:
        found = next((two for two in left if _key(two) == _key(one)), None)
        if found is not None:
            left.remove(found)
            yield one, found


def _key(one: CompilationSummary) -> str:
    return "\n".join((*_function(one), one.graph))


def _function(one: CompilationSummary) -> tuple[str, str]:
    return one.file, one.function
