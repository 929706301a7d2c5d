"""This module hooks into Inductor's stages, from the passes over its graphs to its IR, its output
code and kernels.

Recorded are the graphs after the pre- and post-grad passes, the joint graph where the passes over
it changed something, and the IR before and after fusion. Hooks: ``_recursive_pre_grad_passes`` and
``_recursive_post_grad_passes`` (torch/_inductor/compile_fx.py), ``Scheduler.fuse_nodes``
(torch/_inductor/scheduler.py), and generated.py for generated code.

Hook for the joint graph: ``_recursive_joint_graph_passes`` (torch/_inductor/compile_fx.py), which
Inductor's partition function calls right before it cuts the graph. For an inference graph it is
called while the graph is lowered, and what it does there is in the post-grad graph.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fx_explorer.capture.aot.regional import as_traced
from fx_explorer.capture.aot.saved_tensors import settle_saved_tensors
from fx_explorer.capture.inductor.generated import LoweredKernels, kernel_recording
from fx_explorer.capture.inductor.ir_text import describe
from fx_explorer.capture.inductor.kernel_rows import add_lowered
from fx_explorer.capture.inductor.pass_changes import (
    StagePasses,
    add_passes,
    has_near_matches,
    keep_for_later,
    stage_passes,
)
from fx_explorer.capture.node_links import copied_links
from fx_explorer.capture.recording.compilation_state import Segment
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import V, compile_fx, inductor_scheduler
from fx_explorer.model import AFTER_PASSES, ArtifactKind, Gate, LineNode


@contextlib.contextmanager
def pass_hooks(recording: Recording) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            _pass_hook(recording, "pre_grad", functools.partial(_after_pre_grad, recording))
        )
        stack.enter_context(
            _pass_hook(recording, "post_grad", functools.partial(_after_post_grad, recording))
        )
        yield


@contextlib.contextmanager
def kernel_hooks(recording: Recording) -> Iterator[None]:
    # A GPU that is not there cannot be asked.
    asks = recording.request.workspaces and not recording.request.gpu
    with kernel_recording(
        functools.partial(_on_kernels, recording), notes_library_calls=asks
    ) as kernels:
        for view, reason in kernels.unavailable.items():
            recording.unavailable(view, reason)
        yield


def _pass_hook(
    recording: Recording, gate: Gate, after: Callable[[torch.fx.GraphModule, StagePasses], None]
) -> contextlib.AbstractContextManager[None]:
    """Call ``after`` with the graph and the passes that ran once the outermost call is done; the
    function calls itself for nested graphs.
    """
    depth = 0

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run_passes(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            def run() -> torch.fx.GraphModule:
                nonlocal depth
                with contextlib.ExitStack() as stack:
                    passes = None
                    if depth == 0:
                        passes = stack.enter_context(stage_passes(recording, gate, module))
                    depth += 1
                    try:
                        result = original(module, *args, **kwargs)
                    finally:
                        depth -= 1
                made = result if isinstance(result, torch.fx.GraphModule) else module
                if passes is not None:
                    after(made, passes)
                return made

            is_region = recording.here.is_nested
            if gate == "pre_grad" and recording.here.direction:
                is_region = True
            if depth or is_region:
                made = run()
            else:
                made = recording.boundary.passes(gate, recording.here.direction, module, run)
            # Post-grad passes change the graph they are given.
            return made if gate == "pre_grad" else None

        return run_passes

    return patched(compile_fx, f"_recursive_{gate}_passes", make)


def _after_pre_grad(
    recording: Recording, module: torch.fx.GraphModule, passes: StagePasses
) -> None:
    with recording.noting("the pre-grad graph", "pre_grad"):
        segment = recording.segment()
        if segment.subgraph:
            return
        segment.pre_grad = recording.add_graph(module, "pre_grad")
        recording.writer.add_all(copied_links(segment.pre_grad, segment.dynamo))
        add_passes(recording, passes, segment.pre_grad)


def _after_post_grad(
    recording: Recording, module: torch.fx.GraphModule, passes: StagePasses
) -> None:
    with recording.noting("the post-grad graph", "post_grad"):
        segment, direction = recording.segment(), recording.here.direction
        earlier = segment.aot.get(direction)
        parent = earlier.graph.id if earlier and segment.subgraph else 0
        recorded = recording.add_graph(
            module, "post_grad", direction, name=segment.subgraph, parent=parent
        )
        segment.post_grad[direction] = recorded
        recording.writer.add_all(as_traced(segment, copied_links(recorded, earlier)))
        add_passes(recording, passes, recorded)


def fusion_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record Inductor's IR before and after fusion, and wait at the gates there."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def fuse_nodes(self: Any, nodes: list[Any]) -> list[Any]:
            with recording.noting("IR before fusion", "schedule"):
                _add_ir(recording, "ir_pre_fusion", "IR before fusion", nodes)
            recording.boundary.gate("pre_fusion", recording.here.direction)
            fused: list[Any] = original(self, nodes)
            with recording.noting("IR after fusion", "schedule"):
                _add_ir(recording, "ir_post_fusion", "IR after fusion", fused)
            recording.boundary.gate("post_fusion", recording.here.direction)
            return fused

        return fuse_nodes

    return patched(inductor_scheduler.Scheduler, "fuse_nodes", make)


def _add_ir(recording: Recording, kind: ArtifactKind, title: str, nodes: list[Any]) -> None:
    text, line_nodes = describe(nodes)
    direction, segment = recording.here.direction, recording.segment()
    whole = segment.post_grad.get(direction)
    graph = whole and (whole.find(V.graph.module) or whole)
    if graph:
        part = graph.graph.label or graph.graph.name
    else:
        part = segment.subgraph
    artifact = recording.add_artifact(
        kind, "schedule", text, title=f"{title} {part}".strip(), language="ir", direction=direction
    )
    if graph is not None:
        ids = graph.by_name
        lines = (
            (artifact, line, ids[name], "origins", 0) for line, name in line_nodes if name in ids
        )
        recording.writer.add_values(LineNode, lines)


def _on_kernels(recording: Recording, lowered: LoweredKernels) -> None:
    with recording.noting("generated code", "output_code"):
        add_lowered(recording, lowered)
    segment = recording.segment()
    is_forward = not (
        lowered.is_backward or lowered.is_inference or lowered.subgraph or segment.subgraph
    )
    if is_forward and lowered.outputs and segment.saved:
        with recording.noting("what the lowered forward saves", "output_code"):
            settle_saved_tensors(recording, segment, lowered.outputs)
    if not lowered.subgraph and not lowered.error:
        recording.boundary.gate("output_code", recording.here.direction)


# The joint graph after the passes over it.


Signature = dict[torch.fx.Node, tuple[object, ...]]


def joint_pass_hook(recording: Recording) -> contextlib.AbstractContextManager[None]:
    """Record the joint graph once more when the passes over it are done."""
    running: set[int] = set()
    """Threads in which the passes run: they may start again over a part of the graph."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def run_passes(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
            thread = threading.get_ident()
            if thread in running:
                return original(module, *args, **kwargs)
            segment, before = None, {}
            with recording.noting("the joint graph before Inductor's passes", "joint"):
                segment = _cut_segment(recording)
                before = _signature(module) if segment else {}
            running.add(thread)
            try:
                with stage_passes(recording, "joint", module) as passes:
                    made = original(module, *args, **kwargs)
            finally:
                running.discard(thread)
            if segment and isinstance(made, torch.fx.GraphModule):
                with recording.noting("the joint graph after Inductor's passes", "joint"):
                    _add_if_changed(recording, segment, made, before, passes)
            elif isinstance(made, torch.fx.GraphModule):
                # Of an inference graph the one after the post-grad passes is recorded.
                with recording.noting("passes over an inference graph", "joint"):
                    keep_for_later(recording, made, passes)
            return made

        return run_passes

    return patched(compile_fx, "_recursive_joint_graph_passes", make)


def _cut_segment(recording: Recording) -> Segment | None:
    """Return the segment whose joint graph is about to be partitioned; None where the passes run
    over a part of a graph, or over a graph that has been lowered.
    """
    here = recording.here
    if here.direction or here.is_in_regions or here.is_nested:
        return None
    segment = recording.segment()
    if segment.joint is None or segment.subgraph or segment.aot:
        return None
    return segment


def _signature(module: torch.fx.GraphModule) -> Signature:
    return {node: (node.target, node.args, node.kwargs) for node in module.graph.nodes}


def _add_if_changed(
    recording: Recording,
    segment: Segment,
    module: torch.fx.GraphModule,
    before: Signature,
    passes: StagePasses,
) -> None:
    if _signature(module) == before:
        if segment.joint is not None and has_near_matches(passes):
            add_passes(recording, passes, segment.joint)
        return
    segment.joint_after_passes = recording.add_graph(module, "joint", name=AFTER_PASSES)
    recording.writer.add_all(copied_links(segment.joint_after_passes, segment.joint))
    add_passes(recording, passes, segment.joint_after_passes)
