"""DistributedDataParallel: each bucket that DDPOptimizer cuts out of Dynamo's graph is compiled by
itself, with a forward and a backward of its own.

Hook: ``SubmodCompiler.compile_submod`` (torch/_dynamo/backends/distributed.py), which hands a
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
from torch._dynamo.output_graph import OutputGraph

from fx_explorer.capture.backends.users_backend import users_backend
from fx_explorer.capture.recording.segments import RecordedGraph, Segment
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import bucket_label


@contextlib.contextmanager
def bucket_hook(recording: Recording) -> Iterator[None]:
    """Record what is compiled of a bucket under a segment of its own, which is made from the nodes
    of Dynamo's graph that it holds.
    """
    with contextlib.ExitStack() as later:
        in_place = False

        def make(original: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(original)
            def call_user_compiler(self: Any, *args: Any, **kwargs: Any) -> Any:
                nonlocal in_place
                if not in_place and users_backend(self.compiler_fn) is not self.compiler_fn:
                    in_place = True
                    with recording.noting("buckets of DistributedDataParallel", "dynamo"):
                        later.enter_context(_submodules_hook(recording))
                return original(self, *args, **kwargs)

            return call_user_compiler

        with patched(OutputGraph, "call_user_compiler", make):
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
    """Return the segment of a bucket of the graph that was ``split``; None where Dynamo's was not
    recorded.
    """
    if whole.dynamo is None:
        return None
    buckets = [
        split.get_submodule(str(node.target))
        for node in split.graph.nodes
        if node.op == "call_module"
    ]
    label = bucket_label(
        1 + next(at for at, one in enumerate(buckets) if one is bucket), len(buckets)
    )
    return Segment(dynamo=_part(whole.dynamo, bucket), answerer=whole.answerer, bucket=label)


def _part(whole: RecordedGraph, bucket: torch.fx.GraphModule) -> RecordedGraph:
    """Return the bucket with the rows of the nodes that it was copied from. torch's splitting keeps
    their names, and an input that another bucket computes is called as the node that does.
    """
    ids = {
        node: whole.by_name[node.name]
        for node in bucket.graph.nodes
        if node.op != "output" and node.name in whole.by_name
    }
    by_name = {node.name: row for node, row in ids.items()}
    inner = {name: graph for name, graph in whole.nested.items() if hasattr(bucket, name)}
    return RecordedGraph(whole.graph, bucket, ids, by_name, inner)
