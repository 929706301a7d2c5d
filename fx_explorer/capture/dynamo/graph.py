"""Dynamo: the graph of every segment.

Hook: ``OutputGraph.call_user_compiler`` (torch/_dynamo/output_graph.py; called once for each graph,
whatever the backend).
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.exc import RestartAnalysis
from torch._dynamo.output_graph import OutputGraph

from fx_explorer.capture.backends.asking import answerer, given_to_backend
from fx_explorer.capture.backends.entries import counted_entry
from fx_explorer.capture.recording.hook_notes import BackendError
from fx_explorer.capture.recording.segments import Segment
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched

_IN_FILE = re.compile(r"^.+\.py:(?=\w+$)")
"""What is before the function in the name of a backend that is named with its file."""


def graph_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record each graph that Dynamo hands to the backend, and hand it on through the recording's
    boundary. A graph that is analysed again is set aside first, and an error of the backend is
    noted.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call_user_compiler(self: Any, module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            name = recording.compilation_name()
            state = recording.of(name)
            with recording.noting("a Dynamo graph", "dynamo"):
                if state.segment is not None:
                    recording.set_aside(name, recording.restart_reason(name))
                state.backend = backend_name(self.compiler_fn) or recording.request.backend
                state.segment = Segment(dynamo=recording.add_graph(module, "dynamo"))
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
                # A package is saved with what the backend returned; and while a graph waits, it runs eagerly.
                is_saved = getattr(self, "package", None) is not None
                is_other = is_saved or recording.boundary.is_deferred(name)
                return made if is_other else counted_entry(recording, made, module, state.backend, "")
            except RestartAnalysis as error:
                # At once: what Dynamo finds from here on belongs to the next attempt.
                if recording.of(name).segment is not None:
                    recording.set_aside(name, error.restart_reason or type(error).__name__)
                raise
            except Exception as error:
                recording.of(name).error = BackendError(error, recording.stage)
                raise

        return call_user_compiler

    return patched(OutputGraph, "call_user_compiler", make)


def _with_inputs(
    recording: Recording, call: Callable[..., Any], output_graph: Any, inputs: Any, module: torch.fx.GraphModule
) -> Any:
    segment = recording.segment()
    with given_to_backend(recording, segment.answerer, segment.dynamo, module):
        return call(output_graph, module, inputs)


def backend_name(compiler: Any) -> str:
    """Return ``inductor`` for torch's own wrapper, else the function's name, without its file."""
    name = getattr(compiler, "compiler_name", None) or getattr(compiler, "__name__", None)
    inner = getattr(compiler, "_torchdynamo_orig_backend", None)
    if inner is not None and inner is not compiler:
        return backend_name(inner)
    return "inductor" if name == "compile_fx" else _IN_FILE.sub("", str(name or ""))
