"""Who waits for whom: a collective continues when the last rank has come to it, and compiling its
graph is what ranks are late for. Nothing of what runs between is known, so this is what compiling
alone explains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fx_explorer.analysis.naming import called_function
from fx_explorer.analysis.words import seconds
from fx_explorer.instruments.ranks.finding import rank_words
from fx_explorer.instruments.ranks.summary import CompilationSummary, RankSummary, began_together
from fx_explorer.session.file_names import in_file

NOTABLE_S = 0.5
"""Shorter waits are not told: ranks never come at once."""

AT_ONCE_S = 0.1
"""Ranks that are so near to the last count as last, too."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Ranks at the collectives of one graph."""

    compilation: str
    function: str
    file: str
    line: int
    last: tuple[int, ...]
    """The ranks that come last."""
    first: int
    """The rank that comes first, and waits longest."""
    longest_s: float
    never: tuple[int, ...] = ()
    """Ranks that failed to compile the graph, and may never come."""
    waiting: tuple[int, ...] = ()
    """The ranks that compiled it."""

    @property
    def in_words(self) -> str:
        where = (
            f"{called_function(self.function)} at {in_file(self.file, self.line)} "
            f"[{self.compilation}]"
        )
        if self.never:
            verb = "waits" if len(self.waiting) == 1 else "wait"
            it = "it" if len(self.never) == 1 else "they"
            late = (
                f"{it} may never come to its collectives, in which {rank_words(self.waiting)} "
                f"{verb}"
            )
            return f"{rank_words(self.never)} failed to compile {where}: {late}"
        verb = "comes" if len(self.last) == 1 else "come"
        late = (
            f"{rank_words(self.last)} {verb} to the collectives of {where} "
            f"{seconds(self.longest_s)} after rank {self.first}"
        )
        return f"{late}, which waits in them so long if the clocks agree"


def waits(summaries: Sequence[RankSummary]) -> list[Wait]:
    """Return where ranks wait, the longest first; what never comes before all."""
    by_name: dict[str, list[tuple[int, CompilationSummary]]] = {}
    for rank in summaries:
        for compilation in rank.compilations:
            if compilation.has_collectives:
                by_name.setdefault(compilation.name, []).append((rank.rank, compilation))
    has_clock = began_together(summaries)
    found = [wait for arrivals in by_name.values() for wait in _at(arrivals, has_clock)]
    return sorted(found, key=lambda wait: (not wait.never, -wait.longest_s))


def _at(arrivals: Sequence[tuple[int, CompilationSummary]], has_clock: bool) -> Iterator[Wait]:
    compilation_summary = arrivals[0][1]
    where = (
        compilation_summary.name,
        compilation_summary.function,
        compilation_summary.file,
        compilation_summary.line,
    )
    came = [
        (compilation.end_s, rank)
        for rank, compilation in arrivals
        if compilation.status in ("ok", "broke")
    ]
    failed = tuple(rank for rank, compilation in arrivals if compilation.status == "failed")
    if failed and came:
        yield Wait(*where, (), min(came)[1], 0.0, failed, tuple(sorted(rank for _, rank in came)))
    elif has_clock and len(came) > 1:
        last_s, (first_s, first) = max(came)[0], min(came)
        if last_s - first_s >= NOTABLE_S:
            last = tuple(sorted(rank for end_s, rank in came if last_s - end_s <= AT_ONCE_S))
            yield Wait(*where, last, first, last_s - first_s)
