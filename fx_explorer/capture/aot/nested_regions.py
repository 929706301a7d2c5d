"""Nested compile regions (``torch.compiler.nested_compile_region``): each is partitioned on its
own, before the graph that calls it, and compiled once however often it is called.

Hooks: ``run_joint_graph_passes_on_hops`` and ``_get_partition_fn``
(torch/_functorch/_aot_autograd/graph_compile.py). The joint graph of a region is recorded when
torch partitions it; whose it is becomes known when the graph around it is partitioned, which by
then calls what torch made of the region.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._functorch._aot_autograd import graph_compile

from fx_explorer.capture.links.links import traced_links
from fx_explorer.capture.recording.state import Recording
from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.versions import release

REGIONS_HAVE_PARTITIONERS = (2, 13)
"""Since this release a region may have a partitioner of its own."""

Parts = tuple[torch.fx.GraphModule, torch.fx.GraphModule]


@contextlib.contextmanager
def nested_region_hooks(recording: Recording) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        stack.enter_context(
            patched(
                graph_compile,
                "run_joint_graph_passes_on_hops",
                functools.partial(_in_regions, recording),
            )
        )
        if hasattr(graph_compile, "_get_partition_fn"):
            make = functools.partial(_own_partitioner, recording)
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


def _own_partitioner(recording: Recording, original: Callable[..., Any]) -> Callable[..., Any]:
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
    """Return the forward and backward of one region, and keep its joint graph for the graph around
    it.
    """
    segment, recorded = recording.segment(), None
    if (
        segment.joint is None and not segment.aot
    ):  # else known from the variant that this one set out from
        with recording.noting("the joint graph of a region", "joint"):
            recorded = recording.add_graph(joint, "joint")
            recording.writer.add_all(traced_links(recorded, segment))
    forward, backward = partition()
    if recorded is not None:
        segment.regions += [(forward, recorded), (backward, recorded)]
    return forward, backward
