"""This module has the state of a compilation while it is recorded: its graphs, and the part that a
thread is compiling.

torch says which compilation a thread is at, and the hooks say which part of it. The graphs of one
call of the backend are a segment, which knows which FX node is which row.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch

from fx_explorer.capture.recording.dynamo_code import ResumeCode
from fx_explorer.capture.recording.graph_states import States
from fx_explorer.capture.recording.noting import BackendError
from fx_explorer.model import (
    Compilation,
    Direction,
    Gate,
    Graph,
    GraphBreak,
    Guard,
    SavedTensor,
    Stage,
    Symbol,
    SymbolEvent,
)
from fx_explorer.model.rows.graph import How, LeftOutReason

# The graphs of one call of the backend.


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
        """Return the placeholders, in order. The result is stored, since each of a thousand
        parameters may be looked up by its position.
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
    """The graphs of one call of the backend, all made from one Dynamo graph. It is dropped when the
    next call for its frame begins.
    """

    dynamo: RecordedGraph | None = None
    pre_grad: RecordedGraph | None = None
    joint: RecordedGraph | None = None
    joint_after_passes: RecordedGraph | None = None
    """The joint graph as it was partitioned; None if Inductor's passes did not change it before."""
    aot: dict[Direction, RecordedGraph] = field(default_factory=dict)
    post_grad: dict[Direction, RecordedGraph] = field(default_factory=dict)
    unedited: dict[tuple[Gate, Direction], RecordedGraph] = field(default_factory=dict)
    """(gate, direction) → the graph as it reached the gate, for graphs that were edited there."""
    seq_parents: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """Autograd sequence number → rows of the Dynamo (or pre-grad) nodes with that number."""
    left_out: dict[int, LeftOutReason] = field(default_factory=dict)
    """Row of Dynamo's (or the pre-grad) graph → why AOTAutograd traced no node from it
    (aot/left_out.py). Rows from which a node came are not in it.
    """
    regions: list[tuple[torch.fx.GraphModule, RecordedGraph]] = field(default_factory=list)
    """Forward and backward of each nested compile region, with the joint graph that was
    partitioned.
    """
    subgraph: str = ""
    """torch's name of the region (regional.py) that these graphs belong to; empty for the whole
    graph.

    For a region, ``dynamo`` is the part of the forward or backward graph that was cut out, and
    ``aot`` the graph traced from it. Neither gets rows.
    """
    bucket: str = ""
    """Name of the bucket these graphs belong to, where DDPOptimizer split Dynamo's graph: ``bucket
    1 of 2``; empty for the whole graph. ``dynamo`` then has the rows of the whole graph that are in
    the bucket.
    """
    answerer: Any = None
    """The backend that can be asked what it supports of these graphs (backends/asking.py); None if
    none is asked.
    """
    earlier_passes: tuple[torch.fx.GraphModule, Any] | None = None
    """A graph, and the passes over it (StagePasses of inductor/pass_changes.py) that wait until the
    graph is recorded after a later stage.
    """
    traced_states: dict[Direction, tuple[torch.fx.GraphModule, States]] = field(
        default_factory=dict
    )
    """Direction → AOTAutograd's graph, and its nodes as they were before any pass of Inductor's,
    until the first of them begins.
    """
    values: Any = None
    """What AOTAutograd said of the graph's inputs and outputs (SeenValues of aot/value_facts.py),
    until the forward graph is recorded.
    """
    redistributed: list[Any] = field(default_factory=list)
    """Redistributions of DTensors (SeenRedistribution of aot/distributed_facts.py), until the graph
    that has their nodes is recorded.
    """
    traced_how: dict[int, How] = field(default_factory=dict)
    """For a region: row in the outer graph → the evidence that links the region's own node
    to it.
    """

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
    """Minimum cuts of this graph by the partitioner that are not recorded yet
    (aot/partition_choices.py).
    """

    published: list[RecordedGraph] = field(default_factory=list)
    """The graphs that the backend published of its own stages, in the order of its calls."""

    def region_of(self, part: torch.fx.GraphModule) -> RecordedGraph | None:
        """Return the joint graph of a region; ``part`` is the region's forward or backward."""
        for module, joint in self.regions:
            if module is part:
                return joint
        return None

    @property
    def traced(self) -> RecordedGraph | None:
        """Return the graph that AOTAutograd traced."""
        return self.pre_grad or self.dynamo


# What a thread compiles.


