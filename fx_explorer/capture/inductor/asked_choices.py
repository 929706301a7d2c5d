"""This module makes Inductor take another choice than its own while one variant is lowered: another
order of a value in memory, another candidate for an operation.

A value gets its order where its node has been lowered (``run_node``, torch/_inductor/graph.py), as
an operation that reads it would ask for it; whoever needs the order of before gets a copy, so that
results stay right. The order of an input is what its buffer is made with (``placeholder``).

A candidate is taken by leaving the selector no other one (``preprocessing_fns`` of
``AlgorithmSelectorCache``, torch/_inductor/select_algorithm.py).
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from fx_explorer.capture.torch_compat.patching import patched
from fx_explorer.capture.torch_compat.private_names import V, inductor_graph, inductor_ir
from fx_explorer.capture.torch_compat.versions import watching_selector
from fx_explorer.model import CandidateChange, Direction, LayoutChange


@contextlib.contextmanager
def asked_layouts(changes: Sequence[LayoutChange], direction: Direction) -> Iterator[None]:
    """Lay values out as these changes ask, inside the block. Without a change for this direction
    nothing is replaced.
    """
    orders = {
        change.node: change.order for change in changes if change.direction in ("", direction)
    }
    if not orders:
        yield
        return
    lowering = inductor_graph.GraphLowering
    with (
        patched(lowering, "placeholder", functools.partial(_given_in_order, orders)),
        patched(lowering, "run_node", functools.partial(_laid_out, orders)),
    ):
        yield


def _given_in_order(
    orders: dict[str, tuple[int, ...]], original: Callable[..., Any]
) -> Callable[..., Any]:
    """Make the buffer of an input with the strides that were asked for."""

    @functools.wraps(original)
    def placeholder(lowering: Any, target: str, *args: Any, **kwargs: Any) -> Any:
        value = original(lowering, target, *args, **kwargs)
        order = orders.get(getattr(lowering.current_node, "name", ""))
        if order is not None and isinstance(value, inductor_ir.TensorBox):
            layout = value.data.data.layout
            if len(order) == len(layout.size):
                fill_order = sorted(range(len(order)), key=lambda dim: order[dim])
                layout.stride = inductor_ir.FlexibleLayout.fill_ordered(layout.size, fill_order)
        return value

    return placeholder


def _laid_out(
    orders: dict[str, tuple[int, ...]], original: Callable[..., Any]
) -> Callable[..., Any]:
    """Lay the value of a node out as was asked for."""

    @functools.wraps(original)
    def run_node(lowering: Any, node: torch.fx.Node) -> Any:
        value = original(lowering, node)
        order = orders.get(node.name) if node.op != "placeholder" else None
        if order is None or not isinstance(value, inductor_ir.TensorBox):
            return value
        if len(order) != len(value.get_size()):
            return value
        value.realize()
        with V.set_current_node(node), lowering.set_current_node(node):
            return inductor_ir.ExternKernel.require_stride_order(value, list(order))

    return run_node


@contextlib.contextmanager
def asked_candidates(changes: Sequence[CandidateChange], direction: Direction) -> Iterator[None]:
    """Let Inductor take the candidates that these changes name, inside the block."""
    wanted = {
        change.node: change.candidate for change in changes if change.direction in ("", direction)
    }
    if not wanted:
        yield
        return

    def only_wanted(candidates: list[Any]) -> list[Any]:
        candidate = wanted.get(getattr(V.current_node, "name", ""))
        chosen = [each for each in candidates if name_of_candidate(each) == candidate]
        return chosen[:1] or candidates

    # While inspecting, and on a virtual GPU, all but one are left out.
    with watching_selector(candidates=only_wanted, before_others=True):
        yield


_NUMBER = re.compile(r"_\d+\Z")


def name_of_candidate(candidate: Any) -> str:
    """Return a candidate's name as every compile has it: ``extern_kernels.mm``, ``triton_mm
    BLOCK_K=32, BLOCK_M=64, num_warps=4``. Inductor numbers templates through the process.
    """
    name = _NUMBER.sub("", str(candidate.name))
    description = str(getattr(candidate, "description", "") or "")
    return f"{name} {description}".strip()
