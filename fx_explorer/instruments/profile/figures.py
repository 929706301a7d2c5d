"""This module computes the figures of a profile: by kernel, by user line, by module, by place in
the panes, for work elsewhere, and when the GPU was idle. All sums are those of the profile.

Whatever shares a time out begins with the calls of kernels (``timed_calls``), each with the
operations that it computes, which share its time in equal parts. In an earlier graph each of these
has come from operations of that graph, among which its part is shared again. So in each graph the
times of its operations add up to those of the kernels that were made of it, and no time is in a
graph twice.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fx_explorer import model
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.module_paths import describe_module_path
from fx_explorer.analysis.whole_session import is_profile_alone
from fx_explorer.instruments.kernels.costs import KernelCost, Line, kernel_costs
from fx_explorer.instruments.kernels.launched import ProfiledKernel, last_profile, profiled_kernels
from fx_explorer.instruments.modules.tree import ModuleRow, module_tree
from fx_explorer.instruments.profile.event_names import KIND_WORDS
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.compilations import source_paths
from fx_explorer.session.queries.kernels import lines_of_nodes, nodes_of_calls, places_of_calls
from fx_explorer.session.queries.links import computed_from


@dataclass(frozen=True, slots=True)
class TimedCall:
    """A kernel call with its time. The operations that it computes share the time equally, because
    they cannot be measured separately.
    """

    kernel: int
    call: int
    seconds: float
    nodes: array[int]
    """The operations that it computes, each once, in ascending order; empty where they are not
    known. It is an array, because a large session has many.
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
        if self.time.shared_s:
            return "a part of the time of several calls of this name"
        if self.time.is_similar:
            return "the name has another number"
        return ""


@dataclass(frozen=True, slots=True)
class LineShare:
    """A line of the user's with the time of the kernels that compute it, by direction. A kernel of
    several lines counts for each in proportion to the number of its operations on that line.
    """

    line: Line
    forward_s: float
    backward_s: float

    @property
    def seconds(self) -> float:
        return self.forward_s + self.backward_s


@dataclass(frozen=True, slots=True)
class NodeShare:
    """An operation with the time of the calls that compute it. A call of several operations counts
    for each in equal parts, because one kernel's time cannot be measured separately.
    """

    node: model.Node
    seconds: float
    among: int
    """Operations of the largest call that it shares."""


@dataclass(frozen=True, slots=True)
class ProfileFigures:
    profile: model.Profile
    profiles: int
    """Number of profiles in the session."""
    kernels: tuple[KernelShare, ...]
    """The most expensive first, as in every list."""
    nodes: tuple[NodeShare, ...]
    lines: tuple[LineShare, ...]
    modules: tuple[ModuleRow, ...]
    """Modules that have a time, themselves or in their submodules, in the order of the calls."""
    others: tuple[model.ProfileOther, ...]
    gaps: tuple[model.ProfileGap, ...]
    at_node_s: float
    """Seconds of kernel calls for which an operation of the graph is known."""
    at_line_s: float
    """Seconds that are joined to a call with a known line of the user's."""
    is_alone: bool = False
    """Whether there is nothing but the profile, so that nothing can be joined."""

    def words_of(self, kind: model.OutsideKind) -> str:
        """Return what ran, in words."""
        if self.is_alone and kind == "unjoined":
            return "in compiled graphs"
        return KIND_WORDS[kind]

    @property
    def by_kind(self) -> dict[model.OutsideKind, float]:
        """Return the seconds outside of compiled graphs by their kind, the most first."""
        sums: dict[model.OutsideKind, float] = {}
        for other in self.others:
            sums[other.kind] = sums.get(other.kind, 0.0) + other.seconds
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))

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
        kernels = []
        for cost in kernel_costs(reader):
            kernel = cost.use.kernel.id
            if kernel in times:
                kernels.append(KernelShare(cost, times[kernel]))
        kernels.sort(key=lambda share: (-share.time.seconds, share.cost.use.kernel.id))
        shares = _Shares(reader, times)
        nodes = sorted(shares.nodes(), key=lambda share: (-share.seconds, share.node.id))
        lines = sorted(shares.lines(), key=lambda share: (-share.seconds, share.line))
        others = reader.rows(model.ProfileOther, profile=profile.id)
        gaps = reader.rows(model.ProfileGap, profile=profile.id)
        return ProfileFigures(
            profile,
            reader.count(model.Profile),
            tuple(kernels),
            tuple(nodes),
            tuple(lines),
            tuple(row for row in module_tree(reader).rows if row.figures.time_s > 0),
            tuple(sorted(others, key=lambda other: -other.seconds)),
            tuple(sorted(gaps, key=lambda gap: gap.position)),
            shares.at_node_s,
            shares.at_line_s,
            is_profile_alone(reader),
        )


def module_name(row: ModuleRow) -> str:
    """Return the whole name of a module; for several alike modules together: ``layers: 0 … 11 ×12,
    alike``.
    """
    if row.is_fold:
        return f"{describe_module_path(row.path[:-1])}: {row.title}"
    return describe_module_path(row.path) or row.name


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


# The time at each place that a pane shows.


SHARED, SIMILAR, PART = "~", "≈", "÷"
"""Signs before a time."""
MEANINGS = {
    SHARED: "divided equally among calls of the same name",
    SIMILAR: "of a kernel whose name has another number",
    PART: "an equal part of a kernel that also computes other operations",
}

