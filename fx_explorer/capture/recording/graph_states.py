"""This module compares a graph, with those nested in it, at two points: which nodes are new, gone,
or have another operator or other arguments.

Nodes are compared by identity, so that what a pass changes in place is seen. Where a pass puts a
copy of the graph in its place, as freezing does, a node is the one of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.capture.recording.fx_graphs import nested_graphs, qualified_name
from fx_explorer.capture.torch_compat.private_names import OpOverload
from fx_explorer.model.rows.passes import NodeChange

MOST_CHARACTERS = 300
"""Maximum number of characters of a node's text."""

State = tuple[Any, Any, Any]
"""Target, arguments and keyword arguments of a node: objects that FX replaces and never changes."""

States = dict[torch.fx.GraphModule, dict[torch.fx.Node, State]]
"""A graph and each of those nested in it → its nodes as they are at a point."""


@dataclass
class Change:
    """What became of one node between two points."""

    module: torch.fx.GraphModule
    """The graph that it is in."""
    kind: NodeChange
    node: torch.fx.Node
    before: str = ""
    after: str = ""
    replaced: list[str] = field(default_factory=list)
    """Of a node that was made: those in whose place it is used; of another: those that are used in
    its place.
    """


def states_of(module: torch.fx.GraphModule) -> States:
    states: States = {}
    waiting = [module]
    while waiting:
        graph = waiting.pop()
        if graph in states:
            continue
        states[graph] = {node: (node.target, node.args, node.kwargs) for node in graph.graph.nodes}
        waiting += [inner for _, _, inner in nested_graphs(graph)]
    return states


def changes_between(before: States, after: States) -> Iterator[Change]:
    """Yield what changed in each graph that is there at both points, and the nodes of each that is
    new.
    """
    for module, nodes in after.items():
        yield from _changes(module, before.get(module, {}), nodes)


def _changes(
    module: torch.fx.GraphModule,
    before: dict[torch.fx.Node, State],
    after: dict[torch.fx.Node, State],
) -> Iterator[Change]:
    made = {node.name: node for node in after if node not in before}
    for node, state in before.items():
        now = node if node in after else made.pop(node.name, None)
        if now is None:
            yield Change(module, "erased", node, _text(state))
        elif _is_other(state, after[now]):
            yield Change(module, "changed", now, _text(state), _text(after[now]))
    for node in made.values():
        yield Change(module, "made", node, after=_text(after[node]))


def _is_other(before: State, after: State) -> bool:
    # The same objects in nearly all nodes. Texts are compared, because to compare symbolic sizes
    # would add guards.
    if all(old is new for old, new in zip(before, after, strict=True)):
        return False
    return _whole_text(before) != _whole_text(after)


def _text(state: State) -> str:
    text = _whole_text(state)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}…"


def _whole_text(state: State) -> str:
    target, args, kwargs = state
    parts = [str(argument) for argument in args]
    parts += [f"{name}={value}" for name, value in kwargs.items()]
    name = target if isinstance(target, str) else qualified_name(target)
    if isinstance(target, OpOverload):
        name = str(target)
    return f"{name}({', '.join(parts)})"
