"""This module arranges a directed graph in rows, as layered drawings do (Sugiyama, Tagawa and Toda,
1981): each node below the nodes whose results it uses, and edges that pass rows get a place in each
of them. The order in a row keeps crossings few. Sizes and pixels are those of whoever draws.

networkx does the graph theory. Edges that would close a circle point upward.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

MOST_PASSED = 8
"""Maximum number of rows that an edge passes with a place in each of them. A longer edge is drawn
straight behind the rows, so that the number of places stays in proportion to the edges.
"""

SWEEPS = 4
"""Times that the order of the rows is improved from the top and from the bottom."""

Item = int
"""What stands in a row: a node from 0, or -1 - n for a place of the edge n that passes the row."""


@dataclass(frozen=True, slots=True)
class Layers:
    """A graph in rows."""

    rows: Sequence[Sequence[Item]]
    """From the top; from left to right."""
    edges: Sequence[tuple[int, int]]
    """Producer and consumer of each edge, in the order of their numbers."""


def layers(count: int, edges: Iterable[tuple[int, int]]) -> Layers:
    """Return the rows of a graph of the nodes 0 to ``count`` (exclusive), whose order is one in
    which they run. Raises ImportError where networkx is not installed.
    """
    import networkx

    distinct = sorted({edge for edge in edges if edge[0] != edge[1]})
    directed = networkx.DiGraph()
    directed.add_nodes_from(range(count))
    directed.add_edges_from(distinct)
    for circle in list(networkx.strongly_connected_components(directed)):
        # Of a circle, the edges against the order of running decide nothing about rows.
        against = [
            edge for edge in directed.edges(circle) if edge[1] in circle and edge[0] > edge[1]
        ]
        directed.remove_edges_from(against)
    row_of: dict[int, int] = {}
    for number, generation in enumerate(networkx.topological_generations(directed)):
        for node in generation:
            row_of[node] = number
    for node in range(count):
        below = [row_of[user] for user in directed.successors(node)]
        if below and not directed.in_degree(node):
            row_of[node] = min(below) - 1  # an input stands above its first use
    return _in_order(row_of, distinct)


def _in_order(row_of: Mapping[int, int], edges: Sequence[tuple[int, int]]) -> Layers:
    """Give passing edges their places, and order the rows."""
    height = 1 + max(row_of.values(), default=-1)
    rows: list[list[Item]] = [[] for _ in range(height)]
    for node in sorted(row_of):
        rows[row_of[node]].append(node)
    above: list[dict[Item, list[Item]]] = [{} for _ in rows]
    below: list[dict[Item, list[Item]]] = [{} for _ in rows]
    for number, (producer, consumer) in enumerate(edges):
        first, last = row_of[producer], row_of[consumer]
        if not 0 < last - first <= MOST_PASSED:
            continue
        way = [producer, *[-1 - number] * (last - first - 1), consumer]
        for row in range(first, last):
            item, following = way[row - first], way[row - first + 1]
            below[row].setdefault(item, []).append(following)
            above[row + 1].setdefault(following, []).append(item)
            if row > first:
                rows[row].append(item)
    for _ in range(SWEEPS):
        for row in range(1, height):
            rows[row] = _ordered(rows[row], rows[row - 1], above[row])
        for row in range(height - 2, -1, -1):
            rows[row] = _ordered(rows[row], rows[row + 1], below[row])
    return Layers(rows, edges)


def _ordered(
    row: Sequence[Item], fixed: Sequence[Item], neighbours: Mapping[Item, Sequence[Item]]
) -> list[Item]:
    """Return a row in the order of the mean places of its neighbours in a fixed row. An item
    without one keeps its place.
    """
    place = {item: at / max(1, len(fixed)) for at, item in enumerate(fixed)}
    wanted: dict[Item, float] = {}
    for at, item in enumerate(row):
        places = [place[other] for other in neighbours.get(item, ())]
        wanted[item] = sum(places) / len(places) if places else at / len(row)
    return sorted(row, key=lambda item: wanted[item])
