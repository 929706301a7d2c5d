"""In which column of the picture a node stands: producers left of what uses them, the centre at 0.

An edge that passes over columns takes a place in each of them, so that it is drawn around the boxes there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fx_explorer.analysis.neighbourhood.around import Neighbourhood

Key = tuple[str, int]
"""A thing that has a place: ``("node", id)``, ``("more", step)``, or ``("way", number)`` of an edge over a
column."""


@dataclass(frozen=True)
class Columns:
    """What has a place in the picture, and what is drawn between."""

    column: Mapping[Key, int]
    lines: Sequence[tuple[Key, Key]]
    """From one thing to another in the next column."""


def columns_of(found: Neighbourhood) -> Columns:
    """Give every node a column, and every edge over several columns a place in each between."""
    column = _node_columns(found)
    placed: dict[Key, int] = {("node", node): at for node, at in column.items()}
    lines: list[tuple[Key, Key]] = []
    ways = 0
    for producer, consumer in found.edges:
        here: Key = ("node", producer)
        for between in range(column[producer] + 1, column[consumer]):
            way: Key = ("way", ways)
            ways += 1
            placed[way] = between
            lines.append((here, way))
            here = way
        lines.append((here, ("node", consumer)))
    centre: Key = ("node", found.centre.id)
    for step in found.more:
        rest: Key = ("more", step)
        placed[rest] = step
        if abs(step) == 1:
            lines.append((rest, centre) if step < 0 else (centre, rest))
    return Columns(placed, lines)


def _node_columns(found: Neighbourhood) -> dict[int, int]:
    """Return node → column. Ids of a graph grow from producers to consumers."""
    consumers: dict[int, list[int]] = {}
    producers: dict[int, list[int]] = {}
    for producer, consumer in found.edges:
        consumers.setdefault(producer, []).append(consumer)
        producers.setdefault(consumer, []).append(producer)
    column = {found.centre.id: 0}
    for node in sorted((one for one, step in found.steps.items() if step < 0), reverse=True):
        column[node] = (
            min(
                (column[one] for one in consumers.get(node, ()) if column.get(one, 1) <= 0),
                default=0,
            )
            - 1
        )
    for node in sorted(one for one, step in found.steps.items() if step > 0):
        column[node] = (
            max((column[one] for one in producers.get(node, ()) if one in column), default=0) + 1
        )
    return column
