"""The time of a profile at each place that a pane shows: at the lines of generated code that call
or define a kernel, at whole kernels, and at the operations of a graph.

A kernel's time is shared among its operations in equal parts, as everywhere (``figures.py``).
In an earlier graph each of these has come from operations of that graph, among which its part is
shared again. So in each graph the times of its operations add up to those of the kernels that were
made of it, and no time is in a graph twice.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fx_explorer import model
from fx_explorer.analysis.measured_times import run_time
from fx_explorer.instruments.kernels.launched import ProfiledKernel, last_profile, profiled_kernels
from fx_explorer.instruments.profile.figures import TimedCall, timed_calls
from fx_explorer.session import SessionReader
from fx_explorer.session.queries.links import computed_from
from fx_explorer.session.queries.profiles import places_of_calls

SHARED, SIMILAR, PART = "~", "≈", "÷"
"""Signs before a time."""
MEANINGS = {
    SHARED: "shared out among calls of one name",
    SIMILAR: "of a kernel whose name differs in its number",
    PART: "an equal part of kernels that compute other operations, too",
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
"""By the sum of 1, 2 and 4 for what they are made of."""

IS_PART = SIGNS.index(PART)

WHOLE = 1 - 1e-9


@dataclass(slots=True)
class PlaceTime:
    """The time at one place. ``signs`` says where it is not surely all that this place took."""

    seconds: float = 0.0
    signs: int = 0
    """Index in SIGNS."""

    @property
    def sign(self) -> str:
        return SIGNS[self.signs]

    @property
    def in_words(self) -> str:
        return f"{self.sign} {run_time(self.seconds)}" if self.signs else run_time(self.seconds)

    @property
    def meaning(self) -> str:
        """Say in words what the signs say; empty without any."""
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
    """Return the times of the last profile; None where none was read, which costs one look-up."""
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
    return SIGNS.index(SHARED if time.shared_s else SIMILAR if time.is_similar else "")


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
    """What all of them took."""

    def at(self, position: int) -> PlaceTime | None:
        """Return the time of the node at a position; None where it has none."""
        seconds = self.seconds[position] if 0 <= position < len(self.seconds) else 0.0
        return PlaceTime(seconds, self.signs[position]) if seconds else None

    def of_node(self, node: int) -> PlaceTime | None:
        return self.at(node - self.first_node)


def graph_times(reader: SessionReader, graph: model.Graph, places: ProfiledPlaces) -> GraphTimes:
    """Return the times of a graph's nodes: of those that kernels compute, and of those that these
    came from.
    """
    first, count = graph.first_node, graph.node_count
    found = GraphTimes(first, array("d", bytes(8 * count)), bytearray(count), PlaceTime())
    with reader.snapshot():
        origins = computed_from(reader, first, count)
        for call in places.timed:
            is_near = bool(call.nodes) and call.nodes[0] < first + count and call.nodes[-1] >= first
            if not is_near and not origins:
                continue  # nothing came from a last graph, so that only calls of its own nodes count
            signs, parts = _signs_of(places.known[call.kernel]), dict[int, float]()
            for node in call.nodes:
                # An operation of this graph that a kernel computes has come from no other one of
                # it.
                shared = [node] if first <= node < first + count else origins.get(node, [])
                for one in shared:
                    parts[one - first] = parts.get(one - first, 0.0) + 1 / len(call.nodes) / len(
                        shared
                    )
            for at, part in parts.items():
                found.seconds[at] += call.seconds * part
                found.signs[at] |= signs | IS_PART * (part < WHOLE)
            if parts:
                found.whole.add(call.seconds * sum(parts.values()), signs)
    return found
