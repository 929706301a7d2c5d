"""This module records Dynamo's graph of every segment, and the buckets that DDPOptimizer cuts it
into.

Hooks: Dynamo's call of the backend (backend_calls.py), and ``OutputGraph.__init__``
(torch/_dynamo/output_graph.py), where an attempt at a frame begins.

With DistributedDataParallel each bucket is compiled by itself, with a forward and a backward of its
own. Hook: ``SubmodCompiler.compile_submod`` (torch/_dynamo/backends/distributed.py), which hands a
bucket to the user's backend. A graph that is a bucket as a whole never comes there. The module is
imported by torch when it meets DistributedDataParallel, and not by us: to import one of torch's
backends earlier would change what else is imported. So the hook is put in place by the first graph
that is for it.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.backends.asking import answerer, given_to_backend
from fx_explorer.capture.backends.entries import counted_entry
from fx_explorer.capture.backends.users_backend import backend_name, users_backend
from fx_explorer.capture.dynamo.attention_choices import add_attention_choices
from fx_explorer.capture.dynamo.backend_calls import (
    changed_backend_calls,
    seen_backend_calls,
)
from fx_explorer.capture.recording.compilation_state import RecordedGraph, Segment
from fx_explorer.capture.recording.noting import BackendError
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import OutputGraph, RestartAnalysis
from fx_explorer.model import bucket_label


@contextlib.contextmanager
def graph_hook(recording: Recording) -> Iterator[None]:
    """Record each graph that Dynamo gives to the backend, and pass it on through the recording's
    boundary. A graph that is traced again is set aside first, and an error of the backend is
    recorded.
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
                if name not in recording.ahead_of_time.captured:
                    state.backend = backend_name(self.compiler_fn) or recording.request.backend
                    state.segment.answerer = answerer(state.backend, self.compiler_fn)
                reason = getattr(module, "compile_subgraph_reason", None)
                if reason is not None and reason.graph_break:
                    state.has_broken = True
            with recording.noting("which kernel an attention takes", "dynamo"):
                recorded = state.segment.dynamo if state.segment else None
                if recorded is not None:
                    add_attention_choices(recording, recorded)
            try:
                # Called in another way than in the releases we know, it is left alone.
                if len(args) != 1:
                    return original(self, module, *args, **kwargs)
                compile_here = functools.partial(_with_inputs, recording, original, self, *args)
                made = recording.boundary.captured(self, module, *args, compile_here)
                # A package is saved with what the backend returned; and while a graph waits, it
                # runs eagerly.
                is_saved = getattr(self, "package", None) is not None
                is_ahead = name in recording.ahead_of_time.captured
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
        changed_backend_calls(make),
    ):
        yield


def _noting_its_backend(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    """Record the backend of a frame when an attempt to compile it begins. The attempt may end
    without a graph, and torch's records do not name the backend.
    """

    @functools.wraps(original)
    def begin(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        with recording.noting("the backend of a compilation", "dynamo"):
            name = recording.compilation_name()
            row = recording.of(name).row
            if row is not None and name not in recording.ahead_of_time.captured:
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


# The buckets of DDPOptimizer.


@contextlib.contextmanager
def bucket_hook(recording: Recording) -> Iterator[None]:
    """Record the compilation of a bucket under a segment of its own, made from the bucket's nodes
    of Dynamo's graph.
    """
    with contextlib.ExitStack() as later:
        in_place = False

        def put_in_place(output_graph: Any, _: torch.fx.GraphModule) -> None:
            nonlocal in_place
            asked_for = output_graph.compiler_fn
            if not in_place and users_backend(asked_for) is not asked_for:
                in_place = True
                with recording.noting("buckets of DistributedDataParallel", "dynamo"):
                    later.enter_context(_submodules_hook(recording))

        with seen_backend_calls(before=put_in_place):
            yield


def _submodules_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compile_submod(
            self: Any, bucket: torch.fx.GraphModule, *args: Any, **kwargs: Any
        ) -> Any:
            segment = None
            with recording.noting("a bucket of DistributedDataParallel", "dynamo"):
                segment = _segment(recording.segment(), self.module, bucket)
            if segment is None:
                return original(self, bucket, *args, **kwargs)
            with recording.here.inside(segment):
                return original(self, bucket, *args, **kwargs)

        return compile_submod

    distributed = importlib.import_module("torch._dynamo.backends.distributed")
    return patched(distributed.SubmodCompiler, "compile_submod", make)


def _segment(
    whole: Segment, split: torch.fx.GraphModule, bucket: torch.fx.GraphModule
) -> Segment | None:
    """Return the segment of a bucket of the graph that was ``split``; None where Dynamo's graph was
    not recorded.
    """
    if whole.dynamo is None:
        return None
    calls = [node for node in split.graph.nodes if node.op == "call_module"]
    buckets = [split.get_submodule(str(call.target)) for call in calls]
    number = 1 + next(at for at, module in enumerate(buckets) if module is bucket)
    label = bucket_label(number, len(buckets))
    return Segment(dynamo=_part(whole.dynamo, bucket), answerer=whole.answerer, bucket=label)


def _part(whole: RecordedGraph, bucket: torch.fx.GraphModule) -> RecordedGraph:
    """Return the bucket with the rows of the nodes that it was copied from. torch's splitting keeps
    their names, and an input that another bucket computes has the name of its node.
    """
    ids = {}
    for node in bucket.graph.nodes:
        if node.op != "output" and node.name in whole.by_name:
            ids[node] = whole.by_name[node.name]
    by_name = {node.name: row for node, row in ids.items()}
    inner = {name: graph for name, graph in whole.nested.items() if hasattr(bucket, name)}
    return RecordedGraph(whole.graph, bucket, ids, by_name, inner)
