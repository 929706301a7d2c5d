"""What a front end saw: its nodes by operator, by opcode and by the user's line, in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.lineage import graphs_in_use
from fx_explorer.session import SessionReader

CALLS = ("call_function", "call_method", "call_module")

SourceLine = tuple[str, int]
"""Path and line, from 1."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The nodes of one front end."""

    graphs: tuple[model.Graph, ...]
    """Without nested ones."""
    nodes: tuple[model.Node, ...]
    """In the order of the graphs; those of nested graphs are not among them."""
    paths: dict[int, str]
    """SourceFile → path."""

    @property
    def calls(self) -> list[model.Node]:
        return [node for node in self.nodes if node.op in CALLS]

    @property
    def operators(self) -> dict[str, int]:
        """Return how often each target is called, the most frequent first."""
        counts = Counter(node.target for node in self.calls)
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def of_op(self, op: str) -> list[model.Node]:
        return [node for node in self.nodes if node.op == op]

    @property
    def by_line(self) -> dict[SourceLine, list[model.Node]]:
        """Return the calls that have a line of the user's, by that line."""
        found: dict[SourceLine, list[model.Node]] = {}
        for node in self.calls:
            if node.line and node.file in self.paths:
                found.setdefault((self.paths[node.file], node.line), []).append(node)
        return found


@dataclass(frozen=True, slots=True)
class LineOfBoth:
    """A line of the user's, and the calls that Dynamo and another front end made of it."""

    file: str
    line: int
    dynamo: tuple[str, ...]
    other: tuple[str, ...]


def seen_by_dynamo(reader: SessionReader) -> Seen:
    """Return what Dynamo saw in the graphs that the program uses."""
    used = graphs_in_use(reader)
    restarted = {row.id for row in reader.rows(model.Compilation, status="restarted")}
    graphs = [
        graph
        for graph in reader.rows(model.Graph, stage="dynamo", parent=0)
        if (used is None or graph.id in used) and graph.compilation not in restarted
    ]
    return _seen(reader, graphs)


def seen_by(reader: SessionReader, row: model.FrontEnd) -> Seen:
    """Return what a front end saw; nothing where it refused."""
    return _seen(reader, reader.by_ids(model.Graph, [row.graph] if row.graph else []))


def _seen(reader: SessionReader, graphs: Sequence[model.Graph]) -> Seen:
    nodes = tuple(node for graph in graphs for node in reader.nodes(graph))
    return Seen(
        tuple(graphs), nodes, {file.id: file.path for file in reader.rows(model.SourceFile)}
    )


def lines_of_both(dynamo: Seen, other: Seen) -> list[LineOfBoth]:
    """Return every line that either made calls of, in the order of files and lines."""
    ours, theirs = dynamo.by_line, other.by_line
    return [
        LineOfBoth(*line, short_names(ours.get(line, ())), short_names(theirs.get(line, ())))
        for line in sorted({*ours, *theirs})
    ]


def short_names(nodes: Iterable[model.Node]) -> tuple[str, ...]:
    return tuple(map(short_name, nodes))


def short_name(node: model.Node) -> str:
    """Return ``linear`` for ``torch._C._nn.linear`` and for ``aten.linear.default``; the class of a
    module's call.
    """
    if node.op == "call_module":
        return node.module_type or node.target
    words = node.target.split(".")
    return words[1] if words[0] in ("aten", "prims") and len(words) > 1 else words[-1]
