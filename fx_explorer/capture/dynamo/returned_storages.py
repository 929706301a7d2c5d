"""This module records the calls of graphs in a forward, and for how long the program holds their
results, while they run in eager mode (inspecting.py).

Hooks: Dynamo's call of the backend (backend_calls.py), which returns what the bytecode calls as the
graph, and ``torch.autograd._engine_run_backward``, which every backward goes through. Before each
call of a graph, and when the forward has ended, every result of earlier calls is examined: whether
the program still holds it, and which input of the graph it is. This module holds weak references
only. Python holds the same objects as when the graphs are built, because the bytecode is the same.

A forward is written to the session if a graph runs in it that was in no earlier one. After a
forward without such a graph, calls are not watched until another graph is compiled, so that a
training loop pays for its first steps only.

What holds a tensor is Python, or autograd for a backward of operators that ran outside of the
graphs. Python holds it where anything but autograd, and the views of it, refers to it. A weak
reference alone does not tell: autograd keeps what it needs for the backward of operators that run
uncompiled, and a tensor keeps its Python object for as long as anything in C++ refers to it
(torch/csrc/autograd/python_variable.cpp). So references are counted: Python's, less the one of C++.

Operators outside of the graphs are those of a loss that is not compiled, and those that run at a
graph break. While a program is inspected its graphs run in eager mode, so that their operators are
in autograd's graph, too. They are distinguished by autograd's sequence numbers, which rise with
each operator. Tensors are read as autograd keeps them (``_raw_saved_*``): nothing is unpacked, so
no hook of the program's runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gc
import itertools
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from fx_explorer.capture.dynamo.backend_calls import seen_backend_calls
from fx_explorer.capture.recording.compilation_state import RecordedGraph
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import _get_sequence_nr
from fx_explorer.capture.torch_compat.versions import MissingInTorch
from fx_explorer.model import AtTheEnd, GraphCall, ReturnedStorage, SavedBetween

WHAT = "how long the program holds the tensors that graphs return"

MOST_CALLS = 4000
"""Maximum number of calls of graphs that are watched in one forward. A program without a backward
has one long forward.
"""


@contextlib.contextmanager
def returned_storage_hook(recording: Recording) -> Iterator[None]:
    """Record the calls of graphs that run in eager mode. Graphs that are built run unchanged."""
    if recording.request.build:
        yield
        return
    try:
        seen = WatchedCalls(recording)
    except MissingInTorch as error:
        raise AttributeError(str(error)) from error
    recording.forward_ended = seen.forward_ended
    with (
        seen_backend_calls(after=seen.watched),
        patched(torch.autograd, "_engine_run_backward", seen.watching_backwards),
    ):
        yield
    with recording.noting(WHAT, "dynamo"):
        seen.write()


@dataclass
class _Returned:
    """A storage that a call of a graph returned, and how long the program was seen to hold it."""

    compilation: int
    call: int
    number: int
    storage: StorageWeakRef
    size_bytes: int
    positions: list[int] = field(default_factory=list)
    tensors: list[WeakTensor] = field(default_factory=list)
    owners: int = 0
    """References from C++ to its tensors, when the graph had returned."""
    is_looked_at: bool = False
    is_saved_between: bool = False
    held_before: int = 0
    at_end: AtTheEnd = "dropped"

    @property
    def is_there(self) -> bool:
        return not self.storage.expired()

    def row(self, forward: int) -> ReturnedStorage:
        return ReturnedStorage(
            0,
            self.compilation,
            tuple(self.positions),
            self.size_bytes,
            forward,
            self.call,
            self.number,
            self.held_before,
            self.is_saved_between,
            self.at_end,
        )


class StorageNumbers:
    """Numbers for the storages of a forward. The weak references keep their addresses from being
    given to others.
    """

    def __init__(self) -> None:
        self._by_address: dict[int, tuple[int, StorageWeakRef]] = {}

    def of(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor's storage; 0 for a tensor without a storage of its own."""
        address = storage_of(tensor)
        if not address:
            return 0
        if address not in self._by_address:
            reference = StorageWeakRef(tensor.untyped_storage())
            self._by_address[address] = len(self._by_address) + 1, reference
        return self._by_address[address][0]


