"""This module has the results of comparing ranks: their differences (``RankFinding``), and which
rank waits for which (``Wait``). It also writes ranks in words: ``ranks 0 and 2``.

A collective continues when the last rank has come to it, and compiling its graph is what ranks are
late for. Nothing of what runs between is known, so a wait is what compiling alone explains.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fx_explorer.analysis.naming import called_function
from fx_explorer.analysis.words import listed, seconds
from fx_explorer.instruments.ranks.summary import CompilationSummary, RankSummary, began_together
from fx_explorer.session.file_names import in_file

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
    "reasons": "why functions were recompiled",
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
"""Aspect → its name in texts. The order is that of cause and effect."""

NOTED: tuple[Aspect, ...] = ("parts", "numbers", "guard_values")
"""Aspects that are mentioned but are not a divergence: a rank's own number, its part of the data
and its part of the model differ by design.
"""


@dataclass(frozen=True, slots=True)
class RankFinding:
    """One difference between a group of ranks and the ranks it is compared with."""

    aspect: Aspect
    ranks: tuple[int, ...]
    others: tuple[int, ...]
    position: int
    """Position of the compilation of the other ranks before which it is seen, from 0."""
    words: str
    compilation: str = ""
    """Name of the compilation on the ranks that differ; empty where they lack it."""
    other_compilation: str = ""
    function: str = ""
    file: str = ""
    """The user's line if it is known, else the first line of the function."""
    line: int = 0

    @property
    def is_divergence(self) -> bool:
        return self.aspect not in NOTED


MOST_RANGES = 6
"""Maximum number of ranges of ranks that are written out; alternating ranks have more."""


def format_ranks(ranks: Iterable[int]) -> str:
    """Return ``rank 3``, ``ranks 0 and 2`` or ``ranks 0–255``."""
    distinct = sorted(set(ranks))
    noun = "rank" if len(distinct) == 1 else "ranks"
    return f"{noun} {rank_numbers(distinct)}"


def rank_numbers(ranks: Iterable[int]) -> str:
    """Return ``0–3, 5 and 7``."""
    return listed(_ranges(sorted(set(ranks))), MOST_RANGES)


def describe_others(others: Collection[int], ranks: Collection[int], among: int) -> str:
    """Return ``the others`` when ``ranks`` and ``others`` together are all ``among`` ranks, else
    the numbers of ``others`` in words.
    """
    if len(others) > 1 and len(others) + len(ranks) == among:
        return "the others"
    return format_ranks(others)


def _ranges(ranks: list[int]) -> Iterator[str]:
    start = 0
    for at, rank in enumerate(ranks):
        if at + 1 == len(ranks) or ranks[at + 1] != rank + 1:
            if at - start >= 2:
                yield f"{ranks[start]}–{rank}"
            else:
                yield from map(str, ranks[start : at + 1])
            start = at + 1


# Who waits for whom.


NOTABLE_S = 0.5
"""Minimum wait that is mentioned, in seconds. Ranks never arrive at exactly the same time."""

AT_ONCE_S = 0.1
"""Seconds before the last rank within which a rank counts as last, too."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The time for which ranks wait for others at the collectives of one graph."""

    compilation: str
    function: str
    file: str
    line: int
    last: tuple[int, ...]
    """Ranks that reach the collective last."""
    first: int
    """The rank that arrives first, and so waits longest."""
    longest_s: float
    never: tuple[int, ...] = ()
    """Ranks that failed to compile the graph, and may never arrive."""
    waiting: tuple[int, ...] = ()
    """Ranks that compiled the graph and wait."""

    @property
    def description(self) -> str:
        where = (
            f"{called_function(self.function)} at {in_file(self.file, self.line)} "
            f"[{self.compilation}]"
        )
        if self.never:
            verb = "waits" if len(self.waiting) == 1 else "wait"
            it = "it" if len(self.never) == 1 else "they"
            late = (
                f"{it} may never reach its collectives, in which {format_ranks(self.waiting)} "
                f"{verb}"
            )
            return f"{format_ranks(self.never)} failed to compile {where}: {late}"
        verb = "reaches" if len(self.last) == 1 else "reach"
        late = (
            f"{format_ranks(self.last)} {verb} the collectives of {where} "
            f"{seconds(self.longest_s)} after rank {self.first}"
        )
        return f"{late}; if the clocks agree, it waits that long in them"


def waits(summaries: Sequence[RankSummary]) -> list[Wait]:
    """Return the waits of ranks, the longest first; waits that may never end come before all."""
    by_name: dict[str, list[tuple[int, CompilationSummary]]] = {}
    for rank in summaries:
        for compilation in rank.compilations:
            if compilation.has_collectives:
                by_name.setdefault(compilation.name, []).append((rank.rank, compilation))
    has_clock = began_together(summaries)
    all_waits: list[Wait] = []
    for arrivals in by_name.values():
        all_waits += _at(arrivals, has_clock)
    return sorted(all_waits, key=lambda wait: (not wait.never, -wait.longest_s))


def _at(arrivals: Sequence[tuple[int, CompilationSummary]], has_clock: bool) -> Iterator[Wait]:
    first_row = arrivals[0][1]
    where = (first_row.name, first_row.function, first_row.file, first_row.line)
    came: list[tuple[float, int]] = []
    failed: list[int] = []
    for rank, compilation in arrivals:
        if compilation.status in ("ok", "broke"):
            came.append((compilation.end_s, rank))
        elif compilation.status == "failed":
            failed.append(rank)
    if not came:
        return
    first_s, first = min(came)
    last_s, _ = max(came)
    if failed:
        waiting = tuple(sorted(rank for _, rank in came))
        yield Wait(*where, (), first, 0.0, tuple(failed), waiting)
    elif has_clock and last_s - first_s >= NOTABLE_S:
        last = tuple(sorted(rank for end_s, rank in came if last_s - end_s <= AT_ONCE_S))
        yield Wait(*where, last, first, last_s - first_s)
