"""Nodes that no kernel computes, and why."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from fx_explorer.capture.inductor.lines.code_marks import CallInProgress


def without_kernel(
    operations: Iterable[Any], positions: dict[torch.fx.Node, int], calls: Sequence[CallInProgress]
) -> dict[str, str]:
    """Return call nodes that no kernel computes → why."""
    computed: set[torch.fx.Node] = set()
    for call in calls:
        computed |= call.nodes
    scheduled = {node for operation in operations for node in operation.origins}
    return {
        node.name: _why_not(node, node in scheduled)
        for node in positions
        if node.op == "call_function" and node not in computed
    }


def _why_not(node: torch.fx.Node, is_scheduled: bool) -> str:
    if node.target is operator.getitem:
        return "takes one of several results"
    if getattr(node.target, "is_view", False):
        return "a view: it moves no data"
    if (
        not isinstance(node.meta.get("val"), (torch.Tensor, tuple, list))
        and node.meta.get("val") is not None
    ):
        return "computed while sizes are"
    if not node.users:
        return "nothing uses it"
    if str(node.target).startswith(("aten.empty", "aten.new_empty")):
        return "allocates memory and computes nothing"
    if is_scheduled:
        return "part of an operation that needs no kernel"
    return "Inductor found nothing to compute"
