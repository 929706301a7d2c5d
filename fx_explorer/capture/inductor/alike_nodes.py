"""This module counts how much of a pattern is there at a node, if what does not match is passed
over.

Torch stops at the first part of a pattern that does not match, which may be its second node. Here a
part that has another operator counts as one that differs, its inputs are compared all the same, and
up to SKIPPED nodes in a row may be there in the graph or in the pattern alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from fx_explorer.capture.inductor.failed_matches import is_operator, operators_in, parts_of
from fx_explorer.capture.torch_compat.private_names import inductor_patterns

SKIPPED = 1
"""Maximum number of nodes in a row that only the graph, or only the pattern, has."""

LEAST = 0.5
"""Part of the operators of a pattern that have to be called before a node at all."""

ANCESTORS = 100
"""Maximum number of nodes before a node that are looked at for that."""

ENOUGH = 0.75
"""Part of the first output of a pattern that has to be there for the others to be looked for."""

CANDIDATES = 12
"""Maximum number of nodes at which another output of a pattern is looked for."""


class AlikeNodes:
    """Counts the operators of patterns that are there at nodes of a graph, which must not change
    meanwhile: what is known of a node holds for all patterns, and of a part for all nodes.
    """

    def __init__(self) -> None:
        self._known = _NodesOfGraph()
        self._counters: dict[int, _Counter] = {}
        self._called: dict[torch.fx.Node, set[Any]] = {}

    def count(self, pattern: Any, node: torch.fx.Node) -> int:
        """Return the number of operators of a pattern that are there, with its first output at a
        node.
        """
        outputs = [pattern]
        if isinstance(pattern, inductor_patterns.MultiOutputPattern):
            outputs = [output for output in pattern.outputs if output is not None]
        called = self._called_before(node)
        of_first = operators_in(outputs[0])
        may_be_there = [part for part in of_first if not called.isdisjoint(part.fns_set)]
        if len(may_be_there) < LEAST * len(of_first):
            return 0
        counter = self._counter(pattern)
        there = counter.alike(outputs[0], node, SKIPPED)
        if there.bit_count() >= ENOUGH * len(of_first):
            for output in outputs[1:]:
                candidates = list(_nodes_that_call(node.graph, output))[:CANDIDATES]
                masks = [counter.alike(output, candidate, 0) for candidate in candidates]
                there |= max(masks, key=int.bit_count, default=0)
        return there.bit_count()

    def _counter(self, pattern: Any) -> _Counter:
        counter = self._counters.get(id(pattern))
        if counter is None:
            counter = _Counter(operators_in(pattern), self._known)
            self._counters[id(pattern)] = counter
        return counter

    def _called_before(self, node: torch.fx.Node) -> set[Any]:
        if node not in self._called:
            self._called[node] = _called_before(node)
        return self._called[node]


class _NodesOfGraph:
    """What the nodes of a graph call, and their inputs as patterns have them."""

    def __init__(self) -> None:
        self._targets: dict[torch.fx.Node, Any] = {}
        self._inputs: dict[tuple[Any, ...], Any] = {}

    def target(self, node: torch.fx.Node) -> Any:
        if node not in self._targets:
            self._targets[node] = inductor_patterns.extract_target(node)
        return self._targets[node]

    def inputs(self, pattern: Any, node: torch.fx.Node) -> Iterable[tuple[Any, Any]]:
        """Return the inputs of a part beside those of a node."""
        flatten = getattr(pattern, "flatten", None)
        if flatten is None:
            return ()
        names = tuple(name for name in node.kwargs if name in pattern.kwargs)
        key = node, flatten, names
        if key not in self._inputs:
            named = {name: node.kwargs[name] for name in names}
            self._inputs[key] = flatten(node.args, named)[0]
        return zip(pattern.flat_args_kwargs[0], self._inputs[key], strict=False)


def _called_before(node: torch.fx.Node) -> set[Any]:
    """Return what a node and those before it call."""
    nodes = {node: None}
    waiting = [node]
    while waiting and len(nodes) < ANCESTORS:
        for before in waiting.pop(0).all_input_nodes:
            if before not in nodes:
                nodes[before] = None
                waiting.append(before)
    return {inductor_patterns.extract_target(each) for each in nodes if each.op.startswith("call_")}


def _nodes_that_call(graph: torch.fx.Graph, output: Any) -> Iterator[torch.fx.Node]:
    for target in getattr(output, "fns_set", ()):
        yield from graph.find_nodes(op=output.op, target=target)


class _Counter:
    """Which operators of a pattern are there, as bits of a number, each once."""

    def __init__(self, operators: tuple[Any, ...], nodes: _NodesOfGraph) -> None:
        self._nodes = nodes
        self._bits = {id(operator): 1 << at for at, operator in enumerate(operators)}
        self._known: dict[tuple[int, torch.fx.Node, int], int] = {}

    def alike(self, pattern: Any, value: Any, skips: int) -> int:
        """Return the operators of a pattern's part that are present at a node and its inputs."""
        if not isinstance(value, torch.fx.Node):
            return 0
        key = id(pattern), value, skips
        if key not in self._known:
            self._known[key] = 0  # until it is known: a pattern has no circles
            self._known[key] = self._counted(pattern, value, skips)
        return self._known[key]

    def _counted(self, pattern: Any, node: torch.fx.Node, skips: int) -> int:
        if not is_operator(pattern):
            return 0
        is_same = node.op == pattern.op and (self._nodes.target(node) in pattern.fns_set)
        there = self._bits[id(pattern)] if is_same else 0
        for part, value in self._nodes.inputs(pattern, node):
            there |= self.alike(part, value, SKIPPED)
        if is_same or not skips:
            return there
        others = [self.alike(pattern, value, skips - 1) for value in node.all_input_nodes]
        others += [self.alike(part, node, skips - 1) for part in parts_of(pattern)]
        return max([there, *others], key=int.bit_count)
