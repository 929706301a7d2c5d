"""This module finds which node of a graph uses the result of which other one.

A capture stores that. A log has the code of the graph alone, where an argument is named as the node
that computes it: a name has one meaning in a graph.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.regions import edges_of_graph

_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*(?:'|\\?\Z)|\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)", re.DOTALL)
"""Matches a text constant; one that does not end goes to the end."""

_USED_NAME = re.compile(r"(?<![\w.])[^\W\d]\w*\b(?!\s*=)")


def uses_in_graph(
    reader: SessionReader, graph: model.Graph, nodes: Sequence[model.Node]
) -> list[tuple[int, int]]:
    """Return (producer, consumer) of every use in a graph, as ids; ``nodes`` are all of its
    nodes.
    """
    stored = edges_of_graph(reader, graph)
    if stored:
        return stored
    return _named_uses(nodes)


def _named_uses(nodes: Sequence[model.Node]) -> list[tuple[int, int]]:
    id_of_name: dict[str, int] = {}
    uses: list[tuple[int, int]] = []
    for node in nodes:
        if node.op not in ("placeholder", "get_attr"):
            names = dict.fromkeys(_USED_NAME.findall(_QUOTED.sub("", node.arguments)))
            uses += [(id_of_name[name], node.id) for name in names if name in id_of_name]
        id_of_name[node.name] = node.id
    return uses
