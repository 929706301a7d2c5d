"""When a graph goes to a backend, this module records what the backend supports of it.

In this order: what torch's partitioner was asked while the backend compiled, as it was; the
backend's own ``operator_support``, which we ask, and have torch's partitioner ask; nothing but what
the graph holds, where the backend does not say.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch

from fx_explorer.capture.backends.asked_support import (
    WHAT,
    AskedSupport,
    Proposal,
    Segments,
    partitioned,
    proposal_of,
)
from fx_explorer.capture.backends.declared import Declared, declared_by
from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.recording.graphs import CALLS, target_name
from fx_explorer.capture.recording.segments import RecordedGraph
from fx_explorer.capture.recording.stages import REGIONAL
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import Direction, NodeSupport, Span, Support, SupportReport

if TYPE_CHECKING:
    from fx_explorer.capture.backends.node_work import NodeCost


PARTITIONED = "Partitioned graph"
"""Title of a graph that a backend made for itself and had partitioned."""

NOT_ASKED = ("inductor", REGIONAL)
"""Backends that take every operator, and have views of their own."""


@dataclass(frozen=True)
class Answerer:
    """A backend, and what it declares."""

    backend: str
    declared: Declared | None


def answerer(backend: str, compiler: Any) -> Answerer | None:
    """Return who can be asked; None for Inductor, which takes every operator."""
    if backend in NOT_ASKED:
        return None
    return Answerer(backend, declared_by(compiler))


@dataclass
class Asking:
    """A graph that a backend is at work on, with what is known of it so far."""

    recording: Recording
    answerer: Answerer
    recorded: RecordedGraph
    copy: torch.fx.GraphModule
    """The graph as it was given: backends change it."""
    direction: Direction
    proposals: dict[int, Proposal] = field(default_factory=dict)
    """By the ``id`` of the partitioner."""
    partitioners: list[Any] = field(default_factory=list)
    """Kept, so that no id is given twice."""
    is_answered: bool = False
    """Whether a graph that was made from this one was reported in its stead."""

    def begin(self, partitioner: Any) -> None:
        """Note that the partitioner is about to propose partitions."""
        graph = self._graph_of(partitioner.graph_module)
        self.proposals[id(partitioner)] = proposal_of(partitioner, graph)
        self.partitioners.append(partitioner)

    def answer(self, partitioner: Any, node: torch.fx.Node, answer: object) -> None:
        """Note what the backend's support answered of one node."""
        proposal = self.proposals.get(id(partitioner))
        if proposal is not None:
            proposal.answers[node] = answer

    def propose(self, partitioner: Any, partitions: Any) -> None:
        """Note the partitions, as far as they are known by now."""
        proposal = self.proposals.get(id(partitioner))
        if proposal is not None:
            proposal.take(partitions)

    def _graph_of(self, module: torch.fx.GraphModule) -> RecordedGraph:
        """Return the recorded graph that is partitioned. One that the backend made is recorded."""
        if _is_same(module.graph, self.copy.graph):
            return self.recorded
        return self.recording.add_graph(module, "backend", self.direction, label=PARTITIONED)


def _is_same(graph: torch.fx.Graph, given: torch.fx.Graph) -> bool:
    """Return whether the graph has the nodes of the one that was given: torch keeps names in
    copies.
    """
    ours = {node.name: (node.op, target_name(node)) for node in given.nodes}
    return len(graph.nodes) == len(ours) and all(
        ours.get(node.name) == (node.op, target_name(node)) for node in graph.nodes
    )  # fmt: skip


@contextlib.contextmanager
def given_to_backend(
    recording: Recording,
    who: Answerer | None,
    recorded: RecordedGraph | None,
    module: torch.fx.GraphModule,
    direction: Direction = "",
) -> Iterator[None]:
    """Record, after the block, what the backend supports of the graph that it is given in the
    block, and how long it was at work on it.
    """
    asking, outer = None, recording.here.asking
    if who is not None and recorded is not None:
        with recording.noting(WHAT):
            asking = Asking(recording, who, recorded, snapshot(module), direction)
    recording.here.asking = asking
    try:
        clock = timed(recording, who.backend) if who else contextlib.nullcontext()
        with clock:
            yield
    finally:
        # Partitioners that we ask must not pass for the backend's.
        recording.here.asking = None
        if asking is not None:
            with recording.noting(WHAT):
                _report(asking, outer)
        recording.here.asking = outer


