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
    spans = [one for rank in ranks for one in rank.compilations if one.has_ended]
    if not spans or not began_together(one for group in groups for one in group.members):
        return None
    start_s, end_s = min(one.start_s for one in spans), max(one.end_s for one in spans)
    latest = _latest(ranks)
    scale = (width - 1) / max(end_s - start_s, 1e-9)
    rows = [TimeLineRow(rank.rank, _cells(rank, latest, start_s, scale, width)) for rank in ranks]
    total = sum(len(group.members) for group in groups)
    return TimeLine(tuple(rows), _axis(end_s - start_s, width), total - len(rows))


def _shown(groups: Sequence[RankGroup]) -> list[RankSummary]:
    """Return all ranks; of many, the first of each group, and of the largest group those that end
    first and last.
    """
    members = [one for group in groups for one in group.members]
    if len(members) > MOST_ROWS:
        firsts = [group.first for group in groups[: MOST_ROWS - 2]]
        by_end = sorted(
            (one for one in groups[0].members if one.compilations),
            key=lambda one: one.compilations[-1].end_s,
        )
        members = list({one.rank: one for one in (*firsts, *by_end[:1], *by_end[-1:])}.values())
    return sorted(members, key=lambda one: one.rank)


def _latest(ranks: Sequence[RankSummary]) -> dict[str, float]:
    """Return when the last rank has compiled each graph with collectives."""
    found: dict[str, float] = {}
    for rank in ranks:
        for one in rank.compilations:
            if one.has_collectives and one.has_ended:
                found[one.name] = max(found.get(one.name, 0.0), one.end_s)
    return found


def _cells(
    rank: RankSummary, latest: dict[str, float], start_s: float, scale: float, width: int
) -> str:
    cells = [NOTHING] * width

    def fill(first_s: float, last_s: float, sign: str) -> None:
        first, last = int((first_s - start_s) * scale), int((last_s - start_s) * scale)
        cells[max(0, first) : min(width, last + 1)] = sign * (min(width, last + 1) - max(0, first))

    for one in rank.compilations:
        if one.has_collectives and one.status in ("ok", "broke"):
            fill(one.end_s, latest.get(one.name, one.end_s), WAITS)
    for at, one in enumerate(rank.compilations):
        if one.has_ended:
            fill(one.start_s, one.end_s, _sign(one, at))
    for one in rank.compilations:
        if one.status == "failed":
            fill(one.end_s, one.end_s, FAILS)
    return "".join(cells)


def _sign(one: CompilationSummary, at: int) -> str:
    return COMPILES_OTHERS if at % 2 else COMPILES


def _axis(whole_s: float, width: int) -> str:
    last = seconds(whole_s)
    return "0" + last.rjust(width - 1)