SIGNS = (
    "",
    SHARED,
    SIMILAR,
    SHARED + SIMILAR,
    PART,
    SHARED + PART,
    SIMILAR + PART,
    SHARED + SIMILAR + PART,
)
"""The signs before a time, by an index of three bits: 1 for SHARED, 2 for SIMILAR, 4 for PART."""

IS_PART = SIGNS.index(PART)

WHOLE = 1 - 1e-9


@dataclass(slots=True)
class PlaceTime:
    """The time at one place. ``sign`` marks a time that may not be exactly this place's."""

    seconds: float = 0.0
    signs: int = 0
    """Index in SIGNS: how certain the time is."""

    @property
    def sign(self) -> str:
        return SIGNS[self.signs]

    @property
    def description(self) -> str:
        if self.signs:
            return f"{self.sign} {run_time(self.seconds)}"
        return run_time(self.seconds)

    @property
    def meaning(self) -> str:
        """Explain the sign; empty without one."""
        return ", ".join(words for sign, words in MEANINGS.items() if sign in self.sign)

    def add(self, seconds: float, signs: int) -> None:
        self.seconds += seconds
        self.signs |= signs


Times = dict[int, PlaceTime]


@dataclass(slots=True)
class ProfiledPlaces:
    """The places of generated code that have a time in the session's last profile."""

    known: Mapping[int, ProfiledKernel]
    timed: Sequence[TimedCall]
    kernels: Times = field(default_factory=dict)
    """Kernel → the sum of its calls."""
    output_codes: Times = field(default_factory=dict)
    """Output code (an Artifact) → the sum of its calls."""
    calls: dict[int, Times] = field(default_factory=dict)
    """Output code → line from 0 → the time of the calls on that line."""
    definitions: dict[int, Times] = field(default_factory=dict)
    """Output code → line from 0 where the code of a kernel begins → the sum of its calls."""


def profiled_places(reader: SessionReader) -> ProfiledPlaces | None:
    """Return the times of the last profile; None where none was read, which is checked by one
    look-up.
    """
    if last_profile(reader) is None:
        return None
    with reader.snapshot():
        known = profiled_kernels(reader)
        found = ProfiledPlaces(known, [*timed_calls(reader, known)])
        for place in places_of_calls(reader):
            time = known.get(place.kernel)
            if time is None:
                continue
            signs = _signs_of(time)
            if place.kernel not in found.kernels:
                whole = found.kernels[place.kernel] = PlaceTime(time.seconds, signs)
                if place.is_generated and place.first_line:
                    found.definitions.setdefault(place.output_code, {})[place.first_line - 1] = (
                        whole
                    )
            if place.line and place.call in time.calls:
                lines = found.calls.setdefault(place.output_code, {})
                for sums, at in ((lines, place.line - 1), (found.output_codes, place.output_code)):
                    sums.setdefault(at, PlaceTime()).add(time.calls[place.call], signs)
        return found


def _signs_of(time: ProfiledKernel) -> int:
    if time.shared_s:
        return SIGNS.index(SHARED)
    if time.is_similar:
        return SIGNS.index(SIMILAR)
    return SIGNS.index("")


@dataclass(frozen=True, slots=True)
class GraphTimes:
    """The times of the nodes of one graph, by position: 9 bytes each, since a graph may have
    100,000.
    """

    first_node: int
    seconds: array[float]
    signs: bytearray
    """Indices in SIGNS."""
    whole: PlaceTime
    """The time of all nodes together."""

    def at(self, position: int) -> PlaceTime | None:
        """Return the time of the node at a position; None if it has no time."""
        if 0 <= position < len(self.seconds):
            seconds = self.seconds[position]
        else:
            seconds = 0.0
        if seconds:
            return PlaceTime(seconds, self.signs[position])
        return None

    def of_node(self, node: int) -> PlaceTime | None:
        return self.at(node - self.first_node)


def graph_times(reader: SessionReader, graph: model.Graph, places: ProfiledPlaces) -> GraphTimes:
    """Return the times of a graph's nodes: of nodes that kernels compute, and of the earlier nodes
    from which those come.
    """
    first, count = graph.first_node, graph.node_count
    found = GraphTimes(first, array("d", bytes(8 * count)), bytearray(count), PlaceTime())
    with reader.snapshot():
        origins = computed_from(reader, first, count)
        for call in places.timed:
            is_near = bool(call.nodes) and call.nodes[0] < first + count and call.nodes[-1] >= first
            if not is_near and not origins:
                # Nothing came from a last graph, so that only calls of its own nodes count.
                continue
            signs, parts = _signs_of(places.known[call.kernel]), dict[int, float]()
            for node in call.nodes:
                # An operation of this graph that a kernel computes has come from no other one of
                # it.
                if first <= node < first + count:
                    shared = [node]
                else:
                    shared = origins.get(node, [])
                for sharer in shared:
                    parts[sharer - first] = parts.get(sharer - first, 0.0) + 1 / len(
                        call.nodes
                    ) / len(shared)
            for at, part in parts.items():
                found.seconds[at] += call.seconds * part
                found.signs[at] |= signs | IS_PART * (part < WHOLE)
            if parts:
                found.whole.add(call.seconds * sum(parts.values()), signs)
    return found
