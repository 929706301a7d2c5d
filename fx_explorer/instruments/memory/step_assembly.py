"""This module assembles one step of the program from the replays of its graphs: each storage, its
owner, and the moments between which it is held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain

from fx_explorer import model
from fx_explorer.analysis.input_names import InputName, InputNames, result_name, tangent_name
from fx_explorer.instruments.memory.graph_memory import (
    GraphMemory,
    SegmentMemory,
    WrapperKernelCall,
)
from fx_explorer.instruments.memory.replay import UNKNOWN, Lifetime
from fx_explorer.instruments.memory.sizes import rounded
from fx_explorer.instruments.memory.step import (
    Crossings,
    HeldStorage,
    MemoryKind,
    StepCall,
    StepMemory,
    StepMoment,
    StorageFlow,
    TakenInput,
)
from fx_explorer.session import SessionReader


def step_of(
    reader: SessionReader,
    calls: Sequence[StepCall],
    between: Sequence[model.SavedBetween] = (),
    *,
    tangents_are_held: bool,
) -> StepMemory:
    """Assemble a step from the calls of its graphs and the values that operators between them save
    for the backward. ``tangents_are_held`` says whether the gradients of outputs exist in full, and
    until the end of the backward that uses them.
    """
    return _Assembly(reader, calls, between, tangents_are_held).step()


@dataclass
class _Assembly:
    reader: SessionReader
    calls: Sequence[StepCall]
    between: Sequence[model.SavedBetween]
    tangents_are_held: bool
    held: list[HeldStorage] = field(default_factory=list)
    moments: list[StepMoment] = field(default_factory=list)
    now: int = 0
    saved_bytes: int = 0
    assumed: int = 0
    crossing_bytes: int = 0
    between_bytes: int = 0
    counted: set[tuple[object, ...]] = field(default_factory=set)
    """Parameters and buffers that are counted already, since two graphs may use the same."""
    with_gradient: set[int] = field(default_factory=set)
    """Storages that already have a gradient: further gradients are added to it."""

    def step(self) -> StepMemory:
        self.segments = [call.segment for call in self.calls]
        self._crossings = Crossings(self.reader)
        self._names = self._input_names()
        self._flow = StorageFlow(self.calls)
        self._orders = self._orders_between()
        self._forward_ends = list(
            accumulate(segment.forward.replayed.end for segment in self.segments)
        )
        self._backward_begins = self._begins_of_backwards()
        kept = [self._forward(at, segment) for at, segment in enumerate(self.segments)]
        backward_from = self.now
        has_backward = any(segment.backward for segment in self.segments)
        self._add_saved_between()
        for at in reversed(range(len(self.segments))):
            self.now = self._backward_begins[at]
            if graph := self.segments[at].backward:
                self._backward(at, self.segments[at], graph, kept[at])
            else:
                self.held += _until_the_end(kept[at].values())
        end = self.now + len(self._orders.get(-1, ()))
        if not has_backward:
            backward_from = end
        held = tuple(
            replace(held_tensor, end=min(held_tensor.end, end)) for held_tensor in self.held
        )
        return StepMemory(
            held,
            tuple(self.moments),
            backward_from,
            end,
            self.saved_bytes,
            self.assumed,
            len(self.calls),
            self.crossing_bytes,
            self.between_bytes,
        )

    def _input_names(self) -> list[dict[str, InputName]]:
        """Return the user's names of each graph's inputs, by torch's."""
        input_names = InputNames(self.reader)
        by_segment = []
        for segment in self.segments:
            placeholders = segment.forward.placeholders.values()
            names = input_names.of(placeholders)
            by_segment.append({node.name: names[node.id] for node in placeholders})
        return by_segment

    def _begins_of_backwards(self) -> list[int]:
        """Return the moment at which each graph's backward begins. Those of later graphs have run
        before.
        """
        begins = []
        now = self._forward_ends[-1] if self.segments else 0
        for at in reversed(range(len(self.segments))):
            now += len(self._orders.get(at, ()))
            begins.append(now)
            now += _moments_of(self.segments[at].backward)
        return begins[::-1]

    # forward

    def _forward(self, at: int, segment: SegmentMemory) -> dict[int, HeldStorage]:
        """Run a graph forward. Return the values that it saves for its backward, by the number of
        the storage.
        """
        graph, kept = segment.forward, {}
        nodes = self.reader.by_ids(model.Node, (row.producer for row in segment.saved))
        producers = {node.id: node for node in nodes}
        saved = self._saved_storages(segment)
        outputs = self._outputs(segment)
        for number, lifetime in enumerate(graph.replayed.storages):
            if lifetime.is_argument:
                self._add_input(at, lifetime, is_saved=number in saved)
                continue
            held_tensor = self._held(graph, lifetime, "temporary")
            if number in saved:
                row = saved[number]
                end = self._end_of_output(at, number) if number in outputs else 0
                kept[number] = replace(
                    self._from_its_name_on(held_tensor, lifetime),
                    kind="activation",
                    name=self._saved_name(at, row, producers.get(row.producer)),
                    node=_producer(producers, row) or held_tensor.node,
                    end=end,
                )
                self.saved_bytes += max(0, lifetime.size_bytes)
            elif number in outputs:
                end = self._end_of_output(at, number)
                self.held.append(
                    replace(self._from_its_name_on(held_tensor, lifetime), kind="output", end=end)
                )
            else:
                self.held.append(held_tensor)
        self._ran(graph)
        return kept

    def _saved_name(self, at: int, row: model.SavedTensor, producer: model.Node | None) -> str:
        """Return the name of a saved value; for a copy of an input, that of the input."""
        if producer is None:
            return row.name
        if producer.op == "placeholder":
            input_name = self._names[at].get(producer.name)
        else:
            input_name = None
        if input_name:
            return f"copy of {input_name.name}"
        return result_name(producer)

    def _from_its_name_on(self, held_tensor: HeldStorage, lifetime: Lifetime) -> HeldStorage:
        """Return the part of a buffer's life in which it holds the returned value. Before that, it
        held other values.
        """
        begin = self.now + lifetime.named
        if lifetime.named > lifetime.born + 1:
            self.held.append(replace(held_tensor, kind="temporary", end=begin))
            return replace(held_tensor, begin=begin)
        return held_tensor

    def _add_input(self, at: int, lifetime: Lifetime, *, is_saved: bool) -> None:
        """Add an input of a graph, which is held since before the step. An input that an earlier
        graph computed is left out, because it is counted there.
        """
        name = self._names[at].get(lifetime.name, InputName(lifetime.name, "input"))
        storage = self._flow.storage(at, name.node)
        if name.kind == "input" and self._is_computed(at, name, lifetime):
            if is_saved and not self._is_kept_before(at, name.node, storage):
                self.saved_bytes += max(0, lifetime.size_bytes)
                self.crossing_bytes += max(0, lifetime.size_bytes)
            if storage and self._flow.producer(storage) is None:
                self._add_made_between(at, name, lifetime, is_saved=is_saved)
            return
        owner = self.segments[at].forward.compilation
        key: tuple[object, ...] = (owner.file, owner.recompile, name.name, lifetime.size_bytes)
        if storage:
            key = (storage,)
        if key not in self.counted:
            self.counted.add(key)
            self.held.append(
                HeldStorage(name.kind, name.name, _taken(lifetime), lifetime.device, 0, FOREVER)
            )

    def _is_computed(self, at: int, name: InputName, lifetime: Lifetime) -> bool:
        """Return whether an input comes from an earlier graph. Evidence is a watched call, the
        input's name at the break, or its gradient, which the user's inputs seldom have.
        """
        if not at:
            return False
        if lifetime.name in _with_gradient(self.segments[at]):
            return True
        if storage := self._flow.storage(at, name.node):
            producer = self._flow.producer(storage)
            return producer is not None and producer < at
        return bool(self._crossings.computed_by(name.node))

    def _is_kept_before(self, at: int, node: int, storage: int) -> bool:
        """Return whether an earlier graph also saves this input for its backward."""
        producer = self._flow.producer(storage)
        if producer is None:
            return self._crossings.is_kept_before(node)
        kept = self._saved_storages(self.segments[producer])
        for number, rows in self.calls[producer].returned.items():
            if number in kept and any(row.storage == storage for row in rows):
                return True
        earlier = (taken for taken in self._flow.takers(storage, producer) if taken.call < at)
        return any(self._is_saved_in(taken) for taken in earlier)

    def _is_saved_in(self, taken: TakenInput) -> bool:
        """Return whether a call saves this input for its backward."""
        number = self._replayed(taken)
        return number is not None and number in self._saved_storages(self.segments[taken.call])

    def _replayed(self, taken: TakenInput) -> int | None:
        """Return the storage of an input in the replay of its call."""
        names = self._names[taken.call]
        storages = enumerate(self.segments[taken.call].forward.replayed.storages)
        for number, lifetime in storages:
            if (
                lifetime.is_argument
                and lifetime.name in names
                and names[lifetime.name].node == taken.node
            ):
                return number
        return None

    def _add_made_between(
        self, at: int, name: InputName, lifetime: Lifetime, *, is_saved: bool
    ) -> None:
        """Add a storage that an operator between the graphs computed and that this graph uses."""
        storage = self._flow.storage(at, name.node)
        is_kept_between = any(row.storage == storage for row in self.between)
        if is_kept_between or ("between", storage) in self.counted:
            return
        self.counted.add(("between", storage))
        if is_saved:
            ends = [self._end_in_taker(at, TakenInput(at, name.node))]
        else:
            ends = [self._forward_ends[at]]
        ends += [self._end_in_taker(at, taken) for taken in self._flow.takers(storage, at)]
        self.held.append(
            HeldStorage(
                "activation", name.name, _taken(lifetime), lifetime.device, self.now, max(ends)
            )
        )

    def _saved_storages(self, segment: SegmentMemory) -> dict[int, model.SavedTensor]:
        """Return the saved storages, each with the biggest value in it."""
        returned = segment.forward.replayed.returned
        by_storage: dict[int, model.SavedTensor] = {}
        for row in sorted(segment.saved, key=lambda row: row.size_bytes):
            if row.output and -row.output <= len(returned):
                by_storage.update(dict.fromkeys(returned[row.output], row))
        return by_storage

    def _outputs(self, segment: SegmentMemory) -> set[int]:
        """Return the storages of the values that the program receives."""
        returned = segment.forward.replayed.returned
        count = max((-row.output for row in segment.saved), default=0)
        return set(chain.from_iterable(returned[: len(returned) - count]))

    def _end_of_output(self, at: int, number: int) -> int:
        """Return the moment until which a storage is held that a graph returns."""
        seen = self.calls[at].returned.get(number, ())
        if seen:
            return max(self._end_as_seen(at, storage) for storage in seen)
        return self._end_unseen(at)

    def _end_unseen(self, at: int) -> int:
        """Return the moment until which a result is assumed to be held where no call was watched:
        for the last graph the end, for an earlier graph the moment when the later graphs have run
        backward, which may need it.
        """
        if at == len(self.segments) - 1:
            return FOREVER
        return self._backward_begins[at]

    def _end_as_seen(self, at: int, seen: model.ReturnedStorage) -> int:
        """Return the moment until which the program, a later graph or an operator between them
        holds a result.
        """
        if seen.at_end == "held":
            return FOREVER
        if not seen.at_end:
            return self._end_unseen(at)
        ends = [self._forward_ends[self._flow.at(seen.held_before, at)]]
        if seen.is_saved_between:
            ends.append(self._backward_begins[at])
        takers = self._flow.takers(seen.storage, at)
        return max(*ends, *(self._end_in_taker(at, taken) for taken in takers), 0)

    def _end_in_taker(self, at: int, taken: TakenInput) -> int:
        """Return the moment until which a later graph holds its input: until it has run, or, if it
        saves the input, until its backward frees it.
        """
        number = self._replayed(taken)
        if number is None:
            return self._backward_begins[at]
        segment, ran = self.segments[taken.call], self._forward_ends[taken.call]
        if segment.backward is None or number not in self._saved_storages(segment):
            return ran
        dropped = _dropped(segment, segment.backward, self._backward_begins[taken.call])
        return max(ran, dropped.get(number, FOREVER))

    # between the graphs

    def _add_saved_between(self) -> None:
        """Add the values that operators outside of the graphs save for their backward. They are
        held from the graph before until that backward has run; while it runs, a gradient as large
        as the largest of them is added.
        """
        of_graphs = self._flow.given | self._flow.returned
        devices: Counter[str] = Counter()
        for segment in self.segments:
            devices.update(storage.device for storage in segment.forward.replayed.storages)
        usual = devices.most_common(1)[0][0] if devices else ""
        largest: dict[tuple[int, str], int] = {}
        for row in self.between:
            device = row.device if row.device in devices else usual
            at = self._flow.at(row.call, -1)
            begin = self._forward_ends[at] if at >= 0 else 0
            runs = self._begin_between(at) + self._orders[at].index(row.order)
            size_bytes = rounded(row.size_bytes, device)
            if row.is_parameter:
                self._add_gradient_between(row, size_bytes, device, runs)
                continue
            largest[runs, device] = max(largest.get((runs, device), 0), size_bytes)
            if row.storage not in of_graphs:
                self.between_bytes += row.size_bytes
                self.held.append(
                    HeldStorage("activation", row.operator, size_bytes, device, begin, runs + 1)
                )
        for (runs, device), size_bytes in largest.items():
            self.held.append(HeldStorage("temporary", "", size_bytes, device, runs, runs + 1))

    def _orders_between(self) -> dict[int, list[int]]:
        """Return call of the step → the eager operators that run after it in the forward, in the
        order of their backward, which is right before the call's own. -1 has those before the first
        call.
        """
        by_call: dict[int, set[int]] = {}
        for row in self.between:
            by_call.setdefault(self._flow.at(row.call, -1), set()).add(row.order)
        return {at: sorted(orders, reverse=True) for at, orders in by_call.items()}

    def _begin_between(self, at: int) -> int:
        """Return the moment when the operators after a call begin to run backward, which is right
        before that call does.
        """
        if at >= 0:
            return self._backward_begins[at] - len(self._orders.get(at, ()))
        if not self.segments:
            return self.now
        return self._backward_begins[0] + _moments_of(self.segments[0].backward)

    def _add_gradient_between(
        self, row: model.SavedBetween, size_bytes: int, device: str, begin: int
    ) -> None:
        """Add a parameter that operators outside of the graphs use, and its gradient."""
        if (row.storage,) not in self.counted:
            self.counted.add((row.storage,))
            self.held.append(HeldStorage("parameter", row.operator, size_bytes, device, 0, FOREVER))
        if row.storage not in self.with_gradient:
            self.with_gradient.add(row.storage)
            self.held.append(
                HeldStorage("gradient", row.operator, size_bytes, device, begin, FOREVER)
            )

    # backward

    def _backward(
        self, at: int, segment: SegmentMemory, graph: GraphMemory, kept: dict[int, HeldStorage]
    ) -> None:
        """Run a graph backward. It frees the values that its forward saved."""
        dropped = _dropped(segment, graph, self.now)
        returned = set(chain.from_iterable(graph.replayed.returned))
        for number, held_tensor in kept.items():
            end = max(held_tensor.end, dropped.get(number, FOREVER))
            self.held.append(replace(held_tensor, end=end))
        gradients = dict(_gradients(segment.forward, graph, self._names[at]))
        not_taken = self._results_taken_by_none(at)
        for number, lifetime in enumerate(graph.replayed.storages):
            if lifetime.is_argument:
                self._add_tangent(at, graph, lifetime, not_taken)
            elif number in returned:
                name = gradients.get(number, InputName("", "input"))
                gradient = self._from_its_name_on(self._held(graph, lifetime, "gradient"), lifetime)
                end = self._end_of_gradient(at, graph, name)
                self.held.append(replace(gradient, name=name.name, end=end))
            else:
                self.held.append(self._held(graph, lifetime, "temporary"))
        self._ran(graph)

    def _end_of_gradient(self, at: int, graph: GraphMemory, name: InputName) -> int:
        """Return the moment until which the gradient of a graph's input is held: the end for a
        parameter; for a computed value, the end of the backward of the graph that computed it. A
        further gradient of the same tensor is added to the first, in place.
        """
        storage = self._flow.storage(at, name.node)
        if storage in self.with_gradient:
            return self.now + graph.replayed.end
        if storage:
            self.with_gradient.add(storage)
        producer = self._flow.producer(storage)
        if producer is not None and producer < at:
            return self._end_of_backward(producer)
        if name.kind == "parameter" or not at:
            return FOREVER
        # Operators between the graphs take it; where there are none, the graph before does.
        is_between = bool(self._orders.get(at - 1))
        if is_between:
            return self._backward_begins[at - 1]
        return self._end_of_backward(at - 1)

    def _end_of_backward(self, at: int) -> int:
        """Return the moment at which a call's backward ends. For a call without a backward it is
        that of the nearest call before it that has one.
        """
        while at and self.segments[at].backward is None:
            at -= 1
        return self._backward_begins[at] + _moments_of(self.segments[at].backward)

    def _results_taken_by_none(self, at: int) -> Counter[int]:
        """Count, by size in bytes, the results of a call that no later graph takes. Their gradients
        come from operators outside of the graphs.
        """
        storages = self.segments[at].forward.replayed.storages
        counts: Counter[int] = Counter()
        for number, rows in self.calls[at].returned.items():
            is_taken = any(self._flow.takers(row.storage, at) for row in rows)
            if not is_taken:
                counts[storages[number].size_bytes] += 1
        return counts

    def _add_tangent(
        self, at: int, graph: GraphMemory, lifetime: Lifetime, not_taken: Counter[int]
    ) -> None:
        """Add the gradient of an output if the program's loss or an operator between the graphs
        computes it. The others are gradients that later graphs returned.
        """
        if not lifetime.name.startswith(TANGENT):
            return
        if at != len(self.segments) - 1:
            if not not_taken[lifetime.size_bytes]:
                return
            not_taken[lifetime.size_bytes] -= 1
        whole = self.now + graph.replayed.end
        if self.tangents_are_held or lifetime.dies is None:
            end = whole
        else:
            end = self.now + lifetime.dies
        self.held.append(
            HeldStorage(
                "tangent",
                tangent_name(lifetime.name),
                _taken(lifetime),
                lifetime.device,
                self.now,
                end,
            )
        )

    # both

    def _held(self, graph: GraphMemory, lifetime: Lifetime, kind: MemoryKind) -> HeldStorage:
        call = graph.calls.get(lifetime.made_on)
        end = FOREVER if lifetime.dies is None else self.now + lifetime.dies
        node, kernel = (call.node, call.name) if call else (None, "")
        return HeldStorage(
            kind,
            lifetime.name,
            _taken(lifetime),
            lifetime.device,
            self.now + lifetime.born,
            end,
            node,
            kernel,
        )

    def _ran(self, graph: GraphMemory) -> None:
        """Advance to the moment after a graph."""
        name = graph.compilation.name
        for kernel in graph.replayed.kernels:
            call, at = graph.calls[kernel.line], self.now + kernel.at
            self.moments.append(StepMoment(at, call, name, graph.direction))
            if call.workspace and call.workspace.size_bytes > 0:
                self.held.append(_workspace(call, call.workspace.size_bytes, at, graph))
        self.assumed += len(graph.replayed.assumed)
        self.now += graph.replayed.end


