"""Ranks that are alike, together: 256 of them make a few groups."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fx_explorer.instruments.ranks.rank_finding import ASPECTS, NOTED, Aspect
from fx_explorer.instruments.ranks.summary import CompilationSummary, RankSummary
from fx_explorer.model.bounded_matching import BoundedMatcher

# Which compilation of one rank is which of another: by function and graph, since torch numbers
# each rank's by itself.


class Pair(NamedTuple):
    """A compilation on two ranks; None for the rank that lacks it."""

    reference: CompilationSummary | None
    other: CompilationSummary | None
    is_moved: bool = False
    """Whether the ranks have the compilation at different positions among the others."""


def aligned(
    reference: Sequence[CompilationSummary], other: Sequence[CompilationSummary]
) -> list[Pair]:
    """Pair the compilations of two ranks, in the order of the reference."""
    pairs = list(_in_order(reference, other))
    lacking = [pair.reference for pair in pairs if pair.reference and not pair.other]
    extra = [pair.other for pair in pairs if pair.other and not pair.reference]
    moved = {id(one): two for one, two in _same(lacking, extra)}
    taken = {id(two) for two in moved.values()}
    with_moved = []
    for pair in pairs:
        if id(pair.reference) in moved:
            with_moved.append(Pair(pair.reference, moved[id(pair.reference)], is_moved=True))
        elif pair.reference or id(pair.other) not in taken:
            with_moved.append(pair)
    return with_moved


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
    """Pair compilations of one function whose graphs differ. Compilations that only one rank has
    are paired with None.
    """
    for compilation in reference:
        function = _function(compilation)
        match = next((theirs for theirs in other if _function(theirs) == function), None)
        if match is not None:
            other.remove(match)
        yield Pair(compilation, match)
    for compilation in other:
        yield Pair(None, compilation)


def _same(
    lacking: Sequence[CompilationSummary], extra: Sequence[CompilationSummary]
) -> Iterator[tuple[CompilationSummary, CompilationSummary]]:
    left = list(extra)
    for compilation in lacking:
        key = _key(compilation)
        match = next((theirs for theirs in left if _key(theirs) == key), None)
        if match is not None:
            left.remove(match)
            yield compilation, match


def _key(compilation: CompilationSummary) -> str:
    return "\n".join((*_function(compilation), compilation.graph))


def _function(compilation: CompilationSummary) -> tuple[str, str]:
    return compilation.file, compilation.function


# Which part of a model a rank has. The stages of a pipeline compile different graphs by design;
# the ranks of one stage, and those that hold the same model, do not.


def is_other_part(one: CompilationSummary, two: CompilationSummary) -> bool:
    """Return whether two compilations of one function belong to different parts of a model: they
    compute with other modules, or, in a pipeline schedule, have other collectives.

    Ranks that share one model (DDP, FSDP, DTensor, collectives in the graph) have no parts of their
    own: there another module is a divergence.
    """
    is_pipeline = one.is_of_pipeline or two.is_of_pipeline
    is_other_module = bool(one.modules and two.modules and one.modules != two.modules)
    if is_pipeline:
        return is_other_module or one.traced_collectives != two.traced_collectives
    return is_other_module and not (one.is_of_shared_model or two.is_of_shared_model)


def may_be_a_part(compilation: CompilationSummary) -> bool:
    """Return whether a compilation that only one rank has may be its part of a model."""
    return bool(compilation.modules) and (
        compilation.is_of_pipeline or not compilation.is_of_shared_model
    )


def have_other_parts(pairs: Sequence[Pair]) -> bool:
    """Return whether two ranks have different parts of a model, by their compilations side by
    side.
    """
    for one, two, _ in pairs:
        if one and two and is_other_part(one, two):
            return True
    lacking = [pair.reference for pair in pairs if pair.reference and not pair.other]
    extra = [pair.other for pair in pairs if pair.other and not pair.reference]
    return any(map(may_be_a_part, lacking)) and any(map(may_be_a_part, extra))


def have_same_role(one: RankSummary, two: RankSummary) -> bool:
    return not have_other_parts(aligned(one.compilations, two.compilations))


# Ranks that did the same, as groups.


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks without any divergence among themselves."""

    members: tuple[RankSummary, ...]
    """Ranks of the group, in the order of their numbers."""

    @property
    def first(self) -> RankSummary:
        """Return the first member, which represents all."""
        return self.members[0]

    @property
    def ranks(self) -> tuple[int, ...]:
        return tuple(rank.rank for rank in self.members)


def alike(summaries: Iterable[RankSummary]) -> list[RankGroup]:
    """Return the groups of ranks that are alike. The first is the reference for the others: the
    largest group whose end is known and in which nothing failed; of equally large ones, the group
    with the lowest rank.
    """
    groups = [RankGroup(tuple(members)) for members in _grouped(summaries, _all_that_counts)]
    return sorted(
        groups,
        key=lambda group: (
            group.first.has_failed,
            bool(group.first.unknown_end),
            -len(group.members),
            group.first.rank,
        ),
    )


