"""The time of a profile at each place that a pane shows: at the operations of every graph, at the lines of generated code
that call or define a kernel, and at whole kernels.

A kernel's time is shared among its operations in equal parts, as everywhere (``timed_calls.py``). In an earlier graph each
of these has come from operations of that graph, among which its part is shared again. So in each graph the times of its
operations add up to those of the kernels that were made of it, and no time is in a graph twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fx_explorer.analysis.kernels.profiled_kernels import ProfiledKernel, last_profile, profiled_kernels
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.analysis.profiles.timed_calls import TimedCall, timed_calls
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.links import origins_in_graphs
from fx_explorer.session.queries.profiles import places_of_calls

SHARED, SIMILAR, PART = "~", "≈", "÷"
"""Signs before a time: shared out among calls of one name; of a kernel whose name differs in its number; an equal part of a
kernel that computes other operations, too.
"""

WHOLE = 1 - 1e-9

NODES_AT_ONCE = 5_000
"""Operations whose origins are looked up in one question to the session, so that no answer is large."""


@dataclass(slots=True)
class PlaceTime:
    """The time at one place. ``sign`` says where it is not surely all that this place took."""

    seconds: float = 0.0
    sign: str = ""

    @property
    def in_words(self) -> str:
        return f"{self.sign} {run_time(self.seconds)}" if self.sign else run_time(self.seconds)

    def add(self, seconds: float, sign: str) -> None:
        self.seconds += seconds
        if sign and sign not in self.sign:
            self.sign = "".join(one for one in (SHARED, SIMILAR, PART) if one in self.sign + sign)


Times = dict[int, PlaceTime]


@dataclass(slots=True)
class ProfiledPlaces:
    """All places of a session that have a time in its last profile."""

    nodes: Times = field(default_factory=dict)
    """Node → its time, in graphs of all stages."""
    graphs: Times = field(default_factory=dict)
    """Graph → the sum of its operations."""
    kernels: Times = field(default_factory=dict)
    """Kernel → the sum of its calls."""
    calls: dict[int, Times] = field(default_factory=dict)
    """Output code (an Artifact) → line from 0 → the time of the calls on that line."""
    output_codes: Times = field(default_factory=dict)
    """Output code → the sum of its calls."""
    definitions: dict[int, Times] = field(default_factory=dict)
    """Output code → line from 0 where the code of a kernel begins → the sum of its calls."""


def profiled_places(reader: SessionReader) -> ProfiledPlaces | None:
    """Return the times of the last profile; None where none was read, which costs one look-up."""
    if last_profile(reader) is None:
        return None
    with reader.snapshot():
        found, known = ProfiledPlaces(), profiled_kernels(reader)
        for some in _slices(timed_calls(reader, known)):
            _add_nodes(reader, found, some, known)
        _add_lines(reader, found, known)
        return found


def _sign_of(time: ProfiledKernel) -> str:
    return SHARED if time.shared_s else SIMILAR if time.is_similar else ""


# operations


def _slices(calls: Iterator[TimedCall]) -> Iterator[list[TimedCall]]:
    some: list[TimedCall] = []
    nodes = 0
    for call in calls:
        some.append(call)
        nodes += len(call.nodes)
        if nodes >= NODES_AT_ONCE:
            yield some
            some, nodes = [], 0
    yield some


def _add_nodes(
    reader: SessionReader, found: ProfiledPlaces, calls: Sequence[TimedCall], known: Mapping[int, ProfiledKernel]
) -> None:
    origins: dict[int, dict[int, list[int]]] = {}
    for node, graph, origin in origins_in_graphs(reader, {one.node for call in calls for one in call.nodes}):
        origins.setdefault(node, {}).setdefault(graph, []).append(origin)
    for call in calls:
        sign = _sign_of(known[call.kernel])
        for graph, parts in _parts(call, origins).items():
            for node, part in parts.items():
                found.nodes.setdefault(node, PlaceTime()).add(call.seconds * part, sign + PART * (part < WHOLE))
            found.graphs.setdefault(graph, PlaceTime()).add(call.seconds * sum(parts.values()), sign)


def _parts(call: TimedCall, origins: Mapping[int, Mapping[int, Sequence[int]]]) -> dict[int, dict[int, float]]:
    """Return graph → operation → its part of a call, of 1. An operation whose kernel is this one is no origin of
    others in its own graph.
    """
    found: dict[int, dict[int, float]] = {}
    for one in call.nodes:
        for graph, nodes in origins.get(one.node, {}).items():
            shared = [one.node] if one.node in nodes else nodes
            parts = found.setdefault(graph, {})
            for node in shared:
                parts[node] = parts.get(node, 0.0) + 1 / len(call.nodes) / len(shared)
    return found


# lines


def _add_lines(reader: SessionReader, found: ProfiledPlaces, known: Mapping[int, ProfiledKernel]) -> None:
    for place in places_of_calls(reader):
        time = known.get(place.kernel)
        if time is None:
            continue
        sign = _sign_of(time)
        if place.kernel not in found.kernels:
            found.kernels[place.kernel] = PlaceTime(time.seconds, sign)
            if place.is_generated and place.first_line:
                found.definitions.setdefault(place.output_code, {})[place.first_line - 1] = found.kernels[place.kernel]
        if place.line and place.call in time.calls:
            lines = found.calls.setdefault(place.output_code, {})
            for sums, at in ((lines, place.line - 1), (found.output_codes, place.output_code)):
                sums.setdefault(at, PlaceTime()).add(time.calls[place.call], sign)
