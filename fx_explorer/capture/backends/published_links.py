"""Which recorded nodes a published text or graph is linked to: the very node where it is known,
else the one of its name in the graph that the backend was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch

from fx_explorer.capture.backends.given import Problems
from fx_explorer.capture.links.earlier_graph import EarlierGraph
from fx_explorer.capture.recording.rows.graphs import CALLS
from fx_explorer.capture.recording.segments import RecordedGraph, Segment
from fx_explorer.model import Direction, LineNode, Link
from fx_explorer.model.rows.graph import How

Found = tuple[tuple[int, ...], How]


def given_graph(segment: Segment, direction: Direction) -> RecordedGraph | None:
    """Return the graph that the backend was given: AOTAutograd's of this direction, else Dynamo's."""
    return segment.aot.get(direction) or segment.pre_grad or segment.dynamo


class KnownNodes:
    """The recorded nodes of a segment, found by a node or by its name."""

    def __init__(self, segment: Segment, direction: Direction) -> None:
        self.given = given_graph(segment, direction)
        others = [
            *reversed(segment.published),
            *segment.aot.values(),
            segment.joint,
            segment.pre_grad,
            segment.dynamo,
        ]
        first = [self.given] if self.given else []
        self._graphs = [
            one for graph in (*first, *others) if graph is not None for one in graph.whole()
        ]

    def of_node(self, node: torch.fx.Node) -> int:
        """Return the row of this very node; 0 where it is in no recorded graph."""
        return next((graph.ids[node] for graph in self._graphs if node in graph.ids), 0)

    def of_name(self, name: str) -> int:
        """Return the row of the node of this name in the graph that the backend was given, else in
        the last one that it published; 0 where neither has one.
        """
        return next((graph.by_name[name] for graph in self._graphs if name in graph.by_name), 0)


def line_nodes(
    artifact: int,
    lines: Iterable[tuple[int, list[object]]],
    whole_lines: int,
    known: KnownNodes,
    problems: Problems,
) -> Iterator[LineNode]:
    """Yield the links of a text's lines. What leads nowhere is noted."""
    for line, nodes in lines:
        if not 1 <= line <= whole_lines:
            problems.add(f"its links name line {line:,}, and it has {whole_lines:,}")
            continue
        for one in nodes:
            row, how = _linked(one, known)
            if row:
                yield LineNode(artifact, line, row, how)
            else:
                problems.add(_unknown(one))


def _linked(given: object, known: KnownNodes) -> tuple[int, How]:
    if isinstance(given, torch.fx.Node):
        row = known.of_node(given)
        return (row, "identity") if row else (known.of_name(given.name), "name")
    return (known.of_name(given), "name") if isinstance(given, str) else (0, "name")


def _unknown(given: object) -> str:
    if isinstance(given, (str, torch.fx.Node)):
        name = given.name if isinstance(given, torch.fx.Node) else given[:200]
        return f"its links name {name!r}, which is no node of the graph that the backend was given"
    return f"a line is linked to a {type(given).__name__}: nodes, or their names, are expected"


def graph_links(later: RecordedGraph, segment: Segment, direction: Direction) -> Iterator[Link]:
    """Link a published graph, and those nested in it, to the graph that the backend was given, else
    to one that it published before.

    A node that calls a nested graph is linked to all that is computed in there.
    """
    given = given_graph(segment, direction)
    earlier = [
        EarlierGraph(graph) for graph in (given, *reversed(segment.published)) if graph is not None
    ]
    parents: dict[torch.fx.Node, Found] = {}
    for graph in reversed(list(later.whole())):  # the inner ones first
        for node in graph.ids:
            found = next(
                (one for one in (_came_from(node, known) for known in earlier) if one[0]),
                ((), "name"),
            )
            parents[node] = found if found[0] else _within(node, graph, parents)
    for graph in later.whole():
        for node, row in graph.ids.items():
            rows, how = parents[node]
            for parent in rows:
                yield Link(row, parent, how)


def _came_from(node: torch.fx.Node, earlier: EarlierGraph) -> Found:
    for graph in earlier.graph.whole():
        if node in graph.ids:
            return (graph.ids[node],), "identity"
    same = earlier.copied_as(node) if _is_there(node, earlier) else ()
    if same:
        return same, "name"
    if node.op in CALLS:
        return (earlier.made_from(node) or earlier.traced_from(node), "from_node")
    return ((), "name")


def _is_there(node: torch.fx.Node, earlier: EarlierGraph) -> bool:
    row = earlier.graph.by_name.get(node.name)
    return row is not None and earlier.nodes[row].op == node.op


def _within(
    node: torch.fx.Node, graph: RecordedGraph, parents: dict[torch.fx.Node, Found]
) -> Found:
    """Return what the graph that a node calls was made of."""
    inner = graph.nested.get(str(node.target)) if node.op == "call_module" else None
    if inner is None:
        return (), "name"
    computed = [parents[one] for one in inner.ids if one.op in CALLS and one in parents]
    rows = tuple(dict.fromkeys(row for rows, _ in computed for row in rows))
    return rows, next((how for rows, how in computed if rows), "name")
