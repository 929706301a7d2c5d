"""The graphs before and after a stage, node by node, and which node came from which: by the links of
the session, never by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fx_explorer.analysis.documents import Document
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.stages import PlainNode, node_origins, plain_nodes


@dataclass(frozen=True)
class GraphPair:
    """The nodes before and after, in the order of their graphs."""

    before: Sequence[PlainNode]
    after: Sequence[PlainNode]
    parents: dict[int, list[int]]
    """Id of a node after → ids of the nodes before that it came from."""
    differing: frozenset[int]
    """Nodes after whose target, arguments or type are not those of a node they came from."""

    @cached_property
    def children(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for child, parents in self.parents.items():
            for parent in parents:
                found.setdefault(parent, []).append(child)
        return found

    @cached_property
    def nodes(self) -> dict[int, PlainNode]:
        return {node.id: node for node in (*self.before, *self.after)}

    @cached_property
    def position(self) -> dict[int, int]:
        """Return the position of each node before, over all its graphs."""
        return {node.id: i for i, node in enumerate(self.before)}

    def operations_before(self, node: PlainNode) -> list[int]:
        """Return the operations before that a node after came from."""
        return [parent for parent in self.parents.get(node.id, ()) if self.nodes[parent].is_operation]


def graph_pair(reader: SessionReader, before: Sequence[Document], after: Sequence[Document]) -> GraphPair:
    """Read the nodes of both, and how they are linked."""
    ranges = [[document.id for document in side] for side in (before, after)]
    parents: dict[int, list[int]] = {}
    differing = set()
    for child, parent, differs in node_origins(reader, *ranges):
        parents.setdefault(child, []).append(parent)
        if differs:
            differing.add(child)
    nodes_before, nodes_after = (plain_nodes(reader, ids) for ids in ranges)
    return GraphPair(nodes_before, nodes_after, parents, frozenset(differing))
