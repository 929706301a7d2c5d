"""A segment has the recorded graphs of one call of the backend, and knows which FX node is which
row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from fx_explorer.model import Direction, Gate, Graph, SavedTensor, Stage
from fx_explorer.model.rows.graph import How, LeftOutReason


@dataclass
class RecordedGraph:
    """A recorded graph, with the rows of its live nodes. It keeps the nodes alive, so that their
    identity stays valid.
    """

    graph: Graph
    module: torch.fx.GraphModule
    ids: dict[torch.fx.Node, int]
    by_name: dict[str, int]
    nested: dict[str, RecordedGraph] = field(default_factory=dict)

    @cached_property
    def inputs(self) -> tuple[torch.fx.Node, ...]:
        """Return the placeholders, in order. They are found once: each of a thousand parameters is
        asked for by its position.
        """
        return tuple(node for node in self.ids if node.op == "placeholder")

    @cached_property
    def held(self) -> dict[str, torch.fx.Node]:
        """Return the tensors that the graph's module holds (``get_attr``), by the names it has for
        them: parameters, too, with ``torch._dynamo.config.install_free_tensors``.
        """
        return {str(node.target): node for node in self.ids if node.op == "get_attr"}

    def find(self, module: torch.fx.GraphModule) -> RecordedGraph | None:
        """Return the graph recorded from ``module``: this one or a nested one. None if there is
        none.
        """
        for recorded in self.whole():
            if recorded.module is module:
                return recorded
        return None

    def whole(self) -> Iterator[RecordedGraph]:
        """Yield this graph, then those nested in it, outer ones first."""
        yield self
        for inner in self.nested.values():
            yield from inner.whole()


@dataclass
class Segment:
    """The graphs of one call of the backend, all made from one Dynamo graph. Dropped when the next
    one of its frame begins.
    """

    dynamo: RecordedGraph | None = None
    pre_grad: RecordedGraph | None = None
    joint: RecordedGraph | None = None
    joint_after_passes: RecordedGraph | None = None
    """The joint graph as it was cut, where Inductor's passes over it changed something."""
    aot: dict[Direction, RecordedGraph] = field(default_factory=dict)
    post_grad: dict[Direction, RecordedGraph] = field(default_factory=dict)
    unedited: dict[tuple[Gate, Direction], RecordedGraph] = field(default_factory=dict)
    """(gate, direction) → a graph as it was before it was edited there."""
    seq_parents: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Autograd sequence number → rows of the Dynamo (or pre-grad) nodes it stands for."""
    left_out: dict[int, LeftOutReason] = field(default_factory=dict)
    """Row of the graph that AOTAutograd traced → why nothing of it is in what was traced
    (aot/left_out.py). Of a row that something came from, it says nothing.
    """
    regions: list[tuple[torch.fx.GraphModule, RecordedGraph]] = field(default_factory=list)
    """Forward and backward of each nested compile region, with the joint graph that was
    partitioned.
    """
    subgraph: str = ""
    """torch's name of the region (regional.py) that these graphs are of; empty for the whole graph.

    For a region, ``dynamo`` is the part of the forward or backward graph that was cut out, and
    ``aot`` the graph traced from it. Neither gets rows.
    """
    bucket: str = ""
    """Which of the buckets these graphs are of that DDPOptimizer made of Dynamo's graph:
    ``bucket 1 of 2``; empty for the whole graph. ``dynamo`` then has the rows of the whole graph
    that are in the bucket.
    """
    answerer: Any = None
    """The backend that says what it supports of these graphs (backends/asking.py); None where
    nobody asks.
    """
    traced_how: dict[int, How] = field(default_factory=dict)
    """For a region: row in the outer graph → how a node traced from it is known to be that node."""

    def at(self, stage: Stage, direction: Direction) -> RecordedGraph | None:
        """Return the latest graph of a stage; None if there is none."""
        if stage in ("forward", "backward"):
            return self.aot.get(direction)
        if stage == "post_grad":
            return self.post_grad.get(direction)
        return {"dynamo": self.dynamo, "pre_grad": self.pre_grad, "joint": self.joint}.get(stage)

    def put(self, stage: Stage, direction: Direction, graph: RecordedGraph) -> None:
        if stage in ("forward", "backward"):
            self.aot[direction] = graph
        elif stage == "post_grad":
            self.post_grad[direction] = graph
        else:
            setattr(self, stage, graph)

    saved: dict[int, SavedTensor] = field(default_factory=dict)
    """Rows of saved values, by position among the outputs of the forward graph, counted from the
    end: -1 is the last.
    """

    cuts: list[Any] = field(default_factory=list)
    """Cuts that the partitioner made for this graph (aot/partition.py), until they are
    recorded.
    """

    published: list[RecordedGraph] = field(default_factory=list)
    """The graphs that the backend published of its own stages, in the order of its calls."""

    def region_of(self, part: torch.fx.GraphModule) -> RecordedGraph | None:
        """Return the joint graph of the region whose forward or backward ``part`` is."""
        for module, joint in self.regions:
            if module is part:
                return joint
        return None

    @property
    def traced(self) -> RecordedGraph | None:
        """Return the graph that AOTAutograd traced."""
        return self.pre_grad or self.dynamo
