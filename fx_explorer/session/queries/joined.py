"""This module has the user's lines of nodes whose own row names another line: those that a pass put
in the place of several others, as ``addmm`` for ``mm`` and ``add``, and those to which FX gave the
meta of a node that was removed (``replace_all_uses_with(…, propagate_meta=True)``).
"""

from __future__ import annotations

from typing import NamedTuple

from fx_explorer.session.reader import SessionReader, answered_once


class NodeLine(NamedTuple):
    """Where a node is from: SourceFile, line from 1, and module."""

    file: int
    line: int
    module: str


_COPIES = "link.how IN ('identity', 'name')"

_MOVED = (
    "SELECT link.child FROM link JOIN node AS later ON later.id = link.child JOIN node AS earlier "
    "ON earlier.id = link.parent WHERE link.how = 'identity' AND earlier.file AND earlier.line AND "
    "(later.file != earlier.file OR later.line != earlier.line)"
)
"""Nodes whose line changed while a pass kept the node."""


@answered_once
def origins_of_joined(reader: SessionReader) -> dict[int, tuple[NodeLine, ...]]:
    """Return node → the lines it is from, in the order of the earlier graph, for the nodes whose
    own row does not name them. A node that came of a pass's node has the same.
    """
    rows = reader.query(
        "WITH RECURSIVE down(id) AS (SELECT child FROM link WHERE how = 'replaced' UNION "
        f"{_MOVED} UNION SELECT link.child FROM down JOIN link ON link.parent = down.id WHERE "
        f"{_COPIES} OR link.how = 'replaced') "
        "SELECT link.child, link.parent, link.how, node.file, node.line, node.module FROM down "
        "JOIN link ON link.child = down.id JOIN node ON node.id = link.parent WHERE "
        f"{_COPIES} OR link.how = 'replaced' ORDER BY 1, 2"
    )
    origins: dict[int, tuple[NodeLine, ...]] = {}
    for child, parent, how, file, line, module in rows:  # parents before children
        own = (NodeLine(file, line, module),) if file and line else ()
        of_parent = origins.get(parent, own)
        if how == "replaced":
            of_parent = (*origins.get(child, ()), *of_parent)
        if of_parent:
            origins[child] = tuple(dict.fromkeys(of_parent))
    return origins
