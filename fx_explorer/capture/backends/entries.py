"""This module counts the calls of each function that a backend compiled, and compares its results
with the graph it was made from.

What Inductor makes stays the object that it is, since torch continues to use it as such: its calls
are counted in its class, ``CompiledFxGraph.__call__`` (torch/_inductor/output_code.py). While
inspecting it does not run: the calls of Dynamo's graph are counted, which runs in its place.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch

from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import BackendEntry, Direction

_ALWAYS_WRITTEN = 4
"""Number of first calls that are written at once. Later ones are written when their number has
doubled, and at the end.
"""


@contextlib.contextmanager
def entry_hook(recording: Recording) -> Iterator[None]:
    """Write, after the block, how often each entry was called inside it."""
    try:
        counting: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if recording.request.build:
            counting = _counting_inductors(recording)
        with counting:
            yield
    finally:
        with recording.noting("how often compiled entries were called", "backend"):
            for entry in recording.published.entries:
                entry.write()
            recording.published.entries.clear()


def counted_entry(
    recording: Recording, made: Any, module: Any, backend: str, direction: Direction
) -> Any:
    """Return the backend's result for a graph, wrapped so that its calls are counted while
    recording.
    """
    result = made
    with recording.noting("a compiled entry", "backend"):
        is_inductors = backend == "inductor" or type(made).__module__.startswith("torch._inductor")
        if is_inductors:
            # What the backward is compiled to is wrapped by torch._dynamo.disable (compile_fx.py).
            graph = getattr(made, "_torchdynamo_orig_callable", made)
            if direction and recording.request.build and hasattr(graph, "current_callable"):
                entry = _entry(recording, module, backend, direction)
                recording.published.count_inductors(graph, entry)
            elif not direction and not recording.request.build and callable(made):
                # While inspecting, Dynamo's graph runs in place of what Inductor made.
                graph = _recompiled(made)
                result = _counting(recording, graph, module, backend, direction)
                # Whose function it is: returned_storages.py watches graphs by that.
                result.__self__ = getattr(graph, "__self__", None)
        elif callable(made) and not _is_counted(recording, direction):
            result = _counting(recording, _recompiled(made), module, backend, direction)
    return result


def _is_counted(recording: Recording, direction: Direction) -> bool:
    """Return whether the entry is a wrapper of AOTAutograd's around others, which are counted."""
    if direction:
        return False
    compilation = recording.variant_id()
    return any(entry.row.compilation == compilation for entry in recording.published.entries)


def _recompiled(made: Any) -> Any:
    """Return the function that torch would use in place of a lazy one
    (torch/_dynamo/output_graph.py, after ``call_user_compiler``).
    """
    from fx_explorer.capture.torch_compat.private_names import _LazyGraphModule

    owner = getattr(made, "__self__", None)
    if isinstance(owner, _LazyGraphModule) and getattr(made, "__name__", "") == "_lazy_forward":
        _LazyGraphModule.force_recompile(owner)
        return owner.forward
    if isinstance(made, _LazyGraphModule):
        _LazyGraphModule.force_recompile(made)
    return made


@contextlib.contextmanager
def _counting_inductors(recording: Recording) -> Iterator[None]:
    from fx_explorer.capture.torch_compat.private_names import CompiledFxGraph

    def counting(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(graph: Any, *args: Any, **kwargs: Any) -> Any:
            returned = original(graph, *args, **kwargs)
            if entry := recording.published.entry_of(graph):
                entry.was_called(returned)
            return returned

        return call

    with patched(CompiledFxGraph, "__call__", counting):
        yield


def _entry(recording: Recording, module: Any, backend: str, direction: Direction) -> _Entry:
    """Return a new entry of a graph, with its row."""
    row = BackendEntry(0, recording.variant_id(), direction, backend)
    entry = _Entry(recording, replace(row, id=recording.writer.add(row)), _output_count(module))
    recording.published.entries.append(entry)
    return entry


def _counting(
    recording: Recording, made: Callable[..., Any], module: Any, backend: str, direction: Direction
) -> Any:
    name = recording.compilation_name()
    entry = _entry(recording, module, backend, direction)

    def called(*args: Any, **kwargs: Any) -> Any:
        with recording.here.running_entry(name, direction):
            returned = made(*args, **kwargs)
        entry.was_called(returned)
        return returned

    for attribute in functools.WRAPPER_ASSIGNMENTS:
        with contextlib.suppress(AttributeError):
            setattr(called, attribute, getattr(made, attribute))
    if not isinstance(made, torch.nn.Module):
        called.__dict__.update(getattr(made, "__dict__", {}))
    if getattr(made, "_boxed_call", False):  # it takes its inputs as one list, which it empties
        called._boxed_call = True  # type: ignore[attr-defined]
    return called


class _Entry:
    """Counts the calls of one compiled function, and updates its row in the session."""

    def __init__(self, recording: Recording, row: BackendEntry, outputs: int) -> None:
        self.row = row
        self._recording = recording
        self._outputs = outputs
        """Outputs of the graph; -1 when it is not known."""
        self._calls = 0
        self._returned = -1

    @property
    def calls(self) -> int:
        return self._calls

    def was_called(self, returned: Any) -> None:
        self._calls += 1
        count = len(returned) if isinstance(returned, (tuple, list)) else -1
        is_other, self._returned = count != self._returned, count
        if (
            self not in self._recording.published.entries
        ):  # the recording has ended, or this is a child of the process
            return
        if is_other and count != self._outputs:
            self._report_outputs(returned, count)
        if is_other or self._calls <= _ALWAYS_WRITTEN or self._calls & (self._calls - 1) == 0:
            with self._recording.noting("a call of a compiled entry", "backend"):
                self.write()

    def write(self) -> None:
        self.row = replace(self.row, calls=self._calls, outputs=self._returned)
        self._recording.writer.update(self.row)

    def _report_outputs(self, returned: Any, count: int) -> None:
        recording = self._recording
        with recording.noting("what a compiled entry returned", "backend"):
            if self._outputs < 0:
                return
            if count >= 0:
                what = "1 output" if count == 1 else f"{count} outputs"
            else:
                what = f"a {type(returned).__name__}, not a tuple of outputs"
            direction = f"{self.row.direction} " if self.row.direction else ""
            outputs = "output" if self._outputs == 1 else "outputs"
            message = (
                f"the {direction}function that backend {self.row.backend} made returned {what}; "
                f"its graph has {self._outputs} {outputs}"
            )
            recording.note_of_backend(message, self.row.compilation)


def _output_count(module: Any) -> int:
    """Return how many outputs a graph has; -1 where it does not return a tuple or list."""
    output = next((node for node in reversed(module.graph.nodes) if node.op == "output"), None)
    if output is not None and output.args:
        returned = output.args[0]
    else:
        returned = None
    if not isinstance(returned, (tuple, list)):
        return -1
    return len(returned)
