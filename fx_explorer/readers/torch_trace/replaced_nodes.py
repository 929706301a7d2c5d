"""This module finds, in two printed graphs, the nodes in whose place passes put others: those that
the later graph lacks, and whose results its nodes take from a new node instead.

No record of torch's names them: ``meta`` of a node that a pattern made is that of the last of the
nodes it matched (torch/_inductor/pattern_matcher.py, ``replace_with_graph``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from fx_explorer.torch_texts.printed_graph import PrintedGraph

MOST_REPLACED = 64
"""Maximum number of nodes in whose place one is: the largest patterns of torch match about 30. More
are another graph, not a pattern.
"""


def replaced_nodes(before: PrintedGraph, after: PrintedGraph) -> dict[str, list[str]]:
    """Return new node → the operations of the graph before in whose place it is, in their order;
    nodes for which none is found are left out.
    """
    old, new = _arguments(before), _arguments(after)
    removed = {name for name in _calls(before) if name not in new}
    made = {name for name in _calls(after) if name not in old}
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
    order = {name: at for at, name in enumerate(before.column("name"))}
    return {name: sorted(group, key=order.__getitem__) for name, group in replaced.items()}


Arguments = Mapping[str, tuple[str, ...]]
"""Name of each node of a graph → the nodes that it takes."""


def _arguments(graph: PrintedGraph) -> Arguments:
    return dict(zip(graph.column("name"), graph.column("inputs"), strict=True))


def _calls(graph: PrintedGraph) -> Iterator[str]:
    for name, op in zip(graph.column("name"), graph.column("op"), strict=True):
        if op.startswith("call_"):
            yield name


def _results_taken_instead(
    old: Arguments,
    new: Arguments,
    removed: Collection[str],
    made: Collection[str],
) -> list[tuple[str, str]]:
    """Return (new node, removed node) where a node of both graphs takes the one in the place of the
    other.
    """
    pairs: dict[tuple[str, str], None] = {}
    for name, arguments in new.items():
        before = old.get(name)
        if before is None or before == arguments or len(before) != len(arguments):
            continue
        for was, taken in zip(before, arguments, strict=True):
            if was in removed and taken in made:
                pairs[taken, was] = None
    return list(pairs)


def _within(node: str, among: Collection[str], graph: Arguments) -> set[str]:
    """Return a node and those among ``among`` from which its result is computed."""
    found = {node}
    pending = [node]
    while pending:
        for source in graph[pending.pop()]:
            if source in among and source not in found:
                found.add(source)
                pending.append(source)
    return found


def _taken_by(group: Collection[str], graph: Arguments) -> set[str]:
    """Return the nodes outside a group that the nodes in it take."""
    taken: set[str] = set()
    for node in group:
        taken.update(graph[node])
    return taken.difference(group)