FOREVER = 2**62
"""End of a storage that is held until the step ends."""


TANGENT = "tangents_"
"""Prefix of the placeholders for the gradients of outputs (torch/_functorch/partitioners.py,
``_is_tangent``).
"""


def _moments_of(graph: GraphMemory | None) -> int:
    """Return the number of moments that a graph takes; 0 for None."""
    return graph.replayed.end if graph else 0


def _taken(lifetime: Lifetime) -> int:
    if lifetime.size_bytes == UNKNOWN:
        return UNKNOWN
    return rounded(lifetime.size_bytes, lifetime.device)


def _workspace(
    call: WrapperKernelCall, size_bytes: int, at: int, graph: GraphMemory
) -> HeldStorage:
    """Return the workspace of a library call, held while it runs."""
    device = Counter(storage.device for storage in graph.replayed.storages).most_common(1)[0][0]
    return HeldStorage("workspace", call.name, size_bytes, device, at, at + 1, call.node, call.name)


def _until_the_end(kept: Iterable[HeldStorage]) -> list[HeldStorage]:
    return [replace(held_tensor, end=FOREVER) for held_tensor in kept]


def _producer(producers: Mapping[int, model.Node], row: model.SavedTensor) -> model.Node | None:
    """Return the node that computes a saved value; None for a copy of an input, which has no
    line.
    """
    node = producers.get(row.producer)
    return node if node and node.file else None