class _Forward:
    """The record of one forward so far: the calls of graphs, and the storages they returned."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, list[int], list[int]]] = []
        """Each call's compilation, its inputs (Nodes), and their storages."""
        self.returned: list[_Returned] = []
        self.there: list[_Returned] = []
        """Results in ``returned`` that were still alive at the last ``look``."""
        self.numbers = StorageNumbers()
        self.eager = SavedByEager()
        self.has_new_graph = False

    def look(self) -> list[_Returned]:
        """Return the storages that are still alive. A storage that has gained an owner in C++ since
        it was returned was saved by an eager operator in between, or has a view.
        """
        self.there = [returned for returned in self.there if returned.is_there]
        for returned in self.there:
            if not returned.is_looked_at:
                returned.is_looked_at = True
                returned.is_saved_between = (
                    sum(map(owners_in_cpp, returned.tensors)) > returned.owners
                )
        return self.there


class WatchedCalls:
    """Watches the calls of graphs, forward by forward."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._references = PythonReferences()
        self._forward = _Forward()
        self._is_watching = True
        self._is_compiled_since = False
        """Whether a graph was compiled during a forward whose first calls were not watched."""
        self._written = 0
        self._known: set[int] = set()
        """Compilations whose graphs belong to a forward that is already in the session."""
        # What a forked child's parent has returned is in the parent's session.
        os.register_at_fork(after_in_child=self._begin)

    def watched(self, compiled: Callable[..., Any], _: object) -> Callable[..., Any]:
        """Return the function that Dynamo's bytecode calls as the graph: a watched one, or
        ``compiled`` itself.
        """
        with self._recording.noting(WHAT, "dynamo"):
            return self._watched(compiled)
        return compiled

    def _watched(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Return a watched function for a graph that runs in eager mode, as a graph module's own
        function; else ``compiled`` itself.
        """
        segment = self._recording.of(self._recording.compilation_name()).segment
        is_uncompiled = isinstance(getattr(compiled, "__self__", None), torch.fx.GraphModule)
        if not is_uncompiled or segment is None or segment.dynamo is None:
            return compiled
        self._is_compiled_since = True
        return self._watching(compiled, segment.dynamo, self._recording.compilation_id())

    def _watching(
        self, compiled: Callable[..., Any], graph: RecordedGraph, compilation: int
    ) -> Callable[..., Any]:
        inputs = [graph.ids[node] for node in graph.inputs]

        @functools.wraps(compiled, updated=())
        def run(*args: Any) -> Any:
            if not self._is_watching:
                return compiled(*args)
            with self._recording.noting(WHAT, "dynamo"):
                self._before(compilation, dict(zip(inputs, args, strict=False)))
            results = compiled(*args)
            with self._recording.noting(WHAT, "dynamo"):
                self._after(compilation, args, results)
            return results

        return run

    def watching_backwards(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def engine_run_backward(*args: Any, **kwargs: Any) -> Any:
            # AOTAutograd goes backward, too, while it traces a graph.
            if not self._recording.compilation_name():
                roots = args[0] if args else ()
                self.forward_ended(roots)
            return original(*args, **kwargs)

        return engine_run_backward

    # what is seen

    def _before(self, compilation: int, inputs: dict[int, Any]) -> None:
        """Record, before a graph runs with these inputs, which storages of earlier results are
        still held.
        """
        forward = self._forward
        tensors = {node: value for node, value in inputs.items() if isinstance(value, torch.Tensor)}
        storages = [forward.numbers.of(tensor) for tensor in tensors.values()]
        forward.calls.append((compilation, list(tensors), storages))
        forward.has_new_graph |= compilation not in self._known
        if len(forward.calls) > MOST_CALLS:
            self._is_watching = False
            return
        taken = set(storages)
        for returned in forward.look():
            if returned.number not in taken and self._references.holds(returned.tensors):
                returned.held_before = len(forward.calls)
        forward.eager.graph_begins()

    def _after(self, compilation: int, args: Sequence[Any], results: Any) -> None:
        """Record the results of a graph. A result in an input's storage existed before."""
        forward = self._forward
        forward.eager.graph_ended()
        given = {forward.numbers.of(arg) for arg in args if isinstance(arg, torch.Tensor)}
        own: dict[int, _Returned] = {}
        for returned in forward.there:
            if returned.is_there and returned.number in given:
                own[returned.number] = returned
        call = len(forward.calls)
        values = results if isinstance(results, list | tuple) else (results,)
        for position, value in enumerate(values):
            if isinstance(value, torch.Tensor):
                number = forward.numbers.of(value)
            else:
                number = 0
            if not number or (number in given and number not in own):
                continue
            if number not in own:
                storage = value.untyped_storage()
                own[number] = _Returned(
                    compilation, call, number, StorageWeakRef(storage), storage.nbytes()
                )
                forward.returned.append(own[number])
                forward.there.append(own[number])
            seen, reference = own[number], weakref.ref(value)
            seen.tensors.append(reference)
            seen.owners += owners_in_cpp(reference)
            if seen.call == call:
                seen.positions.append(position)

    def forward_ended(self, results: object) -> None:
        """Record which storages the program holds at the end of its forward: with ``results``, from
        which a backward begins; None without one.
        """
        if not self._forward.calls and not self._is_compiled_since:
            return
        with self._recording.noting(WHAT, "dynamo"):
            if self._is_watching and self._forward.has_new_graph:
                self._look_at_the_end()
                between = self._forward.eager.saved(results, self._forward.numbers)
                self._write(is_whole=True, between=between)
            self._begin()

    def _look_at_the_end(self) -> None:
        looked_at = self._forward.look()
        in_doubt = set()
        addresses = {}
        for returned in looked_at:
            if not self._references.holds(returned.tensors):
                in_doubt.add(returned.number)
                addresses[returned.storage.cdata] = returned.number
        held = set()
        views = tensors_in(addresses) if addresses else {}
        for address, tensors in views.items():
            if self._references.holds(tensors):
                held.add(addresses[address])
        for returned in looked_at:
            is_held = returned.number not in in_doubt or returned.number in held
            returned.at_end = "held" if is_held else "dropped"

    # what is written

    def _begin(self) -> None:
        """Begin a forward. It is watched if the one before had a new graph, or if one was compiled
        since.
        """
        self._is_watching = self._forward.has_new_graph or self._is_compiled_since
        self._is_compiled_since = False
        self._forward = _Forward()

    def write(self) -> None:
        """Write a forward whose end was not seen: it is the last one."""
        forward = self._forward
        if self._is_watching and forward.has_new_graph:
            for returned in forward.returned:
                returned.at_end = ""
            self._write(is_whole=False, between=())
        self._begin()

    def _write(self, *, is_whole: bool, between: Sequence[SavedBetween]) -> None:
        forward = self._forward
        self._written += 1
        number = self._written
        calls = [
            GraphCall(0, number, at, compilation, tuple(inputs), tuple(storages), is_whole)
            for at, (compilation, inputs, storages) in enumerate(forward.calls, start=1)
        ]
        returned = [storage.row(number) for storage in forward.returned]
        saved = [dataclasses.replace(saved_between, forward=number) for saved_between in between]
        for rows in (calls, returned, saved):
            self._recording.writer.add_all(rows)
        self._known.update(compilation for compilation, _, _ in forward.calls)


# What holds a tensor: Python, or autograd.


WeakTensor = Callable[[], torch.Tensor | None]


class PythonReferences:
    """Counts references to tensors, as this Python and this torch count them."""

    def __init__(self) -> None:
        """Test the counting on two tensors with a known number of references. Raises MissingInTorch
        where this torch counts differently.
        """
        with torch.enable_grad():
            held = torch.ones(1, device="cpu", requires_grad=True) * 1
            self._ours = sum(_counted(weakref.ref(held))[:1]) - 1
            # The operator saves its operand, so that C++ holds it, too.
            result = held * held
        reference = weakref.ref(held)
        with_both = self.count(reference)
        del held
        with_autograd_alone = self.count(reference)
        del result
        if (with_both, with_autograd_alone) != (1, 0):
            raise MissingInTorch(f"torch {torch.__version__} does not tell who refers to a tensor")

    def count(self, reference: WeakTensor) -> int:
        """Return how many references Python's objects have to a tensor; 0 where it is gone."""
        references, owners = _counted(reference)
        return max(0, references - self._ours - (owners > 1))

    def holds(self, references: Iterable[WeakTensor]) -> bool:
        return any(self.count(reference) > 0 for reference in references)


def owners_in_cpp(reference: WeakTensor) -> int:
    """Return how many references C++ has to a tensor, that of its Python object among them."""
    return _counted(reference)[1]


def _counted(reference: WeakTensor) -> tuple[int, int]:
    """Return (references from Python, references from C++) to a tensor; (0, 0) when it is gone."""
    tensor = reference()
    if tensor is None:
        return (0, 0)
    return (sys.getrefcount(tensor), tensor._use_count())


def tensors_in(storages: Iterable[int]) -> dict[int, list[WeakTensor]]:
    """Return all tensors of these storages that Python knows (by the address of their C++ object),
    including views. It looks at every existing object, which takes some tens of milliseconds.
    """
    tensors: dict[int, list[WeakTensor]] = {storage: [] for storage in storages}
    objects = gc.get_objects()
    # By their types: to ask some objects for their class runs code of the program's. There are more
    # than a million, and ``issubclass`` in a loop of Python takes twice as long.
    are_tensors = map(torch.Tensor.__subclasscheck__, map(type, objects))
    for tensor in itertools.compress(objects, are_tensors):
        number = storage_of(tensor)
        if number in tensors:
            tensors[number].append(weakref.ref(tensor))
    return tensors


def storage_of(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's storage; 0 for a tensor without a storage of its own."""
    if tensor.layout is not torch.strided:
        return 0
    try:
        return int(tensor.untyped_storage()._cdata)
    except (
        NotImplementedError,
        RuntimeError,
    ):  # one that wraps others, as subclasses and torch.func do
        return 0


# What autograd keeps.


MOST_NODES = 200_000
"""Maximum number of nodes of autograd's graph that are visited."""

RAW = "_raw_saved_"


class Numbers(Protocol):
    def of(self, tensor: torch.Tensor) -> int: ...


class SavedByEager:
    """Finds tensors that eager operators outside a forward's graphs saved for the backward. They
    are recognized by autograd's sequence numbers, which lie outside the ranges of the graphs.
    """

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._names: dict[type, tuple[str, ...]] = {}
        """Type of an autograd node → its attributes that hold saved tensors."""

    def graph_begins(self) -> None:
        self._begins.append(_get_sequence_nr())

    def graph_ended(self) -> None:
        self._ends.append(_get_sequence_nr())

    def saved(self, results: Any, numbers: Numbers) -> list[SavedBetween]:
        """Return the storages that are saved for a backward from ``results``, each once, and the
        parameters that operators outside of the graphs use. The field for the forward is left
        empty.
        """
        if len(self._begins) != len(self._ends):
            return []
        kept: dict[int, SavedBetween] = {}
        for node, call in self._outside(results):
            for tensor, is_parameter in self._tensors(node):
                number = numbers.of(tensor)
                if number and (number not in kept or not kept[number].is_parameter):
                    kept[number] = SavedBetween(
                        0,
                        0,
                        call,
                        node._sequence_nr(),
                        number,
                        tensor.untyped_storage().nbytes(),
                        tensor.device.type,
                        node.name(),
                        is_parameter,
                    )
        return list(kept.values())

    def _outside(self, results: Any) -> Iterator[tuple[Any, int]]:
        """Yield autograd's nodes of operators outside of the graphs, each with the number of graphs
        that had run before.
        """
        values = results if isinstance(results, tuple | list) else (results,)
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        waiting = [tensor.grad_fn for tensor in tensors if tensor.grad_fn]
        seen = set(waiting)
        while waiting and len(seen) < MOST_NODES:
            node = waiting.pop()
            call = self._graphs_before(node._sequence_nr())
            if call >= 0:
                yield node, call
            inputs = {before for before, _ in node.next_functions if before is not None} - seen
            # A leaf has no number of its own: it is asked for by the operator that takes it.
            following = {
                before for before in inputs if before.next_functions or not _is_leaf(before)
            }
            seen |= following
            waiting += following

    def _tensors(self, node: Any) -> Iterator[tuple[torch.Tensor, bool]]:
        """Yield the tensors that a node of autograd's saves, and the parameters that it leads to
        (with True).
        """
        kind = type(node)
        if kind not in self._names:
            self._names[kind] = tuple(name for name in dir(kind) if name.startswith(RAW))
        for name in self._names[kind]:
            for kept in _each(getattr(node, name, None)):
                data = getattr(kept, "data", None)
                if isinstance(data, torch.Tensor):
                    yield data, False
        for following, _ in node.next_functions:
            if following is not None and _is_leaf(following):
                yield following.variable, True

    def _graphs_before(self, sequence: int) -> int:
        """Return how many graphs had begun before an operator; -1 for an operator inside a
        graph.
        """
        call = sum(begin <= sequence for begin in self._begins)
        if call and sequence < self._ends[call - 1]:
            return -1
        return call


def _is_leaf(node: Any) -> bool:
    return hasattr(node, "variable")


def _each(kept: Any) -> Iterable[Any]:
    if isinstance(kept, tuple | list):
        return kept
    if kept is None:
        return ()
    return (kept,)