def without_differing_records(
    groups: Sequence[RankGroup], differing: Sequence[int]
) -> list[RankGroup]:
    """Add those ranks to the first group whose logs only lack records, so that they do not diverge
    from it. Ranks whose end is unknown, and ranks of another part of the model, stay separate.
    """
    first = groups[0]
    members = list(first.members)
    others = []
    for group in groups[1:]:
        diverges = not set(group.ranks).isdisjoint(differing)
        is_comparable = not group.first.unknown_end and have_same_role(first.first, group.first)
        if is_comparable and not diverges:
            members += group.members
        else:
            others.append(group)
    members.sort(key=lambda rank: rank.rank)
    return [RankGroup(tuple(members)), *others]


def agreement(summaries: Sequence[RankSummary]) -> dict[Aspect, list[tuple[int, ...]]]:
    """Return for each aspect the groups of ranks that agree in it. A single group means that all
    agree.
    """
    agreed: dict[Aspect, list[tuple[int, ...]]] = {}
    for aspect, read in _READS.items():
        groups = _grouped(summaries, read)
        agreed[aspect] = [tuple(rank.rank for rank in members) for members in groups]
    return agreed


def known_aspects(summaries: Sequence[RankSummary]) -> set[Aspect]:
    """Return the aspects for which the files have any data. A text of torch's logging contains only
    the requested logs, so that a missing entry means nothing.
    """
    if not any(rank.is_text for rank in summaries):
        return set(_READS)
    compilations = [compilation for rank in summaries for compilation in rank.compilations]
    known: set[Aspect] = {"missing", "order"}
    for aspect, field in _FIELDS.items():
        if any(getattr(compilation, field) for compilation in compilations):
            known.add(aspect)
    return known


def noted_parts(group: RankGroup) -> dict[Aspect, list[tuple[RankSummary, ...]]]:
    """Return the notes on a group: for each aspect in which its members differ without diverging,
    the subsets that agree, the largest first.
    """
    noted: dict[Aspect, list[tuple[RankSummary, ...]]] = {}
    for aspect in NOTED:
        if aspect == "parts":  # in which no group differs
            continue
        parts = [tuple(part) for part in _grouped(group.members, _READS[aspect])]
        if len(parts) > 1:
            noted[aspect] = sorted(parts, key=lambda part: (-len(part), part[0].rank))
    return noted


def _grouped(
    summaries: Iterable[RankSummary], key: Callable[[RankSummary], Hashable]
) -> list[list[RankSummary]]:
    found: dict[Hashable, list[RankSummary]] = {}
    for rank in sorted(summaries, key=lambda rank: rank.rank):
        found.setdefault(key(rank), []).append(rank)
    return list(found.values())


def _all_that_counts(rank: RankSummary) -> Hashable:
    return (
        rank.torch,
        rank.python,
        rank.executed,
        rank.unknown_end,
        tuple(_all_that_counts_of(compilation) for compilation in rank.compilations),
    )


def _all_that_counts_of(compilation: CompilationSummary) -> Hashable:
    return (
        compilation.name,
        compilation.function,
        compilation.file,
        compilation.line,
        compilation.status,
        compilation.graph,
        compilation.inputs,
        compilation.tensors,
        compilation.guards,
        compilation.breaks,
        compilation.reasons,
        compilation.cache,
        compilation.traced_collectives,
        compilation.scheduled_collectives,
        compilation.modules,
        compilation.results,
    )


def _of_each(read: Callable[[CompilationSummary], Hashable]) -> Callable[[RankSummary], Hashable]:
    return lambda rank: tuple(
        (compilation.name, read(compilation)) for compilation in rank.compilations
    )


_FIELDS: dict[Aspect, str] = {
    "reasons": "reasons",
    "graph": "graph",
    "inputs": "inputs",
    "tensors": "tensors",
    "breaks": "breaks",
    "guards": "guards",
    "collectives": "traced_collectives",
    "numbers": "numbers",
    "guard_values": "guard_values",
}
"""Aspect → the field of CompilationSummary that it compares, for aspects that a text log
may lack.
"""

_READS: dict[Aspect, Callable[[RankSummary], Hashable]] = {
    "torch": lambda rank: (rank.torch, rank.python),
    "missing": lambda rank: frozenset(compilation.name for compilation in rank.compilations),
    "parts": _of_each(lambda compilation: compilation.modules),
    "order": lambda rank: tuple(compilation.name for compilation in rank.compilations),
    "reasons": _of_each(lambda compilation: compilation.reasons),
    "graph": _of_each(lambda compilation: compilation.graph),
    "inputs": _of_each(lambda compilation: compilation.inputs),
    "tensors": _of_each(lambda compilation: compilation.tensors),
    "breaks": _of_each(lambda compilation: compilation.breaks),
    "guards": _of_each(lambda compilation: compilation.guards),
    "cache": _of_each(lambda compilation: compilation.cache),
    "collectives": _of_each(
        lambda compilation: compilation.scheduled_collectives or compilation.traced_collectives
    ),
    "results": _of_each(lambda compilation: compilation.results),
    "status": _of_each(lambda compilation: compilation.status),
    "executed": lambda rank: rank.executed,
    "numbers": _of_each(lambda compilation: compilation.numbers),
    "guard_values": _of_each(lambda compilation: compilation.guard_values),
}
"""Aspect → a function of a rank whose result is equal on ranks that agree in it."""

assert set(_READS) | {"extra"} == set(ASPECTS)
