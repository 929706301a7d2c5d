"""This module reads what a backend passes to ``publish``, safely whatever it is, and links it to
the recorded nodes that it is about.

A backend's methods are its own: they may raise anything, and may give text without end. A published
text or graph is linked to the very node where that is known, else to the one of its name in the
graph that the backend was given.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

import torch

from fx_explorer.capture.earlier_graph import EarlierGraph
from fx_explorer.capture.recording.compilation_state import RecordedGraph, Segment
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.fx_graphs import CALLS
from fx_explorer.highlight import printable
from fx_explorer.model import Direction, LineNode, Link
from fx_explorer.model.rows.graph import How
from fx_explorer.session.bounds import shortened

T = TypeVar("T")

MAX_NAME = 120
"""Maximum number of characters in the name of a stage, an entry or a language: it is shown as a
title, a column and a step of the pipeline.
"""

MOST_ASCII = 16_000_000
MOST_CHARACTERS = 4_000_000
"""Maximum number of characters of a text: a limit for a pane, and for the program's memory."""

MOST_PROBLEMS = 20
"""Maximum number of sentences about one publication. Further problems are likely to be similar."""

MOST_LINES_LINKED = 1_000_000
MOST_NODES_OF_A_LINE = 1_000


@dataclass
class Problems:
    """Sentences on the problems of one publication."""

    of: str
    """The thing that has the problems: ``stage "program"``."""
    sentences: list[str] = field(default_factory=list)

    def add(self, sentence: str) -> None:
        if sentence not in self.sentences and len(self.sentences) < MOST_PROBLEMS:
            self.sentences.append(sentence)

    def tried(self, what: str, read: Callable[[], T], otherwise: T) -> T:
        """Return the result of ``read``. If it raises, record the problem and return
        ``otherwise``.
        """
        try:
            return read()
        except KeyboardInterrupt:
            raise
        # A backend's own code may raise anything; the session reports it.
        except BaseException as error:  # noqa: BLE001
            self.add(f"{what} raised {describe_error(error)}")
            return otherwise


def describe_error(error: BaseException) -> str:
    """Return ``ValueError: no`` for any error, whatever its ``__str__`` does."""
    try:
        return one_line(f"{type(error).__name__}: {error}").rstrip(": ")
    except BaseException:  # noqa: BLE001 - its name says enough
        return type(error).__name__


def name_of(value: object, problems: Problems, otherwise: str, what: str = "name") -> str:
    """Return a name as one short line without control characters; for an object that is not a text,
    its text. ``what`` says what kind of name it is.
    """
    if not isinstance(value, str):
        problems.add(f"its {what} is of type {type(value).__name__}, not a text")
        value = problems.tried(f"the text of its {what}", lambda: str(value), "")
    # Cut once, so that the count is of all that was given; a name of a few lines becomes one line
    # first.
    text = str(value).strip()
    if len(text) > 10 * MAX_NAME:
        return printable(" ".join(shortened(text, MAX_NAME).split()))
    return printable(shortened(" ".join(text.split()), MAX_NAME)) or otherwise


Graph = Any
"""A GraphModule, or another object with a ``graph`` attribute that is an FX graph."""


def content_of(content: object, problems: Problems) -> Graph | str | None:
    """Return the given graph or text, or the result of a given function; None without one, which is
    recorded.
    """
    if callable(content) and not isinstance(content, (torch.nn.Module, type)):
        raised = object()
        made: object = problems.tried("the function that makes it", content, raised)
        if made is None:
            problems.add("the function that makes it returned None")
        if made is None or made is raised:
            return None
        content = made
    if isinstance(content, torch.fx.GraphModule):
        return content
    if isinstance(content, torch.fx.Graph):
        # A module made of it would own the graph from then on, and copy nothing.
        return content.owning_module or SimpleNamespace(graph=content)
    if isinstance(content, str):
        return str(content)
    problems.add(
        f"its type is {type(content).__name__}, neither an FX graph nor a text: its str() is shown"
    )
    text = problems.tried("its str()", lambda: str(content), "")
    return text or None


@dataclass(frozen=True, slots=True)
class BoundedText:
    text: str
    whole_lines: int
    """Number of lines at the beginning that are as they were given. Later lines have other
    numbers.
    """


