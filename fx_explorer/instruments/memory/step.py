"""This module describes the memory of a step: each storage with its owner and the moments between
which it is held (``StepMemory``), and the calls of graphs that make up the step.
``step_assembly.py`` builds it.

A step is what a bench calls a step: gradients are None before it, the graphs run forward in the
order in which they were called and backward in the opposite order, and what the program returns is
held until the end. The optimizer runs outside of it; ``verdict.py`` adds what it keeps.

A graph may run several times in a step: the layers of a model share their code, and so its graph.
Where nobody watched (graphs that were built, logs, a script without a backward) each graph is one
call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from fx_explorer import model
from fx_explorer.analysis.lineage import in_use
from fx_explorer.instruments.breaks.cut_tensors import KeptValues
from fx_explorer.instruments.memory.graph_memory import SegmentMemory, WrapperKernelCall
from fx_explorer.session import SessionReader

MemoryKind = Literal[
    "parameter",
    "buffer",
    "input",
    "optimizer",
    "activation",
    "output",
    "tangent",
    "gradient",
    "temporary",
    "workspace",
]
"""The owner of a storage. ``activation``: computed by the forward and saved for the backward.
``tangent``: the gradient of an output, with which a backward begins. ``temporary``: needed only
inside one graph. ``workspace``: used by a library call while it runs. ``optimizer``: the state of
an optimizer, where one is named.
"""

KINDS: tuple[MemoryKind, ...] = get_args(MemoryKind)


@dataclass(frozen=True, slots=True)
class HeldStorage:
    """A storage that is held for a part of the step."""

    kind: MemoryKind
    name: str
    """The user's name of a parameter, buffer, input or gradient; torch's name of a value in a
    graph.
    """
    size_bytes: int
    """Bytes that it takes of the device's memory; UNKNOWN when the size is not known."""
    device: str
    begin: int
    """The first moment at which it is held."""
    end: int
    """The first moment at which it is no longer held."""
    node: model.Node | None = None
    """The node that computes it, if that has a line of the user's."""
    kernel: str = ""
    """Name of the kernel that writes it first; empty for a storage from before the step."""


@dataclass(frozen=True, slots=True)
class StepMoment:
    """A kernel call of the step."""

    at: int
    call: WrapperKernelCall
    compilation: str
    direction: model.Direction


@dataclass(frozen=True)
class StepMemory:
    """All storages of a step, with the moments at which they are held. Moments are numbered from 0;
    ``end`` is the last one.
    """

    held: tuple[HeldStorage, ...]
    moments: tuple[StepMoment, ...]
    backward_from: int
    """Moment at which the backward begins; ``end`` in a step without one."""
    end: int
    saved_bytes: int = 0
    """Bytes that the graphs save for their backwards, beyond the values given to the step; each
    storage once.
    """
    assumed: int = 0
    """Number of library calls' results whose element size was assumed to be that of the first
    argument.
    """
    calls: int = 0
    """Number of calls of graphs in the step."""
    crossing_bytes: int = 0
    """Part of ``saved_bytes`` that an earlier graph returned and only a later graph saves."""
    between_bytes: int = 0
    """Bytes that operators outside of the graphs save for their backward, and that no graph
    saves.
    """


@dataclass(frozen=True, slots=True)
class WatchedForward:
    """The record of one forward while it ran: the calls of its graphs, the storages they returned,
    and the values that eager operators between them saved. A step is assembled from it.
    """

    calls: Sequence[model.GraphCall]
    returned: Sequence[model.ReturnedStorage]
    between: Sequence[model.SavedBetween]

    @property
    def compilations(self) -> set[int]:
        return {call.compilation for call in self.calls}


def watched_forward(reader: SessionReader) -> WatchedForward | None:
    """Return the watched forward that is taken as the step: the last one that runs a graph with a
    backward for the first time. None where no forward was watched; in a script, where none was
    followed by a backward.
    """
    calls: dict[int, list[model.GraphCall]] = {}
    for row in reader.rows(model.GraphCall):
        if row.is_whole or not reader.is_of_a_script():
            calls.setdefault(row.forward, []).append(row)
    with_backward = _with_backward(reader)
    chosen, seen = max(calls, default=0), set[int]()
    for forward, rows in sorted(calls.items()):
        new = {row.compilation for row in rows} - seen
        if new & with_backward:
            chosen = forward
        seen |= new
    if not chosen:
        return None
    return WatchedForward(
        sorted(calls[chosen], key=lambda row: row.position),
        reader.rows(model.ReturnedStorage, forward=chosen),
        reader.rows(model.SavedBetween, forward=chosen),
    )


def _with_backward(reader: SessionReader) -> set[int]:
    """Return the compilations that have a backward graph."""
    return {row.compilation for row in reader.rows(model.Graph, direction="backward")}


