"""torch's CapabilityBasedPartitioner (torch/fx/passes/infra/partitioner.py, read in 2.13): what a
backend had it propose, and what it proposes when we ask it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.passes.infra import partitioner as torchs

from fx_explorer.capture.backends.asked_support import (
    PARTITION_LIMIT_S,
    AskedSupport,
    PartitionTakesTooLong,
)
from fx_explorer.capture.recording.rows.error_lines import one_line
from fx_explorer.capture.recording.rows.graphs import CALLS
from fx_explorer.capture.recording.segments import RecordedGraph
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched

if TYPE_CHECKING:
    from fx_explorer.capture.backends.node_work import NodeCost

WHAT = "what a backend supports"

MOST_PARTITIONED = 4_000
"""Nodes of a graph that we have partitioned. torch keeps all that is below each node: its time and
memory grow with the square.
"""

Segments = dict[torch.fx.Node, int]
"""Node → its segment, from 1, in the order of the graph."""


@dataclass
class Proposal:
    """One use of the partitioner by a backend, as it was."""

    graph: RecordedGraph
    """The graph that was partitioned."""
    support: Any
    """The backend's OperatorSupport."""
    nodes: dict[torch.fx.Node, NodeCost]
    """Its nodes but for the output, in order."""
    allows_single: bool
    merges_independent: bool
    answers: dict[torch.fx.Node, object] = field(default_factory=dict)
    """What the backend's support answered the partitioner."""
    reasons: dict[torch.fx.Node, str] = field(default_factory=dict)
    segments: Segments | None = None
    """None until partitions are proposed."""

    def take(self, partitions: Any) -> None:
        """Note which segments there are by now. The reasons are asked for while the graph is whole."""
        if self.segments is None:
            self.reasons = reasons_of(self.support, self.answers)
        self.segments = numbered(partitions, self.nodes)


def partitioner_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Note what backends ask torch's partitioner, and what it proposes to them."""

    def propose(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def propose_partitions(self: Any, *args: Any, **kwargs: Any) -> Any:
            asking = recording.here.asking
            if asking is None:
                return original(self, *args, **kwargs)
            with recording.noting(WHAT):
                asking.begin(self)
            partitions = original(self, *args, **kwargs)
            with recording.noting(WHAT):
                asking.propose(self, partitions)
            return partitions

        return propose_partitions

    def fuse(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def fuse_partitions(self: Any, partitions: Any, *args: Any, **kwargs: Any) -> Any:
            # What is fused in the end counts: backends change what was proposed.
            with recording.noting(WHAT):
                if recording.here.asking is not None:
                    recording.here.asking.propose(self, partitions)
            return original(self, partitions, *args, **kwargs)

        return fuse_partitions

    def ask(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def is_node_supported(self: Any, node: Any) -> Any:
            answer = original(self, node)
            if recording.here.asking is not None:
                recording.here.asking.answer(self, node, answer)
            return answer

        return is_node_supported

    return _all_patched(
        {"propose_partitions": propose, "fuse_partitions": fuse, "_is_node_supported": ask}
    )


@contextlib.contextmanager
def _all_patched(
    makers: Mapping[str, Callable[[Callable[..., Any]], Callable[..., Any]]],
) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, make in makers.items():
            stack.enter_context(patched(torchs.CapabilityBasedPartitioner, name, make))
        yield


def proposal_of(partitioner: Any, graph: RecordedGraph) -> Proposal:
    """Return what is known before the partitioner is at work: fusing changes the graph."""
    from fx_explorer.capture.backends.node_work import work_of

    return Proposal(
        graph,
        partitioner.operator_support,
        work_of(partitioner.graph_module.graph),
        bool(getattr(partitioner, "allows_single_node_partition", False)),
        not getattr(partitioner, "skip_horizontal_fusion", False),
    )


def numbered(partitions: Any, nodes: Iterable[torch.fx.Node]) -> Segments:
    """Return the segment of each operator, numbered by the first of each. What else is in a
    partition (constants) is left out.
    """
    order = [node for node in nodes if node.op in CALLS]
    members = [set(partition.nodes) for partition in partitions]
    owner = {node: i for i, nodes in enumerate(members) for node in nodes}
    numbers: dict[int, int] = {}
    for node in order:
        if node in owner:
            numbers.setdefault(owner[node], len(numbers) + 1)
    return {node: numbers[owner[node]] for node in order if node in owner}


def reasons_of(support: Any, answers: Mapping[torch.fx.Node, object]) -> dict[torch.fx.Node, str]:
    """Return why operators are not supported, where the backend's support has words for it."""
    reason = getattr(support, "reason", None)
    if not callable(reason):
        return {}
    return {
        node: one_line(str(reason({}, node) or ""))
        for node, answer in answers.items()
        if not answer and node.op in CALLS
    }


def partitioned(module: torch.fx.GraphModule, support: AskedSupport) -> tuple[Segments | None, str]:
    """Return the segments that torch's partitioner makes of a graph when we ask it; else None and
    why not.
    """
    if len(module.graph.nodes) > MOST_PARTITIONED:
        return None, (
            f"The graph has {len(module.graph.nodes):,} nodes. torch's partitioner, whose "
            "time grows faster than their square, "
            f"is asked for graphs up to {MOST_PARTITIONED:,}, so it is not known which "
            "segments there would be."
        )
    support.limit_time()
    try:
        partitions = torchs.CapabilityBasedPartitioner(module, support).propose_partitions()
    except PartitionTakesTooLong:
        limit = f"{PARTITION_LIMIT_S:.0f} s"
        return (
            None,
            (
                f"torch's partitioner was stopped after {limit}, so it is not known which "
                "segments there would be."
            ),
        )
    return numbered(partitions, module.graph.nodes), ""
