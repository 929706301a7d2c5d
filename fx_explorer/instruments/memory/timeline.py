"""The timeline of a step as rows that fit a screen: kernel calls that follow one another on the
same line of the user's are one row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from fx_explorer import model
from fx_explorer.instruments.memory.step import KINDS, MemoryKind, StepMoment
from fx_explorer.instruments.memory.usage import Point, Usage


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """Kernel calls in a row, with the most that is held during any of them."""

    moment: StepMoment
    """The call at which most is held."""
    point: Point
    calls: int

    @property
    def node(self) -> model.Node | None:
        return self.moment.call.node


Stop = tuple[StepMoment, Point]


def timeline(used: Usage, most: int | None = None) -> list[TimelineRow]:
    """Return the rows of a step; at most about ``most``, neighbours then share one. The row with
    the peak stays.
    """
    rows = [_row(list(stops)) for _, stops in groupby(used.at_moments(), _line_of)]
    if most is None or len(rows) <= most:
        return rows
    return list(_together(rows, -(-len(rows) // most)))


def _line_of(stop: Stop) -> tuple[object, ...]:
    moment, node = stop[0], stop[0].call.node
    return (
        moment.compilation,
        moment.direction,
        (node.file, node.line, node.module) if node else moment.call.name,
    )


def _row(stops: Sequence[Stop]) -> TimelineRow:
    moment, point = max(stops, key=lambda stop: stop[1].total_bytes)
    return TimelineRow(moment, point, len(stops))


def _together(rows: Sequence[TimelineRow], count: int) -> Iterator[TimelineRow]:
    """Yield one row for every ``count`` that follow one another, never across forward and backward."""
    for _, members in groupby(rows, lambda row: (row.moment.compilation, row.moment.direction)):
        own = list(members)
        for at in range(0, len(own), count):
            some = own[at : at + count]
            most = max(some, key=lambda row: row.point.total_bytes)
            yield TimelineRow(most.moment, most.point, sum(row.calls for row in some))


SHADES: dict[MemoryKind, str] = {
    "parameter": "█",
    "buffer": "█",
    "input": "█",
    "optimizer": "█",
    "activation": "▓",
    "output": "▒",
    "tangent": "▒",
    "gradient": "▒",
    "temporary": "░",
    "workspace": "░",
}
"""How a kind is drawn: what is there before the step, what is saved, gradients and outputs, and
temporaries.
"""

LEGEND = "█ there before  ▓ saved for the backward  ▒ gradients, outputs  ░ temporary"


def bar(point: Point, whole: int, cells: int) -> str:
    """Draw what makes up the memory at a moment, ``whole`` being as long as ``cells``."""
    drawn, done = "", 0
    for kind in KINDS:
        done += point.by_kind.get(kind, 0)
        end = round(cells * done / whole) if whole else 0
        drawn += SHADES[kind] * (end - len(drawn))
    return drawn