def _dropped(segment: SegmentMemory, backward: GraphMemory, begin: int) -> dict[int, int]:
    """Return, for each storage that the forward saved, the moment at which a backward that begins
    at ``begin`` frees it.
    """
    arguments = [storage for storage in backward.replayed.storages if storage.is_argument]
    last_used = {argument.name: argument.dies for argument in arguments}
    ends: dict[int, int] = {}
    for row in segment.saved:
        if not _is_within(row, segment):
            continue
        dies = last_used.get(row.name, 0)
        end = FOREVER if dies is None else begin + dies
        for number in segment.forward.replayed.returned[row.output]:
            ends[number] = max(ends.get(number, 0), end)
    return ends


def _is_within(row: model.SavedTensor, segment: SegmentMemory) -> bool:
    return bool(row.output) and -row.output <= len(segment.forward.replayed.returned)


def _gradients(
    forward: GraphMemory, backward: GraphMemory, names: dict[str, InputName]
) -> Iterator[tuple[int, InputName]]:
    """Yield the storages that the backward returns, each with the input whose gradient it is:
    AOTAutograd returns one value per input of the forward.
    """
    for argument, output in zip(forward.arguments, backward.replayed.returned, strict=False):
        for number in output:
            yield number, names.get(argument, InputName(argument, "input"))


def _with_gradient(segment: SegmentMemory) -> set[str]:
    """Return the inputs for which the backward returns a gradient."""
    if not segment.backward:
        return set()
    returned = segment.backward.replayed.returned
    pairs = zip(segment.forward.arguments, returned, strict=False)
    return {argument for argument, output in pairs if output}
