"""This module says where a group of passes changed what a graph computes. A pass keeps the names of
the nodes that it leaves alone, so the graph before and after it is compared by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx

from fx_explorer.instruments.numerics.measure.interpreting import (
    as_list,
    eager_values,
    wide_values,
)
from fx_explorer.instruments.numerics.measure.node_comparison import (
    NodeComparison,
    operation_of,
)


@dataclass
class RewrittenNode:
    """The node of the changed graph at which it first differs."""

    node: fx.Node
    comparison: NodeComparison
    sentences: list[str]
    line_node: fx.Node | None = None
    """The node of the graph before the passes that has the user's line."""


def rewritten_node(
    before: fx.GraphModule, after: fx.GraphModule, inputs: Sequence[Any]
) -> RewrittenNode:
    """Return the first node that the passes made or changed and that leads to another result."""
    eager, _ = eager_values(before, inputs)
    exact, _ = wide_values(before, inputs, eager)
    results, _ = eager_values(after, inputs)
    comparison = NodeComparison(after, eager, exact, results)
    old = {node.name: node for node in before.graph.nodes}
    differing = _first_differing(after, comparison)
    if differing is None:
        return _at_output(before, after, comparison)
    made = _made_for(differing, old)
    if not made:
        was = old[differing.name]
        sentence = _describe_change(differing, was)
        return RewrittenNode(differing, comparison, [sentence] if sentence else [], was)
    return _of_new_node(made[0], before, after, comparison)


def _of_new_node(
    node: fx.Node, before: fx.GraphModule, after: fx.GraphModule, comparison: NodeComparison
) -> RewrittenNode:
    gone = _taken_away(node, before, after)
    sentences = [f"A pass made {node.name} ({operation_of(node)})"]
    if gone is not None:
        sentences[0] += f" in place of {gone.name} ({operation_of(gone)})"
    sentences[0] += "."
    return RewrittenNode(node, comparison, sentences, gone)


def _at_output(
    before: fx.GraphModule, after: fx.GraphModule, comparison: NodeComparison
) -> RewrittenNode:
    """Return the node that became another output of the graph."""
    outputs = [_outputs(graph) for graph in (before, after)]
    old = {node.name: node for node in before.graph.nodes}
    for was, node in zip(*outputs, strict=False):
        if not isinstance(node, fx.Node) or not isinstance(was, fx.Node):
            continue
        if node.name == was.name:
            continue
        if comparison.difference(node) is None or node.name not in old:
            made = _made_for(node, old) or [node]
            return _of_new_node(made[0], before, after, comparison)
        sentence = f"The graph returns {node.name} instead of {was.name}."
        return RewrittenNode(node, comparison, [sentence], was)
    last = [node for node in after.graph.nodes if node.op != "output"][-1]
    return RewrittenNode(last, comparison, [])


def _outputs(graph: fx.GraphModule) -> list[Any]:
    return as_list(next(n for n in graph.graph.nodes if n.op == "output").args[0])


def _first_differing(after: fx.GraphModule, comparison: NodeComparison) -> fx.Node | None:
    for node in after.graph.nodes:
        difference = comparison.difference(node)
        if difference is not None and difference.kind == "differs":
            return node
    return None


def _made_for(node: fx.Node, old: dict[str, fx.Node]) -> list[fx.Node]:
    """Return the new nodes that a node is computed from, in the order of the graph; itself too,
    where it is new or computes something else now.
    """
    made = set()
    waiting = [node]
    while waiting:
        source = waiting.pop()
        is_new = source.name not in old or old[source.name].target != source.target
        if is_new and source.op == "call_function":
            made.add(source)
        if is_new or source is node:
            waiting += [given for given in source.all_input_nodes if given not in made]
    return [source for source in node.graph.nodes if source in made]


def _taken_away(node: fx.Node, before: fx.GraphModule, after: fx.GraphModule) -> fx.Node | None:
    """Return the node of the graph before the passes that ``node`` stands for: one that is gone and
    has the same inputs, or else the same users.
    """
    left = {other.name: other.target for other in after.graph.nodes}
    gone = [
        other
        for other in before.graph.nodes
        if other.op == "call_function" and left.get(other.name) != other.target
    ]
    inputs = {given.name for given in node.all_input_nodes}
    users = {user.name for user in node.users}
    for other in gone:
        if inputs and {given.name for given in other.all_input_nodes} == inputs:
            return other
    for other in gone:
        if users & {user.name for user in other.users}:
            return other
    return None


def _describe_change(node: fx.Node, was: fx.Node) -> str:
    now, then = _call(node), _call(was)
    if now == then:
        return ""
    return f"A pass changed {node.name}: {then} became {now}."


def _call(node: fx.Node) -> str:
    arguments = [str(value) for value in node.args]
    arguments += [f"{name}={value}" for name, value in node.kwargs.items()]
    return f"{operation_of(node)}({', '.join(arguments)})"
