"""A backend is asked in two ways what it supports: by us, once for each operator, and by torch's
partitioner. This module asks, and records what was answered.

An exception, and an answer that is neither True nor False, is noted, too. Of torch's
CapabilityBasedPartitioner (torch/fx/passes/infra/partitioner.py, read in 2.13) it is recorded what
a backend had it propose, and what it proposes when we ask it.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.passes.infra import partitioner as torchs

from fx_explorer.capture.backends.declared import Declared
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.graphs import CALLS
from fx_explorer.capture.recording.segments import RecordedGraph
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import Support

if TYPE_CHECKING:
    from fx_explorer.capture.backends.node_work import NodeCost


PARTITION_LIMIT_S = 10.0
"""Longest time that torch's partitioner may take for us."""


class PartitionTakesTooLong(Exception):
    """torch's partitioner had not proposed anything within ``PARTITION_LIMIT_S``."""


class AskedSupport:
    """An OperatorSupport as torch's partitioner asks it, which remembers every answer.

    An exception or an answer that is neither True nor False is noted, and counts as not supported
    where it is partitioned.
    """

    def __init__(self, declared: Declared) -> None:
        self._declared = declared
        self._deadline = float("inf")
        self._odd: Counter[str] = Counter()
        self.support: dict[torch.fx.Node, Support] = {}
        self.reasons: dict[torch.fx.Node, str] = {}

    def limit_time(self) -> None:
        """Give up from now on after ``PARTITION_LIMIT_S``: the partitioner asks again for every
        node.
        """
        self._deadline = time.monotonic() + PARTITION_LIMIT_S

    def is_node_supported(
        self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node
    ) -> bool:
        if time.monotonic() > self._deadline:
            raise PartitionTakesTooLong
        # Inputs and outputs are nobody's to compute, whatever an OperatorSupport says of them.
        return node.op in CALLS and self.ask(submodules, node) == "supported"

    def ask(self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node) -> Support:
        if node not in self.support:
            self.support[node] = self._asked(submodules, node)
        return self.support[node]

    def _asked(self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node) -> Support:
        if self._declared.ask is None:
            return "unknown"
        try:
            answer = self._declared.ask(submodules, node)
        except (Exception, SystemExit) as error:  # noqa: BLE001  (the backend's own code)
            return self._no_answer(node, f"raised {one_line(f'{type(error).__name__}: {error}')}")
        if not isinstance(answer, bool):
            return self._no_answer(
                node, f"answered {one_line(repr(answer))[:80]}, which is neither True nor False"
            )
        if answer:
            return "supported"
        self._note_reason(submodules, node)
        return "falls_back"

    def _note_reason(self, submodules: Mapping[str, torch.nn.Module], node: torch.fx.Node) -> None:
        if self._declared.reason is None:
            return
        try:
            self.reasons[node] = one_line(str(self._declared.reason(submodules, node) or ""))
        except (Exception, SystemExit) as error:  # noqa: BLE001  (the backend's own code)
            self._odd[f"its reason() raised {one_line(f'{type(error).__name__}: {error}')}"] += 1

    def _no_answer(self, node: torch.fx.Node, what: str) -> Support:
        self._odd[f"it {what}"] += 1
        self.reasons[node] = f"the backend's support {what}"
        return "unknown"

    def oddities(self) -> list[str]:
        """Return sentences on what was asked and not answered."""
        sentences = [*self._declared.oddities]
        for what, count in self._odd.most_common(MOST_ODDITIES):
            sentences.append(f"Asked of {_operators(count)}, {what}.")
        more = len(self._odd) - MOST_ODDITIES
        if more > 0:
            sentences.append(f"{more} other errors are told at the operators.")
        return sentences


MOST_ODDITIES = 4


def _operators(count: int) -> str:
    if count == 1:
        return f"{count} operator"
    return f"{count} operators"


# What torch's partitioner proposes.


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
        """Note which segments there are by now. The reasons are asked for while the graph is
        whole.
        """
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
    owner: dict[torch.fx.Node, int] = {}
    for at, partition in enumerate(partitions):
        owner.update(dict.fromkeys(partition.nodes, at))
    numbers: dict[int, int] = {}
    segments = {}
    for node in order:
        if node in owner:
            segments[node] = numbers.setdefault(owner[node], len(numbers) + 1)
    return segments


def reasons_of(support: Any, answers: Mapping[torch.fx.Node, object]) -> dict[torch.fx.Node, str]:
    """Return why operators are not supported, where the backend's support has words for it."""
    reason = getattr(support, "reason", None)
    if not callable(reason):
        return {}
    reasons = {}
    for node, answer in answers.items():
        if not answer and node.op in CALLS:
            reasons[node] = one_line(str(reason({}, node) or ""))
    return reasons


def partitioned(module: torch.fx.GraphModule, support: AskedSupport) -> tuple[Segments | None, str]:
    """Return the segments that torch's partitioner makes of a graph when we ask it; else None and
    why not.
    """
    if len(module.graph.nodes) > MOST_PARTITIONED:
        return None, (
            f"The graph has {len(module.graph.nodes):,} nodes. torch's partitioner, whose time "
            f"grows faster than their square, is asked for graphs up to {MOST_PARTITIONED:,}, so "
            "it is not known which segments there would be."
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
