"""This script counts what the stages of a training step pass to one another, where torch calls
them, without a recorder: the second source for what a session says of each stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import torch
from torch._inductor import compile_fx
from torch._inductor.async_compile import AsyncCompile
from torch._inductor.scheduler import Scheduler

from tests.capture.lowering import fresh_compiler

Nodes = list[torch.fx.Node]


@dataclass
class Bare:
    """Counts of operations."""

    dynamo: int = 0
    joint: int = 0
    joint_backward: int = 0
    joint_gone: int = 0
    """Nodes of the joint graph that were there before Inductor's passes, and are not after them."""
    joint_new: int = 0
    joint_unchanged: int = 0
    """Number of nodes with the same name, function and arguments before and after; some passes
    erase a node and make it again.
    """
    cut: int = 0
    """Number of nodes in the graph that was cut."""
    forward: int = 0
    backward: int = 0
    in_both: int = 0
    in_none: int = 0
    of_neither: int = 0
    """Number of nodes in the forward or the backward that are not in the graph that was cut."""
    post_grad: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(before, after, gone, new), forward first."""
    fusion: list[tuple[int, int]] = field(default_factory=list)
    """Scheduler nodes before and after."""
    kernels: int = 0
    """Number of generated kernels of both directions that were given to the C++ compiler."""


def operations(module: torch.fx.GraphModule) -> Nodes:
    return [node for node in module.graph.nodes if node.op.startswith("call_")]


def called(node: torch.fx.Node) -> tuple[str, ...]:
    return node.name, str(node.target), str(node.args), str(node.kwargs)


def trained_bare(model: torch.nn.Module, inputs: Mapping[str, Any] | tuple[Any, ...]) -> Bare:
    """Compile and run one training step. No kernel is built, so their results are uninitialised."""
    bare, depth = Bare(), [0]
    joint_passes, cut = (
        compile_fx._recursive_joint_graph_passes,
        compile_fx.min_cut_rematerialization_partition,
    )
    post_grad_passes, fuse = compile_fx._recursive_post_grad_passes, Scheduler.fuse_nodes

    def backend(module: torch.fx.GraphModule, example: Any) -> Any:
        bare.dynamo = len(operations(module))
        return compile_fx.compile_fx(module, example)

    def passed(
        run: Callable[[], torch.fx.GraphModule], module: torch.fx.GraphModule
    ) -> tuple[Any, Nodes, Nodes]:
        before = operations(module)
        made = run()
        return made, before, operations(made if isinstance(made, torch.fx.GraphModule) else module)

    def over_joint(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        if bare.joint:  # it calls itself for nested graphs
            return joint_passes(module, *args, **kwargs)
        bare.joint_backward = sum(
            n.meta.get("partitioner_tag") == "is_backward" for n in operations(module)
        )
        texts = {called(node) for node in operations(module)}
        made, before, after = passed(lambda: joint_passes(module, *args, **kwargs), module)
        bare.joint, bare.joint_unchanged = len(before), sum(called(node) in texts for node in after)
        bare.joint_gone, bare.joint_new = (
            len(set(before) - set(after)),
            len(set(after) - set(before)),
        )
        return made

    def partition(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        names = {node.name for node in operations(module)}
        parts = cut(module, *args, **kwargs)
        forward, backward = ({node.name for node in operations(part)} for part in parts)
        bare.cut, bare.forward, bare.backward = len(names), len(forward), len(backward)
        bare.in_both, bare.in_none = (
            len(names & forward & backward),
            len(names - forward - backward),
        )
        bare.of_neither = len(forward - names) + len(backward - names)
        return parts

    def over_lowered(module: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        depth[0] += 1
        made, before, after = passed(lambda: post_grad_passes(module, *args, **kwargs), module)
        depth[0] -= 1
        if not depth[0]:
            gone, new = set(before) - set(after), set(after) - set(before)
            bare.post_grad.append((len(before), len(after), len(gone), len(new)))
        return made

    def fused(self: Scheduler, nodes: list[Any]) -> list[Any]:
        made = fuse(self, nodes)
        bare.fusion.append((len(nodes), len(made)))
        return made

    def unbuilt(*_: Any, **__: Any) -> Callable[..., None]:
        bare.kernels += 1
        return lambda *_: None

    with (
        fresh_compiler(),
        patch.object(compile_fx, "_recursive_joint_graph_passes", over_joint),
        patch.object(compile_fx, "min_cut_rematerialization_partition", partition),
        patch.object(compile_fx, "_recursive_post_grad_passes", over_lowered),
        patch.object(Scheduler, "fuse_nodes", fused),
        patch.object(AsyncCompile, "cpp_pybinding", unbuilt),
    ):
        compiled = torch.compile(model, backend=backend)
        out = compiled(*inputs) if isinstance(inputs, tuple) else compiled(**inputs)
        (out if isinstance(out, torch.Tensor) else out.logits).sum().backward()
    return bare
