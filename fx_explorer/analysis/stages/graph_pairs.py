"""The operations before and after a stage, and which came from which: by the links of the session,
never by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fx_explorer.analysis.documents import Document
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.graph.stages import Origin, PlainNode, origins, plain_operations


@dataclass(frozen=True)
class GraphPair:
    """The operations before and after, in the order of their graphs."""

    before: Sequence[PlainNode]
    after: Sequence[PlainNode]
    links: Sequence[Origin]

    @cached_property
    def parents(self) -> dict[int, list[Origin]]:
        """Return operation after → what it came from."""
        found: dict[int, list[Origin]] = {}
        for link in self.links:
            found.setdefault(link.child, []).append(link)
        return found

    @cached_property
    def children(self) -> dict[int, list[int]]:
        """Return operation before → what came of it."""
        found: dict[int, list[int]] = {}
        for link in self.links:
            found.setdefault(link.parent, []).append(link.child)
        return found

    @cached_property
    def same(self) -> dict[int, Origin]:
        """Return operation after → the one operation before that it still is."""
        alone = [
            links[0] for links in self.parents.values() if len(links) == 1 and links[0].is_copy
        ]
        copies: dict[int, list[Origin]] = {}
        for link in alone:
            copies.setdefault(link.parent, []).append(link)
        return {links[0].child: links[0] for links in copies.values() if len(links) == 1}


def graph_pair(
    reader: SessionReader, before: Sequence[Document], after: Sequence[Document]
) -> GraphPair:
    """Read the operations of both, and how they are linked."""
    ids_before, ids_after = ([document.id for document in side] for side in (before, after))
    links = origins(reader, ids_before, ids_after)
    return GraphPair(
        plain_operations(reader, ids_before), plain_operations(reader, ids_after), links
    )
