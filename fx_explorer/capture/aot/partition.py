"""This module hooks into AOTAutograd to record the joint graph, the forward and backward graphs,
and the values that the forward saves for the backward.

Hook: ``torch._dynamo.backends.common.aot_module_simplified``, which every AOTAutograd backend goes
through. Its compilers and its partition function arrive as keyword arguments, so wrapping those
arguments shows each graph at the moment torch has it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import traceback
from collections.abc import Callable, Iterator
from inspect import signature
from types import FunctionType
from typing import Any

import torch

from fx_explorer.capture.aot.decompositions import add_decompositions
from fx_explorer.capture.aot.distributed_facts import add_process_groups, add_redistributions
from fx_explorer.capture.aot.left_out import left_out_rows
from fx_explorer.capture.aot.partition_choices import add_partition_choices
from fx_explorer.capture.aot.regional import traced_region
from fx_explorer.capture.aot.saved_tensors import add_saved_tensors
from fx_explorer.capture.aot.value_facts import add_value_facts
from fx_explorer.capture.backends.asking import given_to_backend
from fx_explorer.capture.backends.entries import counted_entry
from fx_explorer.capture.backends.users_backend import backend_name
from fx_explorer.capture.dynamo.ahead_of_time import lowered_by_program
from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.inspecting import NotBuilt
from fx_explorer.capture.node_links import copied_links, traced_links
from fx_explorer.capture.recording.compilation_state import RecordedGraph, Segment
from fx_explorer.capture.recording.described import one_line
from fx_explorer.capture.recording.given_directly import is_given_directly
from fx_explorer.capture.recording.graph_states import states_of
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import (
    common_backends,
    dynamo_exc,
    graph_compile,
)
from fx_explorer.capture.torch_compat.versions import release
from fx_explorer.model import Direction, Stage
from fx_explorer.torch_texts.reports import OF_BACKWARD, failed_stage

_COMPILERS: dict[str, Direction] = {
    "fw_compiler": "forward",
    "bw_compiler": "backward",
    "inference_compiler": "inference",
}


def aot_hooks(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record AOTAutograd's graphs: each compiler passed to it, and the partitioner, are wrapped to
    record their arguments.
    """

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def aot_module_simplified(module: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
            if is_given_directly(recording):  # a compiler of the program's own, outside Dynamo
                backend = backend_name(_unwrapped(kwargs["fw_compiler"]))
                function = type(module).__name__
                with lowered_by_program(recording, "aot", function, module, backend):
                    return aot_module_simplified(module, inputs, *args, **kwargs)
            segment = recording.segment()
            for argument, direction in _COMPILERS.items():
                if kwargs.get(argument) is not None:
                    kwargs[argument] = _recording_compiler(
                        recording, segment, kwargs[argument], direction
                    )
            if kwargs.get("inference_compiler") is None and "fw_compiler" in kwargs:
                # AOTAutograd would use the forward compiler, and the graph would pass for a
                # forward.
                kwargs["inference_compiler"] = _recording_compiler(
                    recording, segment, _unwrapped(kwargs["fw_compiler"]), "inference"
                )
            # A backend that names no partition function gets torch's, which cuts a joint graph as
            # well.
            partition = kwargs.get(
                "partition_fn", signature(original).parameters["partition_fn"].default
            )
            if callable(partition) and not segment.subgraph:
                kwargs["partition_fn"] = recording_partition(recording, segment, partition)
            with recording.here.in_aot():
                return original(module, inputs, *args, **kwargs)

        return aot_module_simplified

    return patched(common_backends, "aot_module_simplified", make)


def _recording_compiler(
    recording: Recording, segment: Segment, compiler: Any, direction: Direction
) -> Any:
    """Return ``compiler`` in a form that records its graph. A serializable compiler stays one,
    because torch's caches check the type. From the second graph on, torch also sets ``compiler_fn``
    of a plain function to that function (``AotAutograd.__call__``).
    """
    given = recording.here.ahead or ""
    inner = None if isinstance(compiler, FunctionType) else getattr(compiler, "compiler_fn", None)
    compile_graph = inner if inner is not None else compiler

    @functools.wraps(compile_graph, updated=())
    def compile_and_record(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        if segment.subgraph:
            with recording.noting(f"the graph of region {segment.subgraph}", "forward"):
                _add_region(recording, segment, module)
            return compile_graph(module, *args, **kwargs)
        # The backward of a bucket is compiled when it first runs, and torch is in no bucket then.
        in_bucket = recording.here.inside(segment) if segment.bucket else contextlib.nullcontext()
        # The backward of what the program gave to a compiler itself: torch does not know whose it
        # is.
        in_given = recording.within(given) if given else contextlib.nullcontext()
        stage: Stage = "backward" if direction == "backward" else "forward"
        with in_bucket, in_given, recording.here.compiling(direction):
            with recording.noting(f"the {direction} graph", stage):
                add_aot_graph(recording, segment, module, direction)
            try:
                with given_to_backend(
                    recording, segment.answerer, segment.aot.get(direction), module, direction
                ):
                    made = _lowered(
                        recording, direction, module, lambda: compile_graph(module, *args, **kwargs)
                    )
                compilation = recording.of(recording.compilation_name())
                backend = compilation.backend or recording.request.backend
                if recording.here.is_nested:
                    return made
                return counted_entry(recording, made, module, backend, direction)
            except Exception as error:
                if not _is_ahead_of_its_time(recording, direction, error):
                    raise
                message = f"{OF_BACKWARD}{one_line(str(error) or type(error).__name__)}"
                stage = failed_stage("".join(traceback.format_exception(error)))
                recording.add_failure("compiler", stage, error, message)
                return NotBuilt()

    compile_and_record.fx_explorer_inner = compiler  # type: ignore[attr-defined]
    if inner is None:
        return compile_and_record
    wrapped = copy.copy(compiler)
    wrapped.compiler_fn = compile_and_record
    wrapped.fx_explorer_inner = compiler
    return wrapped


def _is_ahead_of_its_time(recording: Recording, direction: Direction, error: Exception) -> bool:
    """Return whether a backward failed that torch would compile only when it runs. Inspecting
    lowers it with the forward, which the program still needs, and never runs it.
    """
    is_inspected = (
        direction == "backward"
        and not recording.request.build
        and not recording.boundary.is_outside
    )
    restart = getattr(dynamo_exc, "RestartAnalysis", ())
    return is_inspected and not isinstance(error, restart)


def _lowered(
    recording: Recording,
    direction: Direction,
    module: torch.fx.GraphModule,
    lower: Callable[[], Any],
) -> Any:
    """Return the compiled function. The function of a nested region is a part of the one around
    it.
    """
    if recording.here.is_nested:
        return lower()
    return recording.boundary.lowered(direction, module, lower)


def _unwrapped(compiler: Any) -> Any:
    return getattr(compiler, "fx_explorer_inner", compiler)


def add_aot_graph(
    recording: Recording, segment: Segment, module: torch.fx.GraphModule, direction: Direction
) -> None:
    """Record a graph as AOTAutograd passes it to a compiler, with links to the graph it was traced
    from.
    """
    if direction in segment.aot:  # recorded when it was partitioned
        return
    if direction == "backward":
        recorded = recording.add_graph(module, "backward", direction)
    else:
        results = () if segment.bucket else results_of(module)
        recorded = recording.add_graph(module, "forward", direction, results=results)
    segment.aot[direction] = recorded
    with recording.noting("the graph before Inductor's passes", "post_grad"):
        segment.traced_states[direction] = module, states_of(module)
    earlier = segment.joint_after_passes or segment.joint
    if earlier:
        recording.writer.add_all(copied_links(recorded, earlier))
    else:
        _add_origins(recording, recorded, segment)
    if direction != "backward":
        with recording.noting("aliases and changes of values", "forward"):
            add_value_facts(recording, segment, recorded)


def _add_origins(recording: Recording, recorded: RecordedGraph, segment: Segment) -> None:
    """Record the nodes from which AOTAutograd traced a graph, and the nodes that it left out."""
    with recording.noting("collectives and redistributions", "joint"):
        add_process_groups(recording, recorded.module)
        add_redistributions(recording, segment, recorded)
    recording.writer.add_all(traced_links(recorded, segment))
    recording.writer.add_all(left_out_rows(segment))
    with recording.noting("decompositions", "joint"):
        add_decompositions(recording, recorded)


def _add_region(recording: Recording, segment: Segment, module: torch.fx.GraphModule) -> None:
    """Add the graph of a region, which is only passed through: the compiled part belongs to the
    outer graph, in that graph's direction.
    """
    traced = traced_region(segment, module)
    if traced is not None:
        segment.aot[recording.here.direction] = traced


def recording_partition(
    recording: Recording, segment: Segment, partition: Callable[..., Any]
) -> Callable[..., Any]:
    """Return ``partition`` in a form that records the joint graph, the two graphs it is split into,
    and the values saved between them.
    """

    @functools.wraps(partition)
    def partition_and_record(joint: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        if recording.here.is_in_regions:
            return partition_region(recording, joint, lambda: partition(joint, *args, **kwargs))
        with recording.noting("the joint graph", "joint"):
            if segment.joint is None:
                segment.joint = recording.add_graph(joint, "joint")
                _add_origins(recording, segment.joint, segment)
        segment.cuts.clear()  # those of regions inside
        forward, backward = _partitioned(
            recording, joint, lambda: partition(joint, *args, **kwargs)
        )
        if segment.aot:  # shared with the variant that this one set out from
            return forward, backward
        with recording.noting("the forward and backward graphs", "forward"):
            add_aot_graph(recording, segment, forward, "forward")
            add_aot_graph(recording, segment, backward, "backward")
            add_saved_tensors(recording, segment)
        with recording.noting("why values are saved or recomputed", "forward"):
            add_partition_choices(recording, segment, partition)
        return forward, backward

    return partition_and_record


Parts = tuple[torch.fx.GraphModule, torch.fx.GraphModule]


def _partitioned(
    recording: Recording, joint: torch.fx.GraphModule, partition: Callable[[], Parts]
) -> Parts:
    """Return the forward and backward graphs, and stop at the gate before the joint graph is
    cut.
    """
    if recording.here.direction:
        return partition()

    def cut() -> Parts:
        recording.boundary.gate("joint", "", joint)
        return partition()

    return recording.boundary.pass_through(
        ("partition", ""), cut, lambda parts: (snapshot(parts[0]), snapshot(parts[1]))
    )


# Which result of Dynamo's graph each output of the forward graph is.


def results_of(module: torch.fx.GraphModule) -> tuple[int, ...]:
    """Return, for each output of a graph, its position among Dynamo's results, -1 for an output
    that is not one of them; () where torch has not described them.

    Inputs that were changed come before the results; bases of views and values saved for the
    backward come after them. AOTAutograd describes every output
    (torch/_functorch/_aot_autograd/descriptors.py).
    """
    output = next((node for node in reversed(module.graph.nodes) if node.op == "output"), None)
    described = output.meta.get("desc") if output is not None else None
    if not isinstance(described, list | tuple):
        return ()
    return tuple(map(_result, described))


def _result(described: Any) -> int:
    if type(described).__name__ != "PlainAOTOutput":
        return -1
    return int(described.idx)


# Nested compile regions (``torch.compiler.nested_compile_region``).

REGIONS_HAVE_PARTITIONERS = (2, 13)
"""First release in which a region may have a partitioner of its own."""


@contextlib.contextmanager
def nested_region_hooks(recording: Recording) -> Iterator[None]:
    """Record nested compile regions: each is partitioned on its own, before the graph that calls
    it, and compiled once however often it is called. Hooks: ``run_joint_graph_passes_on_hops`` and
    ``_get_partition_fn`` (torch/_functorch/_aot_autograd/graph_compile.py). The joint graph of a
    region is recorded when torch partitions it. Its owner is known later, when the graph around it
    is partitioned: that one calls torch's result for the region.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            patched(
                graph_compile,
                "run_joint_graph_passes_on_hops",
                functools.partial(_in_regions, recording),
            )
        )
        if hasattr(graph_compile, "_get_partition_fn"):
            make = functools.partial(_watching_partitioner, recording)
            stack.enter_context(patched(graph_compile, "_get_partition_fn", make))
        elif release() >= REGIONS_HAVE_PARTITIONERS:
            recording.unavailable(
                "regions with a partitioner of their own", "torch has no _get_partition_fn"
            )
        yield


def _in_regions(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def run_joint_graph_passes_on_hops(*args: Any, **kwargs: Any) -> Any:
        with recording.here.in_regions():
            return original(*args, **kwargs)

    return run_joint_graph_passes_on_hops


def _watching_partitioner(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def _get_partition_fn(*args: Any, **kwargs: Any) -> tuple[bool, Callable[..., Parts]]:
        is_own, partition = original(*args, **kwargs)
        if not is_own:
            return is_own, partition

        @functools.wraps(partition, updated=())
        def partition_and_record(joint: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Parts:
            return partition_region(recording, joint, lambda: partition(joint, *args, **kwargs))

        return is_own, partition_and_record

    return _get_partition_fn


def partition_region(
    recording: Recording, joint: torch.fx.GraphModule, partition: Callable[[], Parts]
) -> Parts:
    """Return the forward and backward of one region, and store its joint graph for the graph around
    it.
    """
    segment, recorded = recording.segment(), None
    if (
        segment.joint is None and not segment.aot
    ):  # else known from the variant that this one set out from
        with recording.noting("the joint graph of a region", "joint"):
            recorded = recording.add_graph(joint, "joint")
            _add_origins(recording, recorded, segment)
    forward, backward = partition()
    if recorded is not None:
        segment.regions += [(forward, recorded), (backward, recorded)]
    return forward, backward
