"""This module finds, in two printed graphs, the nodes in whose place passes put others: those that
the later graph lacks, and whose results its nodes take from a new node instead.

No record of torch's names them: ``meta`` of a node that a pattern made is that of the last of the
nodes it matched (torch/_inductor/pattern_matcher.py, ``replace_with_graph``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from fx_explorer.torch_texts.printed_graph import PrintedGraph, PrintedNode

MOST_REPLACED = 64
"""Maximum number of nodes in whose place one is: the largest patterns of torch match about 30. More
are another graph, not a pattern.
"""


def replaced_nodes(before: PrintedGraph, after: PrintedGraph) -> dict[str, list[str]]:
    """Return new node → the operations of the graph before in whose place it is, in their order;
    nodes for which none is found are left out.
    """
    old = {node.name: node for node in before.nodes}
    new = {node.name: node for node in after.nodes}
    removed = {name for name, node in old.items() if name not in new and _is_call(node)}
    made = {name for name, node in new.items() if name not in old and _is_call(node)}
    if not removed or not made:
        return {}
    replaced: dict[str, set[str]] = defaultdict(set)
    for name, result in _results_taken_instead(old, new, removed, made):
        removed_group = _within(result, removed, old)
        made_group = _within(name, made, new)
        # What is computed from more than the new nodes take was removed by other passes as well:
        # certain is then only whose result it is.
        is_whole = _taken_by(removed_group, old) <= _taken_by(made_group, new)
        if not is_whole or len(removed_group) > MOST_REPLACED:
            removed_group, made_group = {result}, {name}
        for node in made_group:
            replaced[node] |= removed_group
    order = {node.name: at for at, node in enumerate(before.nodes)}
    return {name: sorted(group, key=order.__getitem__) for name, group in replaced.items()}


def _is_call(node: PrintedNode) -> bool:
    return node.op.startswith("call_")


def _results_taken_instead(
    old: Mapping[str, PrintedNode],
    new: Mapping[str, PrintedNode],
    removed: Collection[str],
    made: Collection[str],
) -> list[tuple[str, str]]:
    """Return (new node, removed node) where a node of both graphs takes the one in the place of the
    other.
    """
    pairs: dict[tuple[str, str], None] = {}
    for name, node in new.items():
        if name not in old or len(old[name].inputs) != len(node.inputs):
            continue
        for was, taken in zip(old[name].inputs, node.inputs, strict=True):
            if was in removed and taken in made:
                pairs[taken, was] = None
    return list(pairs)


def _within(node: str, among: Collection[str], graph: Mapping[str, PrintedNode]) -> set[str]:
    """Return a node and those among ``among`` from which its result is computed."""
    found = {node}
    pending = [node]
    while pending:
        for source in graph[pending.pop()].inputs:
            if source in among and source not in found:
                found.add(source)
                pending.append(source)
    return found


def _taken_by(group: Collection[str], graph: Mapping[str, PrintedNode]) -> set[str]:
    """Return the nodes outside a group that the nodes in it take."""
    taken: set[str] = set()
    for node in group:
        taken.update(graph[node].inputs)
    return taken.difference(group)
