"""The joint graph after Inductor's passes over it, where they changed something.

Hook: ``_recursive_joint_graph_passes`` (torch/_inductor/compile_fx.py), which Inductor's partition
function calls right before it cuts the graph. For an inference graph it is called while the graph
is lowered, and what it does there is in the post-grad graph.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import compile_fx

from fx_explorer.capture.links.links import copied_links
from fx_explorer.capture.recording.segments import Segment
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.model import AFTER_PASSES

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
                made = original(module, *args, **kwargs)
            finally:
                running.discard(thread)
            if segment and isinstance(made, torch.fx.GraphModule):
                with recording.noting("the joint graph after Inductor's passes", "joint"):
                    _add_if_changed(recording, segment, made, before)
            return made

        return run_passes

    return patched(compile_fx, "_recursive_joint_graph_passes", make)


def _cut_segment(recording: Recording) -> Segment | None:
    """Return the segment whose joint graph is about to be cut; None where the passes run over a
    part of a graph, or over one that is lowered already.
    """
    here = recording.here
    if here.direction or here.is_in_regions or here.is_nested:
        return None
    segment = recording.segment()
    return None if segment.joint is None or segment.subgraph or segment.aot else segment


def _signature(module: torch.fx.GraphModule) -> Signature:
    return {node: (node.target, node.args, node.kwargs) for node in module.graph.nodes}


def _add_if_changed(
    recording: Recording, segment: Segment, module: torch.fx.GraphModule, before: Signature
) -> None:
    if _signature(module) == before:
        return
    segment.joint_after_passes = recording.add_graph(module, "joint", name=AFTER_PASSES)
    recording.writer.add_all(copied_links(segment.joint_after_passes, segment.joint))
