"""What a backend gave to ``publish``, read, and which recorded nodes it is about.

What a backend gave to ``publish``, read so that nothing of it can do harm: its methods are the
backend's, may raise anything, and may give text without end.

Which recorded nodes a published text or graph is linked to: the very node where it is known, else
the one of its name in the graph that the backend was given.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, TypeVar

import torch

from fx_explorer.capture.earlier_graph import EarlierGraph
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.graphs import CALLS
from fx_explorer.capture.recording.segments import RecordedGraph, Segment
from fx_explorer.highlight import printable
from fx_explorer.model import Direction, LineNode, Link
from fx_explorer.model.rows.graph import How
from fx_explorer.session.bounds import shortened

T = TypeVar("T")

MAX_NAME = 120
"""Characters of the name of a stage, an entry or a language: it is a title, a column, a step of the
pipeline.
"""

MOST_ASCII = 16_000_000
MOST_CHARACTERS = 4_000_000
"""Characters of a text: what a pane shows of it at once, and what it takes of the program's memory.
"""

MOST_PROBLEMS = 20
"""Sentences about one thing that was published; what else is wrong with it is likely to be alike.
"""

MOST_LINES_LINKED = 1_000_000
MOST_NODES_OF_A_LINE = 1_000


@dataclass
class Problems:
    """What was wrong with one thing that was published, in sentences."""

    of: str
    """Which thing: ``stage "program"``."""
    found: list[str] = field(default_factory=list)

    def add(self, sentence: str) -> None:
        if sentence not in self.found and len(self.found) < MOST_PROBLEMS:
            self.found.append(sentence)

    def tried(self, what: str, read: Callable[[], T], otherwise: T) -> T:
        """Return what ``read`` returns; ``otherwise`` where it raises, which is noted."""
        try:
            return read()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a backend's own code may raise anything; it is told in the session
            self.add(f"{what} raised {error_in_words(error)}")
            return otherwise


def error_in_words(error: BaseException) -> str:
    """Return ``ValueError: no`` for any error, whatever its ``__str__`` does."""
    try:
        return one_line(f"{type(error).__name__}: {error}").rstrip(": ")
    except BaseException:  # noqa: BLE001 - its name says enough
        return type(error).__name__


def name_of(value: object, problems: Problems, otherwise: str, what: str = "name") -> str:
    """Return a name as one short line that cannot steer a terminal; of what is no text, its text.
    ``what`` says what it is to be.
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
"""A GraphModule, or what has the ``graph`` of one."""


def content_of(content: object, problems: Problems) -> Graph | str | None:
    """Return the graph or the text that was given, or that a given function makes; None where there
    is none, which is noted.
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
        f"it is of type {type(content).__name__}, neither an FX graph nor a text: its "
        "str() is shown"
    )
    text = problems.tried("its str()", lambda: str(content), "")
    return text or None


@dataclass(frozen=True, slots=True)
class BoundedText:
    text: str
    whole_lines: int
    """Lines from the first that are as they were given; what follows has other numbers."""


def bounded_text(text: str, problems: Problems) -> BoundedText:
    """Return a text as a session keeps it. One that is too long has a remark in its middle, which
    is noted, too.
    """
    most = MOST_ASCII if text.isascii() else MOST_CHARACTERS
    if len(text) <= most:
        return BoundedText(text, text.count("\n") + 1)
    kept = shortened(text, most)
    problems.add(
        f"it has {len(text):,} characters: {most:,} are kept, those of the beginning and the end"
    )
    return BoundedText(kept, text.count("\n", 0, most - most // 3) + 1)


def lines_of(links: object, problems: Problems) -> list[tuple[int, list[object]]]:
    """Return (line, what was given for it) of each line in ``links``, a mapping or a function that
    makes one. What is no line number is noted.
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
    found = []
    for line, nodes in items:
        if isinstance(line, bool) or not isinstance(line, int):
            problems.add(
                f"a key of its links is of type {type(line).__name__}: lines are numbers, from 1"
            )
            continue
        found.append((line, _nodes(nodes, problems)))
    return found


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
            recorded
            for graph in (*first, *others)
            if graph is not None
            for recorded in graph.whole()
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
        for node in nodes:
            row, how = _linked(node, known)
            if row:
                yield LineNode(artifact, line, row, how)
            else:
                problems.add(_unknown(node))


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
