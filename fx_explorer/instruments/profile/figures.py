"""A profile as figures: by kernel, by user line, by module, what ran elsewhere, and when the GPU
was idle. All sums are those of the profile.

The calls of kernels that a profile has times of, each with the operations that it computes.
Whatever shares a time out to operations, lines or graphs begins here, so that all of them add up to
the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fx_explorer import model
from fx_explorer.analysis.module_paths import in_words
from fx_explorer.instruments.kernels.costs import KernelCost, Line, kernel_costs
from fx_explorer.instruments.kernels.launched import ProfiledKernel, last_profile, profiled_kernels
from fx_explorer.instruments.modules.tree import ModuleRow, module_tree
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.profiles import lines_of_nodes, nodes_of_calls


@dataclass(frozen=True, slots=True)
class TimedCall:
    """A call with its time. One kernel's time cannot be measured apart, so that each operation has
    an equal part.
    """

    kernel: int
    call: int
    seconds: float
    nodes: array[int]
    """The operations that it computes, each once, ascending; none where that is not known. An
    array, since of a large session all are kept.
    """


def timed_calls(reader: SessionReader, known: Mapping[int, ProfiledKernel]) -> Iterator[TimedCall]:
    """Yield the calls of the kernels ``known``."""
    computed = {(kernel, call): nodes for kernel, call, nodes in nodes_of_calls(reader)}
    for kernel, times in known.items():
        of_every_call = computed.get((kernel, 0), ())
        for call, seconds in times.calls.items():
            nodes = {*of_every_call, *computed.get((kernel, call), ())}
            yield TimedCall(kernel, call, seconds, array("q", sorted(nodes)))


@dataclass(frozen=True, slots=True)
class KernelShare:
    """A kernel with its time in the profile."""

    cost: KernelCost
    time: ProfiledKernel

    @property
    def marks(self) -> str:
        """Say where the time is not surely that of this kernel."""
        shared = "part of what several calls of this name took" if self.time.shared_s else ""
        return shared or ("the name differs in its number" if self.time.is_similar else "")


@dataclass(frozen=True, slots=True)
class LineShare:
    """A line of the user's with the time of what computes it, by direction. A kernel of several
    lines counts for each by the number of its operations that are the line's.
    """

    line: Line
    forward_s: float
    backward_s: float

    @property
    def seconds(self) -> float:
        return self.forward_s + self.backward_s


@dataclass(frozen=True, slots=True)
class NodeShare:
    """An operation with the time of the calls that compute it. Of a call of several operations each
    has an equal part: one kernel's time cannot be measured apart.
    """

    node: model.Node
    seconds: float
    among: int
    """Operations of the largest call that it shares."""


@dataclass(frozen=True, slots=True)
class ProfileFigures:
    profile: model.Profile
    profiles: int
    """How many profiles the session has."""
    kernels: tuple[KernelShare, ...]
    """The most expensive first, as in every list."""
    nodes: tuple[NodeShare, ...]
    lines: tuple[LineShare, ...]
    modules: tuple[ModuleRow, ...]
    """Those with a time of their own or in what is in them, in the order of the calls."""
    others: tuple[model.ProfileOther, ...]
    gaps: tuple[model.ProfileGap, ...]
    at_node_s: float
    """Seconds that are joined to a call of which an operation is known."""
    at_line_s: float
    """Seconds that are joined to a call of which a user's line is known."""

    @property
    def by_kind(self) -> dict[model.OutsideKind, float]:
        """Return the seconds of what ran elsewhere, by its kind, the most first."""
        sums: dict[model.OutsideKind, float] = {}
        for other in self.others:
            sums[other.kind] = sums.get(other.kind, 0.0) + other.seconds
        return dict(sorted(sums.items(), key=lambda one: -one[1]))

    @property
    def idle_s(self) -> float:
        return max(0.0, self.profile.span_s - self.profile.busy_s)


def profile_figures(reader: SessionReader) -> ProfileFigures | None:
    """Return the figures of the last profile; None where none was read."""
    with reader.snapshot():
        profile = last_profile(reader)
        if profile is None:
            return None
        times = profiled_kernels(reader)
        kernels = [
            KernelShare(cost, times[cost.use.kernel.id])
            for cost in kernel_costs(reader)
            if cost.use.kernel.id in times
        ]
        shares = _Shares(reader, times)
        return ProfileFigures(
            profile,
            reader.count(model.Profile),
            tuple(
                sorted(
                    kernels,
                    key=lambda kernel_share: (
                        -kernel_share.time.seconds,
                        kernel_share.cost.use.kernel.id,
                    ),
                )
            ),
            tuple(
                sorted(
                    shares.nodes(), key=lambda node_share: (-node_share.seconds, node_share.node.id)
                )
            ),
            tuple(
                sorted(
                    shares.lines(), key=lambda line_share: (-line_share.seconds, line_share.line)
                )
            ),
            tuple(row for row in module_tree(reader).rows if row.figures.time_s > 0),
            tuple(
                sorted(
                    reader.rows(model.ProfileOther, profile=profile.id),
                    key=lambda other: -other.seconds,
                )
            ),
            tuple(
                sorted(
                    reader.rows(model.ProfileGap, profile=profile.id), key=lambda gap: gap.position
                )
            ),
            shares.at_node_s,
            shares.at_line_s,
        )


def module_name(row: ModuleRow) -> str:
    """Return the whole name of a module, of alike ones together: ``layers: 0 … 11 ×12, alike``."""
    if row.is_fold:
        return f"{in_words(row.path[:-1])}: {row.title}"
    return in_words(row.path) or row.name


class _Shares:
    """Shares the time of each call out to its operations and lines."""

    def __init__(self, reader: SessionReader, known: Mapping[int, ProfiledKernel]) -> None:
        self._reader = reader
        self._nodes: dict[int, tuple[float, int]] = {}
        self._lines: dict[tuple[int, int], dict[bool, float]] = {}
        self.at_node_s = self.at_line_s = 0.0
        backward = {
            row.id for row in reader.by_ids(model.Kernel, known) if row.direction == "backward"
        }
        calls = [*timed_calls(reader, known)]
        self._line_of = lines_of_nodes(reader, {node for call in calls for node in call.nodes})
        for call in calls:
            self._add(call.nodes, call.seconds, call.kernel in backward)

    def _add(self, nodes: Sequence[int], seconds: float, is_backward: bool) -> None:
        self.at_node_s += seconds if nodes else 0.0
        for node in nodes:
            known_s, among = self._nodes.get(node, (0.0, 0))
            self._nodes[node] = (known_s + seconds / len(nodes), max(among, len(nodes)))
        lines = [self._line_of[node] for node in nodes if node in self._line_of]
        self.at_line_s += seconds if lines else 0.0
        for line in lines:
            sums = self._lines.setdefault(line, {False: 0.0, True: 0.0})
            sums[is_backward] += seconds / len(lines)

    def nodes(self) -> Iterator[NodeShare]:
        for node in self._reader.by_ids(model.Node, self._nodes):
            yield NodeShare(node, *self._nodes[node.id])

    def lines(self) -> Iterator[LineShare]:
        paths = source_paths(self._reader)
        for (file, line), sums in self._lines.items():
            if file in paths:
                yield LineShare((paths[file], line), sums[False], sums[True])