class ThisThread(threading.local):
    direction: Direction = ""
    """Direction of the graph that is being compiled."""
    segment: Segment | None = None
    """The segment of the region being compiled; None for the whole graph."""
    asking: Any = None
    """The graph that a backend is compiling, with the record of its support (backends/asking.py);
    None if none is asked.
    """
    is_in_regions = False
    """Whether AOTAutograd partitions nested compile regions rather than the graph around them."""
    ahead: str | None = None
    """Name of the compilation of torch's own AOT compile; empty before Dynamo has begun, None
    outside of such a compile.
    """
    backend_of_file: Any = None
    """The backend of torch's own AOT compile; None outside of such a compile."""
    running = ""
    """The compilation whose compiled function (made by a backend) is running; empty if none is."""
    running_direction: Direction = ""
    """Direction of the entry that runs in this thread."""
    _is_publishing = False
    _aot_depth = 0
    """Number of AOTAutograd calls in progress."""

    @property
    def is_nested(self) -> bool:
        """Return whether AOTAutograd was entered again during its compilation, for a region of its
        own.
        """
        return self._aot_depth > 1

    @contextlib.contextmanager
    def in_aot(self) -> Iterator[None]:
        self._aot_depth += 1
        try:
            yield
        finally:
            self._aot_depth -= 1

    @contextlib.contextmanager
    def running_entry(self, compilation: str, direction: Direction) -> Iterator[None]:
        """Mark, inside the block, that a backend's compiled function for a graph of this direction
        is running.
        """
        before = self.running, self.running_direction
        self.running, self.running_direction = compilation, direction
        try:
            yield
        finally:
            self.running, self.running_direction = before

    @contextlib.contextmanager
    def publishing(self) -> Iterator[bool]:
        """Yield whether no other stage is being published: making a stage's content may publish
        another one.
        """
        before, self._is_publishing = self._is_publishing, True
        try:
            yield not before
        finally:
            self._is_publishing = before

    @contextlib.contextmanager
    def in_regions(self) -> Iterator[None]:
        before, self.is_in_regions = self.is_in_regions, True
        try:
            yield
        finally:
            self.is_in_regions = before

    @contextlib.contextmanager
    def compiling(self, direction: Direction) -> Iterator[None]:
        before, self.direction = self.direction, direction
        try:
            yield
        finally:
            self.direction = before

    @contextlib.contextmanager
    def inside(self, segment: Segment) -> Iterator[None]:
        """Record compilations inside the block under ``segment``, a part of the current one."""
        before, self.segment = self.segment, segment
        try:
            yield
        finally:
            self.segment = before

    @contextlib.contextmanager
    def compiling_ahead(self) -> Iterator[None]:
        """Mark this thread, inside the block, as compiling a function ahead of time. torch itself
        has a current compilation only while Dynamo is at work.
        """
        before, self.ahead = self.ahead, ""
        try:
            yield
        finally:
            self.ahead = before

    def stay_in(self, name: str) -> None:
        """Assign everything that follows, inside ``compiling_ahead``, to the compilation
        ``name``.
        """
        if self.ahead is not None:
            self.ahead = name


# What is known of one compilation.


@dataclass
class CompilationState:
    row: Compilation | None = None
    """The row as it is in the session; None until torch has announced the compilation."""
    segment: Segment | None = None
    """The graphs of the current attempt; None until Dynamo has captured one."""
    backend: str = ""
    """The backend in use; empty until it is known."""
    seen_stages: set[Stage] = field(default_factory=set)
    """The stages that have something in the session."""
    cache_events: list[str] = field(default_factory=list)
    """What torch's caches reported."""
    has_broken: bool = False
    """Whether the compilation ended at a graph break."""
    resume_code: ResumeCode | None = None
    """The arguments with which Dynamo made the function; None until it has a graph."""
    skipping: GraphBreak | None = None
    """The latest graph break after which torch cannot resume; None without one."""
    break_causes: set[str] = field(default_factory=set)
    """Causes of its graph breaks."""
    error: BackendError | None = None
    """A backend's error, until it is known whether Dynamo turns it into a failure, a graph break or
    a restart.
    """
    variant: int = 0
    """Row of the variant being compiled; 0 for the first one."""
    shape_guard: Guard | None = None
    """Dynamo's guard on sizes."""
    symbols: dict[str, Symbol] = field(default_factory=dict)
    """Name → dynamic size of the current attempt."""
    symbol_events: set[SymbolEvent] = field(default_factory=set)
    """The events of dynamic sizes that were recorded already."""

    def copied(self) -> CompilationState:
        """Return a copy that changes independently of the original."""
        return replace(
            self,
            seen_stages=set(self.seen_stages),
            cache_events=list(self.cache_events),
            break_causes=set(self.break_causes),
            symbols=dict(self.symbols),
            symbol_events=set(self.symbol_events),
        )