@dataclass(frozen=True)
class StepCall:
    """A call of a graph in a step."""

    segment: SegmentMemory
    storages: Mapping[int, int] = field(default_factory=dict)
    """Input of Dynamo's graph (a Node) → the number of its storage in the step; empty where the
    call was not watched.
    """
    returned: Mapping[int, Sequence[model.ReturnedStorage]] = field(default_factory=dict)
    """Storage of the forward's replay → its ReturnedStorage rows."""
    position: int = 0
    """Its position among the watched calls, from 1."""


def calls_of(segments: Sequence[SegmentMemory], watched: WatchedForward | None) -> list[StepCall]:
    """Return the calls of a step's graphs, in order."""
    if watched is None:
        return [StepCall(segment) for segment in segments]
    of_compilation = {segment.captured_as: segment for segment in segments}
    returned: dict[int, list[model.ReturnedStorage]] = {}
    for row in watched.returned:
        returned.setdefault(row.call, []).append(row)
    calls = []
    for call in watched.calls:
        segment = of_compilation.get(call.compilation)
        if segment is not None:
            storages = dict(zip(call.inputs, call.storages, strict=False))
            by_storage = _by_storage(segment, returned.get(call.position, ()))
            calls.append(StepCall(segment, storages, by_storage, call.position))
    return calls


def _by_storage(
    segment: SegmentMemory, rows: Iterable[model.ReturnedStorage]
) -> dict[int, list[model.ReturnedStorage]]:
    """Return the recorded results by the storages of the replay that hold them."""
    returned = segment.forward.replayed.returned
    by_storage: dict[int, list[model.ReturnedStorage]] = {}
    for row in rows:
        numbers: set[int] = set()
        for output, result in zip(returned, segment.results, strict=False):
            if result in row.positions:
                numbers.update(output)
        for number in numbers:
            by_storage.setdefault(number, []).append(row)
    return by_storage


@dataclass(frozen=True, slots=True)
class TakenInput:
    """An input of a later call: the call's position in the step, and the input (a Node)."""

    call: int
    node: int


class StorageFlow:
    """Which call returned a storage of the step, and which calls take it."""

    def __init__(self, calls: Sequence[StepCall]) -> None:
        self._calls = calls
        self._at = {call.position: at for at, call in enumerate(calls) if call.position}
        self._producers: dict[int, int] = {}
        self._takers: dict[int, list[TakenInput]] = {}
        for at, call in enumerate(calls):
            for rows in call.returned.values():
                self._producers.update((row.storage, at) for row in rows)
            for node, storage in call.storages.items():
                self._takers.setdefault(storage, []).append(TakenInput(at, node))

    def at(self, position: int, otherwise: int) -> int:
        """Return the position in the step of a watched call, given its position in the forward. For
        a call that is not part of the step, it is the position of the last one before it.
        """
        before = [at for known, at in self._at.items() if known <= position]
        if position:
            return max(before, default=otherwise)
        return otherwise

    def storage(self, at: int, node: int) -> int:
        """Return the number of the storage that a call was given as an input; 0 where the call was
        not watched.
        """
        return self._calls[at].storages.get(node, 0)

    def producer(self, storage: int) -> int | None:
        """Return the call of a graph that returned a storage; None for a storage that no graph
        computed.
        """
        return self._producers.get(storage)

    def takers(self, storage: int, after: int) -> list[TakenInput]:
        """Return the inputs of calls after ``after`` that are in this storage."""
        return [taken for taken in self._takers.get(storage, ()) if taken.call > after]

    @property
    def given(self) -> set[int]:
        """Return the storages that calls take."""
        return set(self._takers)

    @property
    def returned(self) -> set[int]:
        """Return the storages that calls return."""
        return set(self._producers)


class Crossings:
    """Finds the node of an earlier graph that computed an input of Dynamo's graph. Rows are read
    once; a session without breaks has none.
    """

    def __init__(self, reader: SessionReader) -> None:
        rows = reader.rows(model.LocalTensor)
        self._sources = {row.node: row.source for row in rows if row.is_input}
        self._handed_over: dict[str, list[int]] = {}
        for row in rows:
            if not row.is_input and row.source:
                self._handed_over.setdefault(row.source, []).append(row.node)
        used = in_use(reader)
        saving = used.saving if used else None
        self._kept = KeptValues(reader, saving)

    def computed_by(self, node: int) -> int:
        """Return the node of an earlier graph that computed an input, by the local's name at the
        graph break; 0 where there is none.
        """
        source = self._sources.get(node, "")
        earlier = (given for given in self._handed_over.get(source, ()) if given < node)
        return max(earlier, default=0)

    def is_kept_before(self, node: int) -> bool:
        """Return whether the graph that computes an input also saves it for its own backward."""
        computed = self.computed_by(node)
        return bool(computed and self._kept.of(computed))
