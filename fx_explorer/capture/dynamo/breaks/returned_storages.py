"""For how long the program holds what its graphs return, while they run uncompiled (inspecting.py).

Hooks: ``OutputGraph.call_user_compiler``, which returns what the bytecode calls as the graph, and
``torch.autograd._engine_run_backward``, which every backward goes through. Before a graph runs the
first time, and when the forward has ended, all that earlier graphs have returned is looked at: whether
the program still holds it, and which input of the graph it is. Held here are weak references only. What
Python refers to is the same as when the graphs are built, since the bytecode is.
"""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._dynamo.output_graph import OutputGraph
from torch.multiprocessing.reductions import StorageWeakRef

from fx_explorer.capture.dynamo.breaks.python_holds import (
    PythonReferences,
    WeakTensor,
    owners_in_cpp,
    storage_of,
    tensors_in,
)
from fx_explorer.capture.recording.segments import RecordedGraph
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import MissingInTorch
from fx_explorer.model import AtTheEnd, ReturnedStorage

WHAT = "for how long the program holds what graphs return"


@contextlib.contextmanager
def returned_storage_hook(recording: Recording) -> Iterator[None]:
    """Record what graphs return that run uncompiled. Graphs that are built run as torch made them."""
    if recording.request.build:
        yield
        return
    try:
        seen = ReturnedStorages(recording)
    except MissingInTorch as error:
        raise AttributeError(str(error)) from error
    recording.forward_ended = seen.forward_ended
    with (
        patched(OutputGraph, "call_user_compiler", seen.watching_graphs),
        patched(torch.autograd, "_engine_run_backward", seen.watching_backwards),
    ):
        yield
    with recording.noting(WHAT, "dynamo"):
        seen.write()


@dataclass
class _Seen:
    """A storage that a graph returned, and what has been seen of it."""

    compilation: int
    number: int
    storage: StorageWeakRef
    size_bytes: int
    positions: list[int] = field(default_factory=list)
    tensors: list[WeakTensor] = field(default_factory=list)
    owners: int = 0
    """References from C++ to its tensors, when the graph had returned."""
    is_looked_at: bool = False
    is_saved_between: bool = False
    taken_by: list[int] = field(default_factory=list)
    held_before: int = 0
    at_end: AtTheEnd = ""

    @property
    def is_there(self) -> bool:
        return not self.storage.expired()

    def row(self) -> ReturnedStorage:
        return ReturnedStorage(
            0,
            self.compilation,
            tuple(self.positions),
            self.size_bytes,
            tuple(dict.fromkeys(self.taken_by)),
            self.held_before,
            self.is_saved_between,
            self.at_end,
        )


class ReturnedStorages:
    """What the graphs of one forward have returned so far."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._references = PythonReferences()
        self._all: list[_Seen] = []
        # What a forked child's parent has returned is in the parent's session.
        os.register_at_fork(after_in_child=self._all.clear)

    def watching_graphs(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call_user_compiler(output_graph: Any, *args: Any, **kwargs: Any) -> Any:
            compiled = original(output_graph, *args, **kwargs)
            with self._recording.noting(WHAT, "dynamo"):
                return self._watched(compiled)
            return compiled

        return call_user_compiler

    def _watched(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """Return a graph that is looked at when it runs the first time. Only one that runs uncompiled
        is: a graph module's own function.
        """
        segment = self._recording.of(self._recording.compilation_name()).segment
        is_uncompiled = isinstance(getattr(compiled, "__self__", None), torch.fx.GraphModule)
        if not is_uncompiled or segment is None or segment.dynamo is None:
            return compiled
        return self._looking_once(compiled, segment.dynamo, self._recording.compilation_id())

    def _looking_once(
        self, compiled: Callable[..., Any], graph: RecordedGraph, compilation: int
    ) -> Callable[..., Any]:
        inputs = [graph.ids[node] for node in graph.inputs]
        has_run = False

        @functools.wraps(compiled, updated=())
        def run(*args: Any) -> Any:
            nonlocal has_run
            if has_run:
                return compiled(*args)
            has_run = True
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
                self.forward_ended()
            return original(*args, **kwargs)

        return engine_run_backward

    # what is seen

    def _before(self, compilation: int, inputs: dict[int, Any]) -> None:
        """Look at what is there before a graph runs with these inputs."""
        taken: dict[int, list[int]] = {}
        for node, value in inputs.items():
            if isinstance(value, torch.Tensor):
                taken.setdefault(storage_of(value), []).append(node)
        for one in self._looked_at():
            if one.number in taken:
                one.taken_by += taken[one.number]
            elif self._references.holds(one.tensors):
                one.held_before = compilation

    def _after(self, compilation: int, args: Sequence[Any], results: Any) -> None:
        """Note what a graph has returned. What lies in an input's storage was there before it."""
        given = {storage_of(value) for value in args if isinstance(value, torch.Tensor)}
        own: dict[int, _Seen] = {
            one.number: one for one in self._all if one.is_there and one.number in given
        }
        for position, value in enumerate(
            results if isinstance(results, list | tuple) else (results,)
        ):
            number = storage_of(value) if isinstance(value, torch.Tensor) else 0
            if not number or (number in given and number not in own):
                continue
            if number not in own:
                storage = value.untyped_storage()
                own[number] = _Seen(compilation, number, StorageWeakRef(storage), storage.nbytes())
                self._all.append(own[number])
            seen, reference = own[number], weakref.ref(value)
            seen.tensors.append(reference)
            seen.owners += owners_in_cpp(reference)
            if seen.compilation == compilation:
                seen.positions.append(position)

    def _looked_at(self) -> list[_Seen]:
        """Return what is still there. What has got another owner in C++ since it was returned was saved
        by an operator that ran in between, or is looked at by a view.
        """
        there = [one for one in self._all if one.is_there]
        for one in there:
            if not one.is_looked_at:
                one.is_looked_at = True
                one.is_saved_between = sum(map(owners_in_cpp, one.tensors)) > one.owners
        return there

    def forward_ended(self) -> None:
        """Look at what the program holds now that its forward has ended."""
        if self._all:
            with self._recording.noting(WHAT, "dynamo"):
                self._look_at_the_end()
                self.write()

    def _look_at_the_end(self) -> None:
        there = self._looked_at()
        in_doubt = {one.number for one in there if not self._references.holds(one.tensors)}
        views = tensors_in(in_doubt) if in_doubt else {}
        for one in self._all:
            is_held = one.is_there and (
                one.number not in in_doubt or self._references.holds(views[one.number])
            )
            one.at_end = "held" if is_held else "dropped"

    def write(self) -> None:
        """Write what is known, and begin anew: the graphs of the next forward are others'."""
        rows = [one.row() for one in self._all]
        self._all.clear()
        self._recording.writer.add_all(rows)
