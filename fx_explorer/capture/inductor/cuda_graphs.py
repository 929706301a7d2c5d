"""This module records which graphs torch records as CUDA graphs while a program runs, how often and
for how many sizes, which are recorded once more and why, and why torch skips the others.

There is no structured record of any of it. The hooks, read in 2.11 and 2.13:

- ``cudagraph_post_compile`` and ``cudagraph_partition_post_compile``
  (torch/_inductor/output_code.py), one of which each compiled graph comes to that torch means to
  record, and ``Scheduler.should_partition`` (scheduler.py), which says of each operator whether it
  is left out;
- in torch/_inductor/cudagraph_trees.py ``CUDAGraphTreeManager.add_function``, which gets a graph
  once for each size that it is called with, ``record_function`` and ``execute_node``, one of which
  runs each graph that is warm, ``_update_non_cudagraph_managed_mutation``, which skips one that
  writes into its inputs, and ``CUDAGraphNode.check_invariants``, which says why a recording does
  not fit a call: it fits one path of graphs, and behind another graph the same one is recorded
  again;
- ``log_cudagraph_skip_and_bump_counter`` (cudagraph_utils.py), which every place calls that skips.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import inductor_config
from fx_explorer.model import Metric
from fx_explorer.model.rows.observation import (
    CUDA_GRAPH_HANDED_OVER,
    CUDA_GRAPH_LEFT_OUT,
    CUDA_GRAPH_REASON,
    CUDA_GRAPH_RUNS,
    CUDA_GRAPH_SKIP,
)

OTHER_PATH = "it ran after another graph than before"

_DIRECTIONS = {"FORWARD": "forward", "BACKWARD": "backward", "INFERENCE": "inference"}

_PLACE = re.compile(r'File "([^"\n]+)", line (\d+)')


@dataclass
class CudaGraphRuns:
    """The recorded runs of CUDA graphs. A graph is named as in the session: ``[0/0] forward``."""

    recorded: Counter[str] = field(default_factory=Counter)
    replayed: Counter[str] = field(default_factory=Counter)
    sizes: dict[str, dict[int, set[tuple[int, ...]]]] = field(default_factory=dict)
    """Graph → number of inputs of each of its parts → their integers, by which torch distinguishes
    recordings.
    """
    why_again: dict[str, list[str]] = field(default_factory=dict)
    """Graph → why it was recorded once more, each time."""
    wall: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext
    """Context that keeps our errors out of the program: these hooks run in its own calls."""
    running: str = ""
    """The graph whose inputs torch is checking; empty if it checks none."""
    _misfits: list[Callable[[], str]] = field(default_factory=list)
    """Functions that return why recordings did not fit the present call."""

    @contextlib.contextmanager
    def recorded_runs(self) -> Iterator[None]:
        """Record every run inside the block. A torch without CUDA graph trees is left alone."""
        from fx_explorer.capture.torch_compat.private_names import cudagraph_trees

        manager, node = cudagraph_trees.CUDAGraphTreeManager, cudagraph_trees.CUDAGraphNode
        with contextlib.ExitStack() as stack:
            for owner, name, make in (
                (manager, "add_function", self._hearing_sizes),
                (manager, "record_function", self._hearing_records),
                (manager, "execute_node", self._hearing_replays),
                (node, "check_invariants", self._hearing_misfits),
                (manager, "_update_non_cudagraph_managed_mutation", self._hearing_mutations),
            ):
                if hasattr(owner, name):
                    stack.enter_context(patched(owner, name, make))
            yield

    def number_of_sizes(self, graph: str) -> int:
        """Return with how many sizes a graph was called; 0 where it was not."""
        parts = self.sizes.get(graph, {})
        return max((len(sizes) for sizes in parts.values()), default=0)

    def _hearing_sizes(self, original: Callable[..., Any]) -> Callable[..., Any]:
        names = list(inspect.signature(original).parameters)

        @functools.wraps(original)
        def add_function(*args: Any, **kwargs: Any) -> Any:
            with self.wall():
                self._called_with(dict(zip(names, args, strict=False)) | kwargs)
            return original(*args, **kwargs)

        return add_function

    def _hearing_records(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def record_function(manager: Any, *args: Any, **kwargs: Any) -> Any:
            with self.wall():
                self._recorded(_graph(manager))
            return original(manager, *args, **kwargs)

        return record_function

    def _hearing_replays(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def execute_node(manager: Any, *args: Any, **kwargs: Any) -> Any:
            with self.wall():
                self.replayed[_graph(manager)] += 1
                self._misfits.clear()
            return original(manager, *args, **kwargs)

        return execute_node

    def _hearing_mutations(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def look_at_mutations(manager: Any, *args: Any, **kwargs: Any) -> Any:
            with self.wall():
                self.running = _graph(manager)
            try:
                return original(manager, *args, **kwargs)
            finally:
                self.running = ""

        return look_at_mutations

    def _hearing_misfits(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def check_invariants(node: Any, *args: Any, **kwargs: Any) -> Any:
            answer = original(node, *args, **kwargs)
            with self.wall():
                status, why = answer
                if status.name != "SUCCESS":
                    self._misfits.append(why)
            return answer

        return check_invariants

    def _called_with(self, given: dict[str, Any]) -> None:
        """Note the size of a call, whose arguments are those of ``add_function``."""
        graph = _graph(SimpleNamespace(**given))
        inputs = given["inputs"]
        size = tuple(value for value in inputs if isinstance(value, int))
        self.sizes.setdefault(graph, {}).setdefault(len(inputs), set()).add(size)

    def _recorded(self, graph: str) -> None:
        parts = self.sizes.get(graph, {})
        once_each = sum(len(sizes) for sizes in parts.values())
        if self.recorded[graph] and self.recorded[graph] >= once_each:
            why = in_short(self._misfits[-1]()) if self._misfits else OTHER_PATH
            self.why_again.setdefault(graph, []).append(why)
        self.recorded[graph] += 1
        self._misfits.clear()


def _graph(manager: Any) -> str:
    compilation, mode = getattr(manager, "compile_id", None), getattr(manager, "mode", None)
    direction = _DIRECTIONS.get(getattr(mode, "name", ""), "")
    if compilation is not None:
        return f"[{compilation}] {direction}".strip()
    return direction or "a graph"


def in_short(reason: str) -> str:
    """Return torch's reason in one line: the change, and the last line of the program that it
    names.
    """
    what = next((line.strip() for line in reason.splitlines() if line.strip()), "").rstrip(".")
    places = _PLACE.findall(reason)
    if not places:
        return what
    file, line = places[-1][0], places[-1][1]
    return f"{what} ({file}:{line})"


def describe_runs(build: CudaGraphRuns, call: CudaGraphRuns, outside: set[str]) -> list[str]:
    """Describe which graphs of a call are replayed, which are not, and which were recorded more
    than once. ``build`` has the recordings until the program was warm, ``call`` those of one call,
    ``outside`` the graphs whose generated code runs in a call.
    """
    if not build.recorded and not call.replayed and not call.recorded:
        return []
    parts = []
    if call.replayed:
        graphs = ", ".join(call.replayed)
        parts.append(
            f"Replayed as CUDA graphs: {graphs}; the profile of each has only its total and its "
            "GPU work"
        )
    if call.recorded:
        parts.append(
            "Recorded as CUDA graphs in every call, which takes far longer than replaying them: "
            f"{', '.join(call.recorded)}"
        )
    in_parts = outside & {*call.replayed, *call.recorded}
    if in_parts:
        parts.append(
            "Outside of CUDA graphs, in generated code whose other parts are inside: "
            f"{', '.join(sorted(in_parts))}"
        )
    if outside - in_parts:
        parts.append(f"Outside of CUDA graphs: {', '.join(sorted(outside - in_parts))}")
    for graph, reasons in build.why_again.items():
        times = f"{build.recorded[graph]} times"
        parts.append(
            f"{graph} was recorded {times} as a CUDA graph before the program was warm: "
            f"{'; '.join(dict.fromkeys(reasons))}"
        )
    return parts


NAME = "log_cudagraph_skip_and_bump_counter"


@contextlib.contextmanager
def hearing_skips(hear: Callable[[str], object]) -> Iterator[None]:
    """Call ``hear`` with the reason of each skip, in torch's words and with the line that torch
    found.
    """

    def noting_answers(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def skip(message: str) -> Any:
            hear(message)
            return original(message)

        return skip

    with contextlib.ExitStack() as stack:
        # Modules that took the function by its name call their own.
        for name, module in list(sys.modules.items()):
            if name.startswith("torch._inductor") and NAME in vars(module):
                stack.enter_context(patched(module, NAME, noting_answers))
        yield


WHAT = "whether graphs run as CUDA graphs"

POST_COMPILE = ("cudagraph_post_compile", "cudagraph_partition_post_compile")

NO_PARTITIONS = "partition includes all ops when cudagraphs is disabled"
"""The answer of ``should_partition`` for every operator when CUDA graphs are off."""

CPU_OPERATOR = "cpu ops"
NO_REASON = "torch gives no reason"


@contextlib.contextmanager
def cuda_graph_hook(recording: Recording) -> Iterator[None]:
    from fx_explorer.capture.torch_compat.private_names import inductor_scheduler, output_code

    seen = _SeenCudaGraphs(recording)
    with contextlib.ExitStack() as stack:
        seen.runs_stack = stack
        for name in POST_COMPILE:
            if hasattr(output_code, name):
                stack.enter_context(patched(output_code, name, seen.hearing_graphs))
        if hasattr(inductor_scheduler.Scheduler, "should_partition"):
            stack.enter_context(
                patched(inductor_scheduler.Scheduler, "should_partition", seen.hearing_partitions)
            )
        stack.enter_context(hearing_skips(seen.skipped))
        yield
    with recording.noting(WHAT, "output_code"):
        seen.write_runs()


class _SeenCudaGraphs:
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._runs = CudaGraphRuns(wall=lambda: recording.noting(WHAT, "output_code"))
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
        """Record a graph that torch is going to record, with its parts; None for a graph in one
        piece.
        """
        if not self._is_hearing_runs and torch.backends.cuda.is_built():
            self._is_hearing_runs = True
            self.runs_stack.enter_context(self._runs.recorded_runs())
        keywords = graph.fx_kwargs
        parts = getattr(graph, "partition_maps", None)
        count = None if parts is None else len(parts)
        direction = "backward" if keywords.get("is_backward") else "forward"
        if keywords.get("is_inference"):
            direction = "inference"
        self._add(
            self._recording.compilation_id(),
            CUDA_GRAPH_HANDED_OVER,
            {"direction": direction, "parts": count, "mutated": self._mutated(graph)},
        )

    def _mutated(self, graph: Any) -> str:
        """Return torch's message about inputs that the graph writes into and that may change from
        call to call; empty without any. For these torch decides at run time.
        """
        from fx_explorer.capture.torch_compat.private_names import cudagraph_utils

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
        """Record an operator that is not in a CUDA graph, with its reason; releases up to 2.12 give
        none.
        """
        if not inductor_config.triton.cudagraphs:
            return
        device = node.get_device()
        if isinstance(answer, str):
            reason = answer
        else:
            is_on_cpu = device is not None and device.type == "cpu"
            reason = CPU_OPERATOR if is_on_cpu else NO_REASON
        compilation, stack = self._recording.compilation_id(), _stack_of(node)
        if (compilation, reason, stack) not in self._left_out:
            self._left_out.add((compilation, reason, stack))
            self._add(compilation, CUDA_GRAPH_LEFT_OUT, {"reason": reason, "stack": stack})

    def skipped(self, message: str) -> None:
        with self._recording.noting(WHAT, "output_code"):
            value: dict[str, object] = {CUDA_GRAPH_REASON: message, "graph": self._runs.running}
            self._add(self._recording.compilation_id(), CUDA_GRAPH_SKIP, value)

    def write_runs(self) -> None:
        runs = self._runs
        for graph in dict.fromkeys([*runs.sizes, *runs.recorded]):
            value: dict[str, object] = {
                "graph": graph,
                "sizes": runs.number_of_sizes(graph),
                "recorded": runs.recorded[graph],
                "replayed": runs.replayed[graph],
                "why_again": list(dict.fromkeys(runs.why_again.get(graph, ()))),
            }
            self._add(0, CUDA_GRAPH_RUNS, value)

    def _add(self, compilation: int, name: str, value: dict[str, object]) -> None:
        self._recording.writer.add(Metric(0, compilation, name, json.dumps(value)))


def _stack_of(node: Any) -> str:
    """Return the stack of the operator that a scheduler node computes; empty without one."""
    for part in node.get_nodes():
        for origin in getattr(part.node, "origins", ()):
            if stack := getattr(origin, "stack_trace", None):
                return str(stack)
    return ""
