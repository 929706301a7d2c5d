"""This module computes how much of a device's memory a step uses at each moment, and what makes up
the peak.

Its timeline fits a screen: kernel calls that follow one another on the same line of the user's are
one row.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from fx_explorer import model
from fx_explorer.instruments.memory.replay import UNKNOWN
from fx_explorer.instruments.memory.step import (
    KINDS,
    HeldStorage,
    MemoryKind,
    StepMemory,
    StepMoment,
)

BEFORE: tuple[MemoryKind, ...] = ("parameter", "buffer", "input", "optimizer")
"""Kinds of memory that are held before the step begins."""


@dataclass(frozen=True, slots=True)
class Point:
    """The memory in use from one change to the next."""

    at: int
    by_kind: Mapping[MemoryKind, int]

    @property
    def total_bytes(self) -> int:
        return sum(self.by_kind.values())


@dataclass(frozen=True)
class Usage:
    """The memory that a step uses on one device."""

    step: StepMemory
    device: str
    points: tuple[Point, ...]
    """Points in the order of the step. The first is the memory before the step."""
    elsewhere: Mapping[str, int]
    """Bytes of storages on other devices, by device."""
    unknown: int
    """Number of storages that are left out because their size is not known."""

    @property
    def peak(self) -> Point:
        """Return the first moment at which the most memory is held."""
        return max(self.points, key=lambda point: point.total_bytes, default=Point(0, {}))

    @property
    def begin_bytes(self) -> int:
        if self.points:
            return sum(self.points[0].by_kind.values())
        return 0

    def moment(self, at: int) -> StepMoment | None:
        """Return the kernel call that a moment belongs to: the next one, or the last one at the
        end.
        """
        moments = self.step.moments
        following = bisect_left([moment.at for moment in moments], at)
        if moments:
            return moments[min(following, len(moments) - 1)]
        return None

    def most_with_workspaces(self) -> tuple[int, int]:
        """Return an upper estimate of the peak with the workspaces of library calls, and the number
        of calls whose workspace is not known.
        """
        most, calls = self.peak.total_bytes, 0
        for moment, point in self.at_moments():
            unknown = moment.call.unknown_workspace
            if unknown:
                most = max(most, point.total_bytes + unknown)
                calls += 1
        return most, calls

    def is_backward(self, at: int) -> bool:
        return at >= self.step.backward_from

    def held_at(self, at: int) -> list[HeldStorage]:
        """Return the storages held on the device at a moment, biggest first."""
        on_device = [held for held in self.step.held if held.device == self.device]
        at_moment = [held for held in on_device if held.begin <= at < held.end]
        return sorted(at_moment, key=lambda held: -held.size_bytes)

    def at_moments(self) -> list[tuple[StepMoment, Point]]:
        """Return each kernel call with the largest memory since the call before."""
        starts = [point.at for point in self.points]
        stops, begin = [], 0
        for moment in self.step.moments:
            end = bisect_left(starts, moment.at + 1)
            since = self.points[max(0, min(begin, end - 1)) : end] or self.points[:1]
            stops.append((moment, max(since, key=lambda point: point.total_bytes)))
            begin = end
        return stops


def usage(step: StepMemory) -> Usage:
    """Return the memory of a step over its moments, on the device that holds most of it."""
    sizes: Counter[str] = Counter()
    for held_tensor in step.held:
        sizes[held_tensor.device] += max(0, held_tensor.size_bytes)
    device = max(sizes, key=lambda name: (sizes[name], name), default="")
    on_device = [held for held in step.held if held.device == device and held.size_bytes != UNKNOWN]
    unknown = sum(held.size_bytes == UNKNOWN for held in step.held)
    elsewhere = {name: size for name, size in sizes.items() if name != device and size}
    return Usage(step, device, tuple(_points(on_device)), elsewhere, unknown)


def _points(held: Iterable[HeldStorage]) -> Iterable[Point]:
    """Yield the memory after each change."""
    changes: dict[int, Counter[MemoryKind]] = {0: Counter()}
    for held_tensor in held:
        if held_tensor.begin < held_tensor.end and held_tensor.size_bytes:
            changes.setdefault(held_tensor.begin, Counter())[held_tensor.kind] += (
                held_tensor.size_bytes
            )
            changes.setdefault(held_tensor.end, Counter())[held_tensor.kind] -= (
                held_tensor.size_bytes
            )
    now: Counter[MemoryKind] = Counter()
    for at in sorted(changes):
        now.update(changes[at])
        yield Point(at, {kind: now[kind] for kind in KINDS if now[kind]})


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """Several consecutive kernel calls, with the largest memory during any of them."""

    moment: StepMoment
    """The call at which the most memory is held."""
    point: Point
    calls: int

    @property
    def node(self) -> model.Node | None:
        return self.moment.call.node


Stop = tuple[StepMoment, Point]


def timeline(used: Usage, most: int | None = None) -> list[TimelineRow]:
    """Return the rows of a step's timeline. If there are more than ``most``, neighbouring rows are
    merged; the row with the peak stays.
    """
    rows = [_row(list(stops)) for _, stops in groupby(used.at_moments(), _line_of)]
    if most is None or len(rows) <= most:
        return rows
    return list(_together(rows, -(-len(rows) // most)))


def _line_of(stop: Stop) -> tuple[object, ...]:
    """Return the key of the calls in one row: their line, or their name where no line is known."""
    moment, node = stop[0], stop[0].call.node
    if node is None:
        return moment.compilation, moment.direction, moment.call.name
    return moment.compilation, moment.direction, (node.file, node.line, node.module)


def _row(stops: Sequence[Stop]) -> TimelineRow:
    moment, point = max(stops, key=lambda stop: stop[1].total_bytes)
    return TimelineRow(moment, point, len(stops))


def _together(rows: Sequence[TimelineRow], count: int) -> Iterator[TimelineRow]:
    """Yield one row for every ``count`` consecutive calls. A row has calls of one direction
    only.
    """
    for _, members in groupby(rows, lambda row: (row.moment.compilation, row.moment.direction)):
        of_direction = list(members)
        for at in range(0, len(of_direction), count):
            some = of_direction[at : at + count]
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
"""The character that draws each kind: memory from before the step, saved tensors, gradients and
outputs, and temporaries.
"""

LEGEND = "█ before the step  ▓ saved for the backward  ▒ gradients, outputs  ░ temporary"


def bar(point: Point, whole: int, cells: int) -> str:
    """Draw the memory at a moment as a bar, in parts by kind; ``whole`` bytes take ``cells``
    cells.
    """
    drawn, done = "", 0
    for kind in KINDS:
        done += point.by_kind.get(kind, 0)
        end = round(cells * done / whole) if whole else 0
        drawn += SHADES[kind] * (end - len(drawn))
    return drawn
