"""Dynamo: the graph of every segment.

Hooks: ``OutputGraph.call_user_compiler`` (torch/_dynamo/output_graph.py; called once for each
graph, whatever the backend), and ``OutputGraph.__init__``, where an attempt at a frame begins.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._dynamo.exc import RestartAnalysis
from torch._dynamo.output_graph import OutputGraph

from fx_explorer.capture.backends.asking import answerer, given_to_backend
from fx_explorer.capture.backends.backend_names import backend_name
from fx_explorer.capture.backends.entries import counted_entry
from fx_explorer.capture.recording.hook_notes import BackendError
from fx_explorer.capture.recording.segments import Segment
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched


@contextlib.contextmanager
def graph_hook(recording: Recording) -> Iterator[None]:
    """Record each graph that Dynamo hands to the backend, and hand it on through the recording's
    boundary. A graph that is analysed again is set aside first, and an error of the backend is
    noted.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call_user_compiler(
            self: Any, module: torch.fx.GraphModule, *args: Any, **kwargs: Any
        ) -> Any:
            name = recording.compilation_name()
            state = recording.of(name)
            with recording.noting("a Dynamo graph", "dynamo"):
                if state.segment is not None:
                    recording.set_aside(name, recording.restart_reason(name))
                state.segment = Segment(dynamo=recording.add_graph(module, "dynamo"))
                # What is captured ahead goes to a function of torch's own, which keeps it for
                # later.
                if name not in recording.captured_ahead:
                    state.backend = backend_name(self.compiler_fn) or recording.request.backend
                    state.segment.answerer = answerer(state.backend, self.compiler_fn)
                reason = getattr(module, "compile_subgraph_reason", None)
                if reason is not None and reason.graph_break:
                    state.has_broken = True
            try:
                # Called in another way than in the releases we know, it is left alone.
                if len(args) != 1:
                    return original(self, module, *args, **kwargs)
                compile_here = functools.partial(_with_inputs, recording, original, self, *args)
                made = recording.boundary.captured(self, module, *args, compile_here)
                # A package is saved with what the backend returned; and while a graph waits, it
                # runs eagerly.
                is_saved = getattr(self, "package", None) is not None
                is_ahead = name in recording.captured_ahead
                is_other = is_saved or is_ahead or recording.boundary.is_deferred(name)
                if is_other:
                    return made
                return counted_entry(recording, made, module, state.backend, "")
            except RestartAnalysis as error:
                # At once: what Dynamo finds from here on belongs to the next attempt.
                if recording.of(name).segment is not None:
                    recording.set_aside(name, error.restart_reason or type(error).__name__)
                raise
            except Exception as error:
                recording.of(name).error = BackendError(error, recording.stage)
                raise

        return call_user_compiler

    attempt = functools.partial(_noting_its_backend, recording)
    with (
        patched(OutputGraph, "__init__", attempt),
        patched(OutputGraph, "call_user_compiler", make),
    ):
        yield


def _noting_its_backend(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Note which backend a frame is compiled for when an attempt at it begins: it may end without a
    graph, and torch says nothing of it.
    """

    @functools.wraps(original)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with recording.noting("the backend of a compilation", "dynamo"):
            name = recording.compilation_name()
            row = recording.of(name).row
            if row is not None and name not in recording.captured_ahead:
                backend = recording.of(name).backend = (
                    backend_name(self.compiler_fn) or recording.request.backend
                )
                if backend != row.backend:
                    recording.change_compilation(name, backend=backend)

    return begin


def _with_inputs(
    recording: Recording,
    call: Callable[..., Any],
    output_graph: Any,
    inputs: Any,
    module: torch.fx.GraphModule,
) -> Any:
    segment = recording.segment()
    with given_to_backend(recording, segment.answerer, segment.dynamo, module):
        return call(output_graph, module, inputs)
