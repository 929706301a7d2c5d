"""This module finds where a group of ranks first diverges from the others, and all further
differences, from their summaries alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from fx_explorer.analysis.naming import RESUME, called_function
from fx_explorer.analysis.words import listed, seconds
from fx_explorer.instruments.ranks.groups import (
    Pair,
    RankGroup,
    aligned,
    have_other_parts,
    have_same_role,
    is_other_part,
    may_be_a_part,
    noted_parts,
)
from fx_explorer.instruments.ranks.rank_finding import (
    ASPECTS,
    Aspect,
    RankFinding,
    describe_others,
    format_ranks,
)
from fx_explorer.instruments.ranks.summary import CompilationSummary, RankSummary
from fx_explorer.session.file_names import in_file
from fx_explorer.torch_texts.reports import error_of_backend

MOST_OF_AN_ERROR = 160

_ORDER = {aspect: at for at, aspect in enumerate(ASPECTS)}


def findings(groups: Sequence[RankGroup]) -> list[RankFinding]:
    """Return the differences of each group from the first group of its role, the earliest
    difference first. ``groups`` are as ``alike`` returns them.
    """
    among = sum(len(group.members) for group in groups)
    found: list[RankFinding] = []
    firsts = list(groups[:1])
    """First group of each role."""
    for group in groups[1:]:
        of_role = (first for first in firsts if have_same_role(first.first, group.first))
        reference = next(of_role, None)
        if reference is None:
            firsts.append(group)
        found += _Comparison(reference or groups[0], group, among).findings()
    found += [finding for group in groups for finding in _noted_within(group, among)]
    return sorted(
        found, key=lambda finding: (finding.position, _ORDER[finding.aspect], finding.ranks)
    )


def first_divergence(found: Sequence[RankFinding]) -> RankFinding | None:
    return next((finding for finding in found if finding.is_divergence), None)


def differing_ranks(rank_findings: Sequence[RankFinding]) -> tuple[int, ...]:
    """Return the ranks that diverge from those they are compared with."""
    ranks: set[int] = set()
    for finding in rank_findings:
        if finding.is_divergence:
            ranks.update(finding.ranks)
    return tuple(sorted(ranks))


def _noted_within(group: RankGroup, among: int) -> Iterator[RankFinding]:
    """Yield the intended differences between equal ranks: each aspect once, at its first
    compilation.
    """
    for aspect, parts in noted_parts(group).items():
        one, two = (RankGroup(part) for part in parts[:2])
        all_findings = list(_Comparison(one, two, among).findings())
        of_aspect = [finding for finding in all_findings if finding.aspect == aspect]
        yield from of_aspect[:1]


class _Comparison:
    """Finds the differences between one group of ranks and the first group."""

    def __init__(self, reference: RankGroup, group: RankGroup, among: int) -> None:
        self._reference = reference
        self._group = group
        self._these = format_ranks(group.ranks)
        self._those = describe_others(reference.ranks, group.ranks, among)
        self._has_other_part = False

    def findings(self) -> Iterator[RankFinding]:
        reference, group = self._reference.first, self._group.first
        if (
            (reference.torch, reference.python) != (group.torch, group.python)
            and group.torch
            and reference.torch
        ):
            versions = [
                f"torch {rank.torch} and Python {rank.python}" for rank in (group, reference)
            ]
            yield self._finding(
                "torch", 0, f"{self._these} ran {versions[0]}, {self._those} {versions[1]}"
            )
        pairs = aligned(reference.compilations, group.compilations)
        self._has_other_part = have_other_parts(pairs)
        reference_end = _known_end(reference, pairs)
        group_end = _known_end(group, pairs)
        has_shifted, position = False, 0
        for at, pair in enumerate(pairs):
            if pair.reference and pair.other:
                yield from self._of_pair(pair, position, has_shifted)
            elif pair.reference and at < group_end:
                yield self._missing(pair.reference, position)
            elif pair.other and at < reference_end:
                yield self._extra(pair.other, position)
            has_shifted = has_shifted or pair.is_moved or not (pair.reference and pair.other)
            position += pair.reference is not None
        has_order = bool(reference.executed and group.executed) and not self._has_other_part
        if has_order and reference.executed != group.executed:
            words = f"{self._these} and {self._those} ran the compiled graphs in different orders"
            yield self._finding("executed", position, words)

    def _missing(self, compilation: CompilationSummary, position: int) -> RankFinding:
        if self._is_part(compilation):
            words = (
                f"{self._those} compiled {_function(compilation)} for a part of the model that is "
                f"not on {self._these}"
            )
            return self._finding("parts", position, words, reference=compilation)
        again = " again" if _is_recompile(compilation) else ""
        words = (
            f"{self._these} did not compile {_function(compilation)}{again}, but {self._those} did"
        )
        return self._finding("missing", position, words, reference=compilation)

    def _extra(self, compilation: CompilationSummary, position: int) -> RankFinding:
        if self._is_part(compilation):
            words = (
                f"{self._these} compiled {_function(compilation)} for a part of the model that is "
                f"not on {self._those}"
            )
            return self._finding("parts", position, words, other=compilation)
        verb = "recompiled" if _is_recompile(compilation) else "compiled"
        if compilation.has_collectives:
            took = f" (in {seconds(compilation.duration_s)}, during which its collectives wait)"
        else:
            took = ""
        words = f"{self._these} {verb} {_function(compilation)}{took}, but {self._those} did not"
        return self._finding("extra", position, words, other=compilation)

    def _of_pair(self, pair: Pair, position: int, has_shifted: bool) -> Iterator[RankFinding]:
        one, two = pair.reference, pair.other
        assert one is not None
        assert two is not None
        if is_other_part(one, two):
            for aspect, words in self._of_parts(one, two):
                yield self._finding(aspect, position, words, one, two)
            return
        function = _function(two)
        told: list[tuple[Aspect, str]] = []
        if pair.is_moved or (one.name != two.name and not has_shifted):
            told += [
                (
                    "order",
                    (
                        f"{self._these} compiled {function} as [{two.name}], {self._those} as "
                        f"[{one.name}]"
                    ),
                )
            ]
        is_other_graph = bool(
            one.graph != two.graph and (two.graph or two.has_ended) and (one.graph or one.has_ended)
        )
        if (one.has_failed and not one.graph) or (two.has_failed and not two.graph):
            is_other_graph = False  # it failed before there was any
        if is_other_graph:
            told += [
                (
                    "graph",
                    (f"the graph of {function} differs between {self._these} and {self._those}"),
                )
            ]
        told += self._of_tensors(one, two, is_other_graph)
        if one.has_failed != two.has_failed and not (one.has_ended and two.has_ended):
            told.append(("status", self._statuses(one, two)))
        if one.has_ended and two.has_ended:
            told += self._of_ended(one, two, is_other_graph)
        for aspect, words in told:
            yield self._finding(aspect, position, words, one, two)

    def _of_parts(
        self, one: CompilationSummary, two: CompilationSummary
    ) -> Iterator[tuple[Aspect, str]]:
        """Yield the differences of graphs that are different parts of the model, and so differ by
        design.
        """
        part = (
            f"{self._these} and {self._those} compiled different parts of the model as "
            f"{_function(two)}"
        )
        yield "parts", f"{part}: their graphs are not compared"
        if one.has_failed != two.has_failed:
            yield "status", self._statuses(one, two)
        elif one.breaks != two.breaks and one.has_ended and two.has_ended:
            yield (
                "breaks",
                _BREAKS.format(these=self._these, those=self._those, function=_function(two)),
            )

    def _is_part(self, compilation: CompilationSummary) -> bool:
        is_first = not _is_recompile(compilation) and not compilation.function.startswith(RESUME)
        return self._has_other_part and is_first and may_be_a_part(compilation)

    def _of_tensors(
        self, one: CompilationSummary, two: CompilationSummary, is_other_graph: bool
    ) -> list[tuple[Aspect, str]]:
        if one.inputs != two.inputs and one.inputs and two.inputs:
            words = (
                f"{self._these} and {self._those} compiled {_function(two)} for inputs of "
                "different sizes or types"
            )
            return [("inputs", words)]
        if one.tensors != two.tensors and not is_other_graph and one.tensors and two.tensors:
            words = (
                f"values in the graph of {_function(two)} have different sizes or types on "
                f"{self._these} and on {self._those}"
            )
            return [("tensors", words)]
        return []

    def _of_ended(
        self, one: CompilationSummary, two: CompilationSummary, is_other_graph: bool
    ) -> Iterator[tuple[Aspect, str]]:
        if one.status != two.status:
            yield "status", self._statuses(one, two)
        if one.cache != two.cache:
            yield "cache", self._caches(one, two)
        if is_other_graph or one.status != two.status:
            return  # what follows can be no other than different
        if _are_collectives_other(one, two):
            yield (
                "collectives",
                (
                    f"{self._these} and {self._those} have the collectives of {_function(two)} in "
                    "different orders"
                ),
            )
        for aspect, read, words in _OF_EQUAL_GRAPHS:
            is_told_by_both = bool(read(one) and read(two))
            if read(one) != read(two) and (is_told_by_both or aspect not in ("results", "guards")):
                yield (
                    aspect,
                    words.format(these=self._these, those=self._those, function=_function(two)),
                )

    def _statuses(self, one: CompilationSummary, two: CompilationSummary) -> str:
        these, those = (STATUS_WORDS.get(row.status, row.status) for row in (two, one))
        stage = f" in {two.failed_in}" if two.failed_in else ""
        file, line = two.failed_at
        is_known = bool(file) and (file, line) != (two.file, two.line)
        at = f" ({in_file(file, line)})" if is_known else ""
        because = f": {_short(two.error)}{at}" if two.error else ""
        words = f"{self._these} {these} {_function(two)}{stage}, {self._those} {those} it{because}"
        if one.error and not two.error:
            return f"{words} (on {self._those}: {_short(one.error)})"
        return words

    def _caches(self, one: CompilationSummary, two: CompilationSummary) -> str:
        these, those = _cache_answers(two), _cache_answers(one)
        return (
            f"torch's caches answered differently for {_function(two)}: {self._these} {these}, "
            f"{self._those} {those}"
        )

    def _finding(
        self,
        aspect: Aspect,
        position: int,
        words: str,
        reference: CompilationSummary | None = None,
        other: CompilationSummary | None = None,
    ) -> RankFinding:
        place = other or reference
        if place:
            function, file, line = place.function, place.file, place.line
        else:
            function, file, line = "", "", 0
        return RankFinding(
            aspect,
            self._group.ranks,
            self._reference.ranks,
            position,
            words,
            _name(other),
            _name(reference),
            function,
            file,
            line,
        )


_BREAKS = "{function} has different graph breaks on {these} and on {those}"

_OF_EQUAL_GRAPHS: tuple[tuple[Aspect, Callable[[CompilationSummary], str], str], ...] = (
    (
        "reasons",
        lambda compilation: compilation.reasons,
        "{function} was recompiled for different reasons on {these} and on {those}",
    ),
    (
        "breaks",
        lambda compilation: compilation.breaks,
        _BREAKS,
    ),
    (
        "guards",
        lambda compilation: compilation.guards,
        "{function} has different guards on {these} and on {those}",
    ),
    (
        "results",
        lambda compilation: compilation.results,
        "the compiled {function} returns different sizes or types on {these} and on {those}",
    ),
    (
        "numbers",
        lambda compilation: compilation.numbers,
        "{function} computes with different numbers on {these} and on {those}",
    ),
    (
        "guard_values",
        lambda compilation: compilation.guard_values,
        "the guards of {function} have different numbers on {these} and on {those}",
    ),
)
"""Aspects that are compared between ranks whose graphs have the same operations."""


def _are_collectives_other(one: CompilationSummary, two: CompilationSummary) -> bool:
    """Return whether the collectives of two compilations differ: in Inductor's order where both
    ranks have it.
    """
    if one.scheduled_collectives and two.scheduled_collectives:
        return one.scheduled_collectives != two.scheduled_collectives
    return one.traced_collectives != two.traced_collectives


STATUS_WORDS = {
    "ok": "compiled",
    "broke": "compiled up to a graph break",
    "failed": "failed to compile",
    "skipped": "not compiled, runs in eager mode",
    "running": "was still compiling",
}

_CACHE_EVENTS = {"hit": "hit", "miss": "missed", "bypass": "passed by", "saved": "wrote to"}

_CACHES = {
    "fx_graph": "the FX graph cache",
    "aotautograd": "AOTAutograd's cache",
    "dynamo": "Dynamo's cache",
}


def describe_cache(event: str) -> str:
    """Return ``missed the FX graph cache`` for ``fx_graph_cache_miss``."""
    cache, _, answer = event.rpartition("_cache_")
    if cache:
        return f"{_CACHE_EVENTS.get(answer, answer)} {_CACHES.get(cache, cache)}"
    return event


def _function(compilation: CompilationSummary) -> str:
    if compilation.function:
        text = called_function(compilation.function)
    else:
        text = "a function"
    if compilation.file:
        return f"{text} at {in_file(compilation.file, compilation.line)}"
    return f"[{compilation.name}]"


def _short(error: str) -> str:
    error = error_of_backend(error)
    if len(error) <= MOST_OF_AN_ERROR:
        return error
    return f"{error[: MOST_OF_AN_ERROR - 1].rstrip()}…"


def _is_recompile(compilation: CompilationSummary) -> bool:
    return compilation.name.partition("#")[0].rpartition("/")[2] not in ("", "0")


def _known_end(rank: RankSummary, pairs: Sequence[Pair]) -> int:
    """Return the number of pairs for which the rank's data is complete."""
    return _last_of_both(pairs) if rank.unknown_end else len(pairs)


def _cache_answers(compilation: CompilationSummary) -> str:
    if not compilation.cache:
        return "asked none"
    return listed(map(describe_cache, compilation.cache))


def _name(compilation: CompilationSummary | None) -> str:
    return compilation.name if compilation else ""


def _last_of_both(pairs: Sequence[Pair]) -> int:
    """Return the number of pairs up to the last that both sides have: a log that was cut off says
    nothing about later ones.
    """
    return max(
        (at + 1 for at, pair in enumerate(pairs) if pair.reference and pair.other), default=0
    )
