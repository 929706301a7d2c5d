"""A partitioned graph as parts in the order in which they can run: segments, which the backend
compiles, and what falls back to PyTorch between them.

Pure functions over nodes and edges. A part's *level* is how many times the computation has gone from
PyTorch into a segment before it: all that falls back on one level is one part.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Unit = int
"""A segment as minus its number, or the id of a node that is in no segment."""


@dataclass(frozen=True, slots=True)
class Part:
    """A segment, or the operators that fall back together."""

    segment: int
    """Number of the segment; 0 for what falls back."""
    nodes: tuple[int, ...]
    """Ids of its operators, in the order of the graph."""


def parts_of(
    segments: Mapping[int, int], edges: Iterable[tuple[int, int]]
) -> tuple[list[Part], bool]:
    """Return the parts of a graph in order, and whether segments need one another in a circle, so that
    no order is right.

    ``segments`` has the segment of each operator, 0 for one in none, in the order of the graph.
    """
    needed = _needed(segments, edges)
    levels, is_circular = _levels(list(dict.fromkeys(map(_unit, segments.items()))), needed)
    members: dict[tuple[int, bool, int], list[int]] = defaultdict(list)
    for node, segment in segments.items():
        # Segments of a level run before what falls back on it.
        level = levels[_unit((node, segment))]
        members[level, not segment, segment].append(node)
    return [
        Part(segment, tuple(nodes)) for (_, _, segment), nodes in sorted(members.items())
    ], is_circular


def _unit(member: tuple[int, int]) -> Unit:
    node, segment = member
    return -segment if segment else node


def _needed(segments: Mapping[int, int], edges: Iterable[tuple[int, int]]) -> dict[Unit, set[Unit]]:
    """Return the units that each unit takes results of."""
    needed: dict[Unit, set[Unit]] = defaultdict(set)
    for producer, consumer in edges:
        if producer in segments and consumer in segments:
            source, sink = (
                _unit((producer, segments[producer])),
                _unit((consumer, segments[consumer])),
            )
            if source != sink:
                needed[sink].add(source)
    return needed


def _levels(
    units: Sequence[Unit], needed: Mapping[Unit, set[Unit]]
) -> tuple[dict[Unit, int], bool]:
    """Return the level of each unit, and whether some need one another in a circle; these come last."""
    waiting = {unit: len(needed.get(unit, ())) for unit in units}
    users: dict[Unit, list[Unit]] = defaultdict(list)
    for unit, sources in needed.items():
        for source in sources:
            users[source].append(unit)
    level = {unit: 1 if unit < 0 else 0 for unit in units}
    ready = [unit for unit in units if not waiting[unit]]
    done = 0
    while ready:
        unit = ready.pop()
        done += 1
        for user in users[unit]:
            enters = user < 0 < unit
            level[user] = max(level[user], level[unit] + enters)
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    last = max(level.values(), default=0) + 1
    return {unit: level[unit] if not waiting[unit] else last for unit in units}, done < len(units)


def neighbours(
    segments: Mapping[int, int], edges: Iterable[tuple[int, int]]
) -> tuple[dict[int, frozenset[int]], dict[int, frozenset[int]]]:
    """Return, for each operator that is in no segment, the segments that it needs and those that need it,
    with nothing but other such operators between.
    """
    inputs: dict[int, list[int]] = defaultdict(list)
    users: dict[int, list[int]] = defaultdict(list)
    for producer, consumer in edges:
        if producer in segments and consumer in segments:
            inputs[consumer].append(producer)
            users[producer].append(consumer)
    outside = [node for node, segment in segments.items() if not segment]
    return _gathered(outside, inputs, segments), _gathered(outside[::-1], users, segments)


_NONE: frozenset[int] = frozenset()


def _gathered(
    nodes: Iterable[int], near: Mapping[int, list[int]], segments: Mapping[int, int]
) -> dict[int, frozenset[int]]:
    found: dict[int, frozenset[int]] = {}
    for node in nodes:
        own = frozenset(segments[one] for one in near.get(node, ()) if segments[one])
        found[node] = own.union(
            *(found.get(one, _NONE) for one in near.get(node, ()) if not segments[one])
        )
    return found