def bounded_text(text: str, problems: Problems) -> BoundedText:
    """Return a text in the length that a session stores. A text that is too long gets a remark in
    its middle, which is recorded as a problem, too.
    """
    most = MOST_ASCII if text.isascii() else MOST_CHARACTERS
    if len(text) <= most:
        return BoundedText(text, text.count("\n") + 1)
    kept = shortened(text, most)
    problems.add(
        f"it has {len(text):,} characters; only {most:,} of them are kept, from the beginning and "
        "the end"
    )
    return BoundedText(kept, text.count("\n", 0, most - most // 3) + 1)


def lines_of(links: object, problems: Problems) -> list[tuple[int, list[object]]]:
    """Return (line, value given for it) for each line in ``links``, a mapping or a function that
    returns one. Keys that are not line numbers are recorded as problems.
    """
    if callable(links) and not isinstance(links, type):
        links = problems.tried("the function that makes its links", links, None)
    if links is None:
        return []
    if not isinstance(links, Mapping):
        problems.add(
            f"its links are of type {type(links).__name__}, not a mapping of lines to nodes"
        )
        return []
    none: list[tuple[object, object]] = []
    items = problems.tried(
        "its links", lambda: list(itertools.islice(links.items(), MOST_LINES_LINKED)), none
    )
    lines = []
    for line, nodes in items:
        if isinstance(line, bool) or not isinstance(line, int):
            problems.add(
                f"a key of its links has type {type(line).__name__}: keys are line numbers, from 1"
            )
            continue
        lines.append((line, _nodes(nodes, problems)))
    return lines


def _nodes(given: object, problems: Problems) -> list[object]:
    if isinstance(given, (str, torch.fx.Node)):
        return [given]
    if not isinstance(given, Iterable):
        problems.add(
            f"a line is linked to a {type(given).__name__}: nodes, or their names, are expected"
        )
        return []
    return problems.tried(
        "the nodes of a line", lambda: list(itertools.islice(given, MOST_NODES_OF_A_LINE)), []
    )


# Links to recorded nodes.


Found = tuple[tuple[int, ...], How]


def given_graph(segment: Segment, direction: Direction) -> RecordedGraph | None:
    """Return the graph that the backend was given: AOTAutograd's of this direction, else
    Dynamo's.
    """
    return segment.aot.get(direction) or segment.pre_grad or segment.dynamo


class KnownNodes:
    """Finds the recorded nodes of a segment, by a node or by its name."""

    def __init__(self, segment: Segment, direction: Direction) -> None:
        self.given = given_graph(segment, direction)
        graphs = [
            self.given,
            *reversed(segment.published),
            *segment.aot.values(),
            segment.joint,
            segment.pre_grad,
            segment.dynamo,
        ]
        self._graphs: list[RecordedGraph] = []
        for graph in graphs:
            if graph is not None:
                self._graphs += graph.whole()

    def of_node(self, node: torch.fx.Node) -> int:
        """Return the row of this very node; 0 where it is in no recorded graph."""
        for graph in self._graphs:
            if node in graph.ids:
                return graph.ids[node]
        return 0

    def of_name(self, name: str) -> int:
        """Return the row of the node of this name in the graph that the backend was given, else in
        the last one that it published; 0 if neither has one.
        """
        for graph in self._graphs:
            if name in graph.by_name:
                return graph.by_name[name]
        return 0


def line_nodes(
    artifact: int,
    lines: Iterable[tuple[int, list[object]]],
    whole_lines: int,
    known: KnownNodes,
    problems: Problems,
) -> Iterator[LineNode]:
    """Yield the links of a text's lines. Links without a target are recorded as problems."""
    for line, nodes in lines:
        if not 1 <= line <= whole_lines:
            problems.add(f"its links name line {line:,}, but it has {whole_lines:,}")
            continue
        for node in nodes:
            row, how = _linked(node, known)
            if row:
                yield LineNode(artifact, line, row, how)
            else:
                problems.add(_unknown(node))


def _linked(given: object, known: KnownNodes) -> tuple[int, How]:
    if isinstance(given, torch.fx.Node):
        row = known.of_node(given)
        if row:
            return row, "identity"
        return known.of_name(given.name), "name"
    if isinstance(given, str):
        return known.of_name(given), "name"
    return 0, "name"


def _unknown(given: object) -> str:
    if isinstance(given, (str, torch.fx.Node)):
        name = given.name if isinstance(given, torch.fx.Node) else given[:200]
        return f"its links name {name!r}, which is not a node of the graph that the backend got"
    return f"a line is linked to a {type(given).__name__}: nodes, or their names, are expected"


def graph_links(later: RecordedGraph, segment: Segment, direction: Direction) -> Iterator[Link]:
    """Link a published graph, and the graphs nested in it, to the graph that the backend was given,
    else to an earlier published one. A node that calls a nested graph is linked to everything
    computed there.
    """
    given = given_graph(segment, direction)
    earlier = [
        EarlierGraph(graph) for graph in (given, *reversed(segment.published)) if graph is not None
    ]
    parents: dict[torch.fx.Node, Found] = {}
    for graph in reversed(list(later.whole())):  # the inner ones first
        for node in graph.ids:
            parents[node] = _first_found(node, earlier) or _within(node, graph, parents)
    for graph in later.whole():
        for node, row in graph.ids.items():
            rows, how = parents[node]
            for parent in rows:
                yield Link(row, parent, how)


def _first_found(node: torch.fx.Node, graphs: Sequence[EarlierGraph]) -> Found | None:
    """Return the rows that a node came from, in the first of these graphs that has any; None if
    none has.
    """
    for graph in graphs:
        rows, how = _came_from(node, graph)
        if rows:
            return rows, how
    return None


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
    """Return the recorded nodes from which the graph called by ``node`` was made, and the
    evidence.
    """
    if node.op == "call_module":
        inner = graph.nested.get(str(node.target))
    else:
        inner = None
    if inner is None:
        return (), "name"
    rows: dict[int, None] = {}
    how: How | None = None
    for inner_node in inner.ids:
        if inner_node.op not in CALLS or inner_node not in parents:
            continue
        rows_of_node, how_of_node = parents[inner_node]
        rows |= dict.fromkeys(rows_of_node)
        if rows_of_node and how is None:
            how = how_of_node
    return tuple(rows), how or "name"
