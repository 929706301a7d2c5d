"""Which FX nodes Inductor's scheduler nodes and IR nodes stand for, and what they are called
(torch/_inductor/ir.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch


def origins(scheduler_nodes: Iterable[Any]) -> set[torch.fx.Node]:
    """Return the FX nodes that a kernel generated for ``scheduler_nodes`` computes. Markers among
    them (DisableReduction) have none.
    """
    found: set[torch.fx.Node] = set()
    for outer in scheduler_nodes:
        for one in outer.get_nodes() if hasattr(outer, "get_nodes") else ():
            if one.node is not None:
                found.update(
                    one.node.get_origins() if hasattr(one.node, "get_origins") else one.node.origins
                )
    return found


def buffers(scheduler_nodes: Iterable[Any]) -> set[str]:
    """Return the names of the buffers that a kernel generated for ``scheduler_nodes`` writes."""
    return {
        name
        for node in scheduler_nodes
        if hasattr(node, "get_buffer_names")
        for name in node.get_buffer_names()
    }


def extern_origins(ir_node: Any) -> set[torch.fx.Node]:
    """Return the FX nodes of an IR node. ``origin_node`` says exactly which call it is; ``origins``
    also name what was fused into its inputs.
    """
    origin = ir_node.get_origin_node()
    return {origin} if origin is not None else set(ir_node.origins)


def runs_of(ir_node: Any) -> tuple[str, ...]:
    """Return the names of the graphs that a conditional, a loop or a nested compile region runs;
    empty for a library call.
    """
    return tuple(
        value.name for value in vars(ir_node).values() if type(value).__name__ == "Subgraph"
    )


_CONTROL = {
    "Conditional": "torch.cond",
    "WhileLoop": "torch.while_loop",
    "InvokeSubgraph": "nested_compile_region",
}
"""IR nodes (torch/_inductor/ir.py) that run other graphs, by what the user calls them."""


def extern_name(ir_node: Any) -> str:
    if type(ir_node).__name__ in _CONTROL:
        return _CONTROL[type(ir_node).__name__]
    name = getattr(ir_node, "python_kernel_name", None)
    if name:
        return str(name)
    origin = ir_node.get_origin_node()
    overload = getattr(ir_node, "op_overload", None) or (
        origin.target if origin is not None else None
    )
    return str(overload) if overload is not None else type(ir_node).__name__
