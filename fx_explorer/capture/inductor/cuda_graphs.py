"""Whether graphs run as CUDA graphs where that is asked for: which are handed over to be recorded,
in how many parts, which operators are left out, what is skipped and why, and how often each was
recorded.

There is no structured record of any of it. Hooks, read in 2.11 and 2.13: ``cudagraph_post_compile``
and ``cudagraph_partition_post_compile`` (torch/_inductor/output_code.py), one of which each
compiled graph comes to that torch means to record; ``Scheduler.should_partition`` (scheduler.py),
which says of each operator whether it is left out; and those of ``cuda_graph_skips.py`` and
``cuda_graph_runs.py``.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.inductor.cuda_graph_runs import CudaGraphRuns
from fx_explorer.capture.inductor.cuda_graph_skips import hearing_skips
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import Metric
from fx_explorer.model.rows.observation import (
    CUDA_GRAPH_HANDED_OVER,
    CUDA_GRAPH_LEFT_OUT,
    CUDA_GRAPH_REASON,
    CUDA_GRAPH_RUNS,
    CUDA_GRAPH_SKIP,
)

WHAT = "whether graphs run as CUDA graphs"

POST_COMPILE = ("cudagraph_post_compile", "cudagraph_partition_post_compile")

NO_PARTITIONS = "partition includes all ops when cudagraphs is disabled"
"""What ``should_partition`` answers for every operator where CUDA graphs are off."""

CPU_OPERATOR = "cpu ops"
NO_REASON = "torch gives no reason"


@contextlib.contextmanager
def cuda_graph_hook(recording: Recording) -> Iterator[None]:
    from torch._inductor import output_code, scheduler

    seen = _SeenCudaGraphs(recording)
    with contextlib.ExitStack() as stack:
        seen.runs_stack = stack
        for name in POST_COMPILE:
            if hasattr(output_code, name):
                stack.enter_context(patched(output_code, name, seen.hearing_graphs))
        if hasattr(scheduler.Scheduler, "should_partition"):
            stack.enter_context(
                patched(scheduler.Scheduler, "should_partition", seen.hearing_partitions)
            )
        stack.enter_context(hearing_skips(seen.skipped))
        yield
    with recording.noting(WHAT, "output_code"):
        seen.write_runs()


class _SeenCudaGraphs:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._runs = CudaGraphRuns()
        self._is_hearing_runs = False
        self._left_out: set[tuple[int, str, str]] = set()
        self.runs_stack = contextlib.ExitStack()

    def hearing_graphs(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def post_compile(example_inputs: Any, compiled_graph: Any, *args: Any) -> Any:
            with self._recording.noting(WHAT, "output_code"):
                self._handed_over(compiled_graph)
            return original(example_inputs, compiled_graph, *args)

        return post_compile

    def _handed_over(self, graph: Any) -> None:
        """Note a graph that torch means to record, with its parts: None where it is not cut."""
        if not self._is_hearing_runs and torch.backends.cuda.is_built():
            self._is_hearing_runs = True
            self.runs_stack.enter_context(self._runs.heard())
        keywords = graph.fx_kwargs
        parts = getattr(graph, "partition_maps", None)
        direction = "backward" if keywords.get("is_backward") else "forward"
        self._add(
            self._recording.compilation_id(),
            CUDA_GRAPH_HANDED_OVER,
            {
                "direction": "inference" if keywords.get("is_inference") else direction,
                "parts": None if parts is None else len(parts),
                "mutated": self._mutated(graph),
            },
        )

    def _mutated(self, graph: Any) -> str:
        """Return torch's words about inputs that the graph writes into and that may be others in
        each call; empty where there are none. Of these torch decides when it runs.
        """
        from torch._inductor import cudagraph_utils

        static = set(graph.fx_kwargs.get("static_input_idxs") or ())
        indices = [at for at in graph.mutated_input_idxs if at not in static]
        info = graph.cudagraph_info
        if not indices or info is None:
            return ""
        return str(cudagraph_utils.get_mutation_stack_trace(info.placeholders, indices) or "")

    def hearing_partitions(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def should_partition(scheduler: Any, node: Any, *args: Any, **keywords: Any) -> Any:
            answer = original(scheduler, node, *args, **keywords)
            if answer and answer != NO_PARTITIONS:
                with self._recording.noting(WHAT, "output_code"):
                    self._is_left_out(node, answer)
            return answer

        return should_partition

    def _is_left_out(self, node: Any, answer: object) -> None:
        """Note an operator that is not recorded, with its reason: releases up to 2.12 tell none."""
        if not torch._inductor.config.triton.cudagraphs:
            return
        device = node.get_device()
        is_on_cpu = device is not None and device.type == "cpu"
        reason = answer if isinstance(answer, str) else CPU_OPERATOR if is_on_cpu else NO_REASON
        compilation, stack = self._recording.compilation_id(), _stack_of(node)
        if (compilation, reason, stack) not in self._left_out:
            self._left_out.add((compilation, reason, stack))
            self._add(compilation, CUDA_GRAPH_LEFT_OUT, {"reason": reason, "stack": stack})

    def skipped(self, message: str) -> None:
        with self._recording.noting(WHAT, "output_code"):
            value: dict[str, object] = {CUDA_GRAPH_REASON: message, "graph": self._runs.running}
            self._add(self._recording.compilation_id(), CUDA_GRAPH_SKIP, value)

    def write_runs(self) -> None:
        for graph, times in self._runs.recorded.items():
            replays = self._runs.replayed[graph]
            again = list(dict.fromkeys(self._runs.why_again.get(graph, ())))
            self._add(
                0,
                CUDA_GRAPH_RUNS,
                {"graph": graph, "recorded": times, "replayed": replays, "why_again": again},
            )

    def _add(self, compilation: int, name: str, value: dict[str, object]) -> None:
        self._recording.writer.add(Metric(0, compilation, name, json.dumps(value)))


def _stack_of(node: Any) -> str:
    """Return the stack of the operator that a scheduler node computes; empty where it has none."""
    for part in node.get_nodes():
        for origin in getattr(part.node, "origins", ()):
            if stack := getattr(origin, "stack_trace", None):
                return str(stack)
    return ""