def _report(asking: Asking, outer: Asking | None) -> None:
    """Add what is known of a graph. What a backend partitioned before AOTAutograd got the parts is
    reported once, of the whole.
    """
    if asking.proposals:
        for proposal in asking.proposals.values():
            _add_proposal(asking, proposal)
    elif asking.is_answered or (outer is not None and outer.proposals):
        return
    elif asking.answerer.declared is not None:
        _add_declared(asking, asking.answerer.declared)
    else:
        _add(asking, asking.recorded, _Answers(SAID_BY_NOBODY, _work_of(asking.copy.graph)))
    if outer is not None:
        outer.is_answered = True


SAID_BY_NOBODY = SupportReport(0, 0, 0, "", "nobody")


@dataclass(frozen=True)
class _Answers:
    """What became known of the operators of a graph."""

    report: SupportReport
    work: dict[torch.fx.Node, NodeCost]
    support: Mapping[torch.fx.Node, Support] = field(default_factory=dict)
    segments: Segments | None = None
    reasons: Mapping[torch.fx.Node, str] = field(default_factory=dict)


def _add_proposal(asking: Asking, proposal: Proposal) -> None:
    """Add what the backend had torch's partitioner propose."""
    support: dict[torch.fx.Node, Support] = {
        node: "supported" if answer else "falls_back" for node, answer in proposal.answers.items()
    }
    notes: tuple[str, ...] = ()
    if proposal.segments is None:
        notes = ("torch's partitioner proposed nothing: it was asked, and raised.",)
    report = SupportReport(
        0,
        0,
        0,
        "",
        "partitioner",
        source=f"{type(proposal.support).__qualname__} of {type(proposal.support).__module__}",
        allows_single=proposal.allows_single,
        merges_independent=proposal.merges_independent,
        notes=notes,
    )
    _add(
        asking,
        proposal.graph,
        _Answers(report, proposal.nodes, support, proposal.segments, proposal.reasons),
    )


def _work_of(graph: torch.fx.Graph) -> dict[torch.fx.Node, NodeCost]:
    # Imported here: what it needs of torch's is no other view's business.
    from fx_explorer.capture.backends.node_work import work_of

    return work_of(graph)


def _add_declared(asking: Asking, declared: Declared) -> None:
    """Ask what the backend declares of each operator, and have torch's partitioner ask."""
    asked = AskedSupport(declared)
    submodules = dict(asking.copy.named_modules())
    work = _work_of(asking.copy.graph)
    for node in work:
        if node.op in CALLS:
            asked.ask(submodules, node)
    segments, why_none = partitioned(asking.copy, asked)
    notes = (*asked.oddities(), *filter(None, [why_none]))
    report = SupportReport(0, 0, 0, "", "declared", source=declared.source, notes=notes)
    _add(asking, asking.recorded, _Answers(report, work, asked.support, segments, asked.reasons))


def _add(asking: Asking, graph: RecordedGraph, answers: _Answers) -> None:
    """Add a report, with a row for each of its operators."""
    writer = asking.recording.writer
    report = replace(
        answers.report,
        compilation=asking.recording.variant_id(),
        graph=graph.graph.id,
        backend=asking.answerer.backend,
        is_partitioned=answers.segments is not None,
    )
    added = writer.add(report)
    segments = answers.segments or {}
    rows = []
    for node, work in answers.work.items():
        if node.name not in graph.by_name:
            continue
        support: Support = "unknown"
        if node.op in CALLS:
            support = answers.support.get(node, "unknown")
        row = NodeSupport(
            added,
            graph.by_name[node.name],
            support,
            segments.get(node, 0),
            answers.reasons.get(node, ""),
            work.flops,
            work.read_bytes,
            work.written_bytes,
            work.result_bytes,
        )
        rows.append(row)
    writer.add_all(rows)


# How long a backend works on a graph. torch's own events have that time as AOTAutograd's, or as
# that of passes before autograd.


@contextlib.contextmanager
def timed(recording: Recording, backend: str) -> Iterator[None]:
    """Record the block as a span of the backend's stage. Torch's own events inside it count for
    themselves.
    """
    start_s = recording.elapsed() - recording.waited_s
    try:
        yield
    finally:
        duration_s = recording.elapsed() - recording.waited_s - start_s
        with recording.noting("the time that a backend took", "backend"):
            recording.writer.add(
                Span(
                    0, recording.variant_id(), f"backend {backend}", "backend", start_s, duration_s
                )
            )
