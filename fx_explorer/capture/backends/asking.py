"""This module records what a backend supports of a graph when the graph is passed to it.

Three sources are tried in this order: what torch's partitioner asked while the backend compiled;
the backend's own ``operator_support``, which we ask, and let torch's partitioner ask; and the graph
alone, where the backend gives no information.

So a backend is asked in two ways: by us, once for each operator, and by torch's partitioner. An
exception, and an answer that is neither True nor False, is noted, too. For torch's
CapabilityBasedPartitioner (torch/fx/passes/infra/partitioner.py, read in 2.13), the record has the
partitions that it proposed to the backend, or those that it proposes when we ask it.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import torch
from torch.fx.passes.infra import partitioner as torchs

from fx_explorer.capture.backends.users_backend import Declared, declared_by
from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.recording.compilation_state import RecordedGraph
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.fx_graphs import CALLS, target_name
from fx_explorer.capture.recording.stage_events import REGIONAL
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import Direction, NodeSupport, Span, Support, SupportReport

if TYPE_CHECKING:
    from fx_explorer.capture.backends.node_work import NodeCost


PARTITIONED = "Partitioned graph"
"""Title of a graph that a backend made itself and passed to the partitioner."""

NOT_ASKED = ("inductor", REGIONAL)
"""Backends that are not asked: they accept every operator, and have views of their own."""


@dataclass(frozen=True)
class Answerer:
    """A backend's name with the support that it declares; None if it declares none."""

    backend: str
    declared: Declared | None


def answerer(backend: str, compiler: Any) -> Answerer | None:
    """Return the backend to be asked; None for Inductor, which accepts every operator."""
    if backend in NOT_ASKED:
        return None
    return Answerer(backend, declared_by(compiler))


@dataclass
class Asking:
    """A graph that a backend is compiling, with the answers about its support so far."""

    recording: Recording
    answerer: Answerer
    recorded: RecordedGraph
    copy: torch.fx.GraphModule
    """A copy of the graph as it was passed to the backend, which may change its own."""
    direction: Direction
    proposals: dict[int, Proposal] = field(default_factory=dict)
    """Proposals by the ``id`` of the partitioner."""
    partitioners: list[Any] = field(default_factory=list)
    """Keeps partitioners alive, so that no id is used twice."""
    is_answered: bool = False
    """Whether a graph that was made from this one was reported in its place."""

    def begin(self, partitioner: Any) -> None:
        """Note that the partitioner is about to propose partitions."""
        graph = self._graph_of(partitioner.graph_module)
        self.proposals[id(partitioner)] = proposal_of(partitioner, graph)
        self.partitioners.append(partitioner)

    def answer(self, partitioner: Any, node: torch.fx.Node, answer: object) -> None:
        """Record the backend's answer about one node."""
        proposal = self.proposals.get(id(partitioner))
        if proposal is not None:
            proposal.answers[node] = answer

    def propose(self, partitioner: Any, partitions: Any) -> None:
        """Note the partitions that are known so far."""
        proposal = self.proposals.get(id(partitioner))
        if proposal is not None:
            proposal.take(partitions)

    def _graph_of(self, module: torch.fx.GraphModule) -> RecordedGraph:
        """Return the recorded graph for the one being partitioned: the graph that the backend was
        given, or a graph that it made, which is recorded now.
        """
        if _is_same(module.graph, self.copy.graph):
            return self.recorded
        return self.recording.add_graph(module, "backend", self.direction, label=PARTITIONED)


def _is_same(graph: torch.fx.Graph, given: torch.fx.Graph) -> bool:
    """Return whether the graph has the same nodes as the given one. torch keeps names in copies."""
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
    """Record, after the block, what the backend supports of its graph, and how long it worked on
    it.
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
    """Write the support report of a graph. When a backend has partitioned the whole graph before
    AOTAutograd handed it parts of it, only the whole is reported.
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
    """The facts about the operators of one graph: their work, support and segments."""

    report: SupportReport
    work: dict[torch.fx.Node, NodeCost]
    support: Mapping[torch.fx.Node, Support] = field(default_factory=dict)
    segments: Segments | None = None
    reasons: Mapping[torch.fx.Node, str] = field(default_factory=dict)


