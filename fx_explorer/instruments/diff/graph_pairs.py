"""The graphs of two sessions of the same program, in pairs, aligned by their structure.

Compilations are paired by their function, the first of it with the first, since a graph break that
is gone changes the numbers of those after it. Sizes are apart: a graph with another batch is the
same but for its sizes, which are said once for all graphs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.alignment_words import (
    NO_DIFFERENCE,
    describe_alignment,
    describe_sizes,
)
from fx_explorer.analysis.diff import CUT_IN_WORDS, DiffRow, DiffRows, Sign, graph_diff
from fx_explorer.analysis.documents import graph_title
from fx_explorer.analysis.graph_alignment import GraphAlignment, Size, align_graphs
from fx_explorer.analysis.lineage import variants_in_use
from fx_explorer.analysis.words import counted, format_node
from fx_explorer.session import SessionReader

MOST_NODES = 200_000
"""Maximum number of nodes of both sessions that are aligned: about ten seconds (80 µs a node)."""

TOO_MANY = f"graphs: not compared node by node, because they have more than {MOST_NODES:,} nodes"

_Key = tuple[str, int, model.Stage, model.Direction, str]
"""(function, how many of it were compiled before, stage, direction, name of a nested graph)."""


@dataclass(frozen=True, slots=True)
class GraphPair:
    """Two graphs of one stage, or one without a counterpart."""

    compilation: str
    """Name of the compilation in the first session that has it."""
    title: str
    left: model.Graph | None
    right: model.Graph | None
    alignment: GraphAlignment | None
    """None for a graph without a counterpart."""

    @property
    def name(self) -> str:
        """Return ``[0/0] Joint graph``."""
        return f"[{self.compilation}] {self.title}"

    @property
    def is_of_dynamo(self) -> bool:
        graph = self.left or self.right
        return graph is not None and graph.stage == "dynamo"

    @property
    def lengths(self) -> tuple[str, str]:
        """Return ``12 nodes`` and ``13 nodes``; ``none`` for a side without the graph."""
        return _length(self.left), _length(self.right)

    @property
    def is_same(self) -> bool:
        """Return whether the graphs are the same, whatever their sizes."""
        return self.alignment is not None and not self._is_changed

    @property
    def _is_changed(self) -> bool:
        pairs = self.alignment.pairs if self.alignment else ()
        return any(pair.changes or not pair.before or not pair.after for pair in pairs)

    @property
    def difference(self) -> str:
        """Return how they differ, sizes included; ``no difference`` where they do not."""
        if self.alignment is None:
            return "only in the second" if self.left is None else "only in the first"
        words = describe_alignment(self.alignment)
        return f"{words}; {CUT_IN_WORDS}" if self.alignment.is_cut else words


def _length(graph: model.Graph | None) -> str:
    return counted(graph.node_count, "node") if graph else "none"


def graph_pairs(left: SessionReader, right: SessionReader) -> list[GraphPair]:
    """Return every graph of both sessions, in the order of the first; those that only the second
    has come last. Empty where there are too many nodes.
    """
    if has_too_many_nodes(left, right):
        return []
    of_left, of_right = _by_key(left), _by_key(right)
    pairs = []
    for key in dict.fromkeys([*of_left, *of_right]):
        graph, other = of_left.get(key), of_right.get(key)
        pairs.append(_pair(left, right, graph, other))
    return pairs


def has_too_many_nodes(left: SessionReader, right: SessionReader) -> bool:
    """Return whether the graphs of two sessions are too large to be aligned."""
    return left.count(model.Node) + right.count(model.Node) > MOST_NODES


_Named = tuple[str, model.Graph]
"""A graph and the name of its compilation."""


def _by_key(reader: SessionReader) -> dict[_Key, _Named]:
    """Return the graphs of the compilations in use. Those of other front ends are left out."""
    numbers: Counter[str] = Counter()
    by_key: dict[_Key, _Named] = {}
    for compilation in variants_in_use(reader):
        number = numbers[compilation.function]
        numbers[compilation.function] += 1
        for graph in reader.rows(model.Graph, compilation=compilation.id):
            if graph.node_count:
                key = (compilation.function, number, graph.stage, graph.direction, graph.name)
                by_key.setdefault(key, (compilation.name, graph))
    return by_key


def _pair(
    left: SessionReader, right: SessionReader, graph: _Named | None, other: _Named | None
) -> GraphPair:
    shown = graph or other
    assert shown is not None
    name, of_stage = shown
    alignment = None
    if graph and other:
        alignment = align_graphs(left.nodes(graph[1]), right.nodes(other[1]))
    return GraphPair(
        name,
        graph_title(of_stage),
        graph[1] if graph else None,
        other[1] if other else None,
        alignment,
    )


def rows_of_pair(
    left: SessionReader, right: SessionReader, pair: GraphPair
) -> DiffRows[model.Node]:
    """Return a pair node by node."""
    before = left.nodes(pair.left) if pair.left else []
    after = right.nodes(pair.right) if pair.right else []
    return graph_diff(before, after)


def lines_of_pair(left: SessionReader, right: SessionReader, pair: GraphPair) -> DiffRows[str]:
    """Return a pair node by node, each as a line of code."""
    rows = rows_of_pair(left, right, pair)
    lines = DiffRows(DiffRow(row.sign, _line(row.before), _line(row.after)) for row in rows)
    lines.words, lines.is_cut = rows.words, rows.is_cut
    return lines


def _line(node: model.Node | None) -> str | None:
    return format_node(node) if node else None


def pair_row(pair: GraphPair) -> DiffRow[str]:
    """Return a pair as a row of a list of graphs: name, number of nodes, difference."""
    left, right = pair.lengths
    before = f"{pair.name}: {left}" if pair.left else None
    after = f"{pair.name}: {right}" if pair.right else None
    sign: Sign = " "
    if before is None:
        sign = "+"
    elif after is None:
        sign = "-"
    elif pair.difference != NO_DIFFERENCE:
        sign = "≈" if pair.is_same else "~"
        after = f"{after} · {pair.difference}"
    return DiffRow(sign, before, after)


def sizes_of_pairs(pairs: Sequence[GraphPair]) -> dict[Size, int]:
    """Return each pair of sizes that differs → in how many nodes of all graphs."""
    counts: Counter[Size] = Counter()
    for pair in pairs:
        counts.update(pair.alignment.sizes if pair.alignment else {})
    return dict(counts.most_common())


def graph_lines(pairs: Sequence[GraphPair]) -> list[str]:
    """Return how the graphs differ: how many are the same, the sizes of all in one line, and a line
    for each that differs otherwise.
    """
    if not pairs:
        return []
    same = [pair for pair in pairs if pair.is_same]
    others = [pair for pair in pairs if not pair.is_same]
    sizes = sizes_of_pairs(pairs)
    resized = sum(pair.alignment.resized for pair in pairs if pair.alignment)
    but = " except for sizes" if sizes else ""
    counts = [f"{len(same):,} the same{but}"] if same else []
    if others:
        counts.append(f"{len(others):,} {'differs' if len(others) == 1 else 'differ'}")
    lines = [f"each stage's graphs, by their structure: {', '.join(counts)}"]
    if sizes:
        lines.append(f"  {describe_sizes(sizes, resized)}")
    lines += [f"  {pair.name}: {pair.difference}" for pair in others]
    return lines
