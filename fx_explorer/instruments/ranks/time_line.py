"""When each rank compiled, on one axis, in cells of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer.analysis.words import seconds
from fx_explorer.instruments.ranks.groups import RankGroup
from fx_explorer.instruments.ranks.summary import CompilationSummary, RankSummary, began_together

COMPILES, COMPILES_OTHERS, WAITS, FAILS, NOTHING = "█", "▓", "·", "x", " "
"""Signs of the chart. Neighbouring compilations take turns between the first two."""

LEGEND = (
    f"{COMPILES} or {COMPILES_OTHERS} compiles   {WAITS} would wait in a collective for a "
    "rank that still compiles it   "
    f"{FAILS} failed"
)

MOST_ROWS = 32
"""Ranks that have a row of their own; where there are more, a few of each group."""


@dataclass(frozen=True, slots=True)
class TimeLineRow:
    rank: int
    cells: str


@dataclass(frozen=True, slots=True)
class TimeLine:
    rows: tuple[TimeLineRow, ...]
    axis: str
    left_out: int
    """Ranks without a row."""


def time_line(groups: Sequence[RankGroup], width: int) -> TimeLine | None:
    """Return the chart, ``width`` cells wide; None where nothing was compiled, or the ranks have no
    common clock.
    """
    ranks = _shown(groups)
    spans = [
        compilation for rank in ranks for compilation in rank.compilations if compilation.has_ended
    ]
    if not spans or not began_together(rank for group in groups for rank in group.members):
        return None
    start_s, end_s = (
        min(compilation.start_s for compilation in spans),
        max(compilation.end_s for compilation in spans),
    )
    latest = _latest(ranks)
    scale = (width - 1) / max(end_s - start_s, 1e-9)
    rows = [TimeLineRow(rank.rank, _cells(rank, latest, start_s, scale, width)) for rank in ranks]
    total = sum(len(group.members) for group in groups)
    return TimeLine(tuple(rows), _axis(end_s - start_s, width), total - len(rows))


def _shown(groups: Sequence[RankGroup]) -> list[RankSummary]:
    """Return all ranks; of many, the first of each group, and of the largest group those that end
    first and last.
    """
    members = [rank for group in groups for rank in group.members]
    if len(members) > MOST_ROWS:
        firsts = [group.first for group in groups[: MOST_ROWS - 2]]
        by_end = sorted(
            (rank for rank in groups[0].members if rank.compilations),
            key=lambda rank: rank.compilations[-1].end_s,
        )
        members = list({rank.rank: rank for rank in (*firsts, *by_end[:1], *by_end[-1:])}.values())
    return sorted(members, key=lambda rank: rank.rank)


def _latest(ranks: Sequence[RankSummary]) -> dict[str, float]:
    """Return when the last rank has compiled each graph with collectives."""
    found: dict[str, float] = {}
    for rank in ranks:
        for compilation in rank.compilations:
            if compilation.has_collectives and compilation.has_ended:
                found[compilation.name] = max(found.get(compilation.name, 0.0), compilation.end_s)
    return found


def _cells(
    rank: RankSummary, latest: dict[str, float], start_s: float, scale: float, width: int
) -> str:
    cells = [NOTHING] * width

    def fill(first_s: float, last_s: float, sign: str) -> None:
        first, last = int((first_s - start_s) * scale), int((last_s - start_s) * scale)
        cells[max(0, first) : min(width, last + 1)] = sign * (min(width, last + 1) - max(0, first))

    for compilation in rank.compilations:
        if compilation.has_collectives and compilation.status in ("ok", "broke"):
            fill(compilation.end_s, latest.get(compilation.name, compilation.end_s), WAITS)
    for at, compilation in enumerate(rank.compilations):
        if compilation.has_ended:
            fill(compilation.start_s, compilation.end_s, _sign(compilation, at))
    for compilation in rank.compilations:
        if compilation.status == "failed":
            fill(compilation.end_s, compilation.end_s, FAILS)
    return "".join(cells)


def _sign(one: CompilationSummary, at: int) -> str:
    return COMPILES_OTHERS if at % 2 else COMPILES


def _axis(whole_s: float, width: int) -> str:
    last = seconds(whole_s)
    return "0" + last.rjust(width - 1)