def _add_proposal(asking: Asking, proposal: Proposal) -> None:
    """Write the report of a proposal that torch's partitioner made for the backend."""
    support: dict[torch.fx.Node, Support] = {}
    for node, is_supported in proposal.answers.items():
        support[node] = "supported" if is_supported else "falls_back"
    notes: tuple[str, ...] = ()
    if proposal.segments is None:
        notes = ("torch's partitioner raised an error, so it proposed no segments.",)
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
    """Check each operator against the backend's declaration, also through torch's partitioner."""
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
    """Record the block as a span of the backend's stage. Torch's own events inside it keep their
    time.
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


# What is asked of a backend, and of torch's partitioner.


PARTITION_LIMIT_S = 10.0
"""Maximum number of seconds that torch's partitioner may take for us."""


class PartitionTakesTooLong(Exception):
    """Raised when torch's partitioner has proposed nothing within ``PARTITION_LIMIT_S``."""


class AskedSupport:
    """The OperatorSupport that replaces the backend's in torch's partitioner, and stores the
    answers. An exception, or an answer that is neither True nor False, is recorded and counts as
    not supported.
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
        """Return sentences on oddities: those of the declaration, and errors of the backend while
        it was asked.
        """
        sentences = [*self._declared.oddities]
        for what, count in self._odd.most_common(MOST_ODDITIES):
            sentences.append(f"Asked of {_operators(count)}, {what}.")
        more = len(self._odd) - MOST_ODDITIES
        if more > 0:
            sentences.append(f"{more} other errors are listed with the operators.")
        return sentences


MOST_ODDITIES = 4


def _operators(count: int) -> str:
    if count == 1:
        return f"{count} operator"
    return f"{count} operators"


# What torch's partitioner proposes.


WHAT = "what a backend supports"

MOST_PARTITIONED = 4_000
"""Largest number of nodes for which we call the partitioner. torch stores all nodes below each
node: its time and memory grow with the square.
"""

Segments = dict[torch.fx.Node, int]
"""Node → its segment, from 1, in the order of the graph."""


@dataclass
class Proposal:
    """One call of torch's partitioner by a backend: the graph, the settings, and the answers."""

    graph: RecordedGraph
    """The graph that was partitioned."""
    support: Any
    """The backend's OperatorSupport, which its partitioner asks for each node."""
    nodes: dict[torch.fx.Node, NodeCost]
    """Nodes of the graph except the output, in order."""
    allows_single: bool
    merges_independent: bool
    answers: dict[torch.fx.Node, object] = field(default_factory=dict)
    """The answers of the backend's support to the partitioner."""
    reasons: dict[torch.fx.Node, str] = field(default_factory=dict)
    segments: Segments | None = None
    """The segments; None until partitions are proposed."""

    def take(self, partitions: Any) -> None:
        """Store the present segments. The reasons are computed the first time, while the graph is
        complete.
        """
        if self.segments is None:
            self.reasons = reasons_of(self.support, self.answers)
        self.segments = numbered(partitions, self.nodes)


def partitioner_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record the questions of backends to torch's partitioner, and its proposals."""

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
    """Return a Proposal with the partitioner's settings and the cost of each node. Made before the
    partitioner runs, because fusing changes its graph.
    """
    from fx_explorer.capture.backends.node_work import work_of

    return Proposal(
        graph,
        partitioner.operator_support,
        work_of(partitioner.graph_module.graph),
        bool(getattr(partitioner, "allows_single_node_partition", False)),
        not getattr(partitioner, "skip_horizontal_fusion", False),
    )


def numbered(partitions: Any, nodes: Iterable[torch.fx.Node]) -> Segments:
    """Return the segment of each operator, numbered in the order of their first operators. Other
    nodes of a partition (constants) are left out.
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
    """Return the segments that torch's partitioner proposes for a graph when we call it; else None
    and the reason.
    """
    if len(module.graph.nodes) > MOST_PARTITIONED:
        return None, (
            f"The graph has {len(module.graph.nodes):,} nodes. The time of torch's partitioner "
            "grows faster than their square, so it runs only for graphs of up to "
            f"{MOST_PARTITIONED:,} nodes; the segments are not known."
        )
    support.limit_time()
    try:
        partitions = torchs.CapabilityBasedPartitioner(module, support).propose_partitions()
    except PartitionTakesTooLong:
        limit = f"{PARTITION_LIMIT_S:.0f} s"
        return (
            None,
            (f"torch's partitioner was stopped after {limit}, so the segments are not known."),
        )
    return numbered(partitions, module.graph.nodes), ""
