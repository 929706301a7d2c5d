"""What Inductor itself estimates of a kernel: bytes moved and operations done. Asked for while it
generates code for a GPU.

Bytes: ``estimate_kernel_num_bytes`` (torch/_inductor/codegen/simd.py) and
``get_read_write_buffers_sizes`` (scheduler.py). Operations: ``count_flops_fx`` (fx_utils.py), which
knows matrix multiplications, convolutions and attention.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

NOT_KNOWN = -1


def is_for_gpu(lowering: Any) -> bool:
    """Return whether the code is for a GPU. On a CPU nobody asks for estimates, and counting takes
    a millisecond per matrix multiplication.
    """
    return bool(set(getattr(lowering, "device_types", ())) - {"cpu", "meta"})


def bytes_of_kernel(kernel: Any) -> int:
    """Return Inductor's estimate for a kernel that code was just generated for; -1 for a kind of
    kernel that has none.
    """
    return int(kernel.estimate_kernel_num_bytes()) if hasattr(kernel, "estimate_kernel_num_bytes") else NOT_KNOWN


def bytes_of_call(scheduler_node: Any) -> int:
    return int(scheduler_node.get_read_write_buffers_sizes())


def bytes_of_calls(scheduler_nodes: Iterable[Any]) -> int:
    return sum(map(bytes_of_call, scheduler_nodes))


def flops_of(nodes: Iterable[torch.fx.Node]) -> int:
    return sum(_flops_of(node) for node in nodes if node.op == "call_function")


def _flops_of(node: torch.fx.Node) -> int:
    """Return the operations of one call. Calls of the same operation on the same sizes are counted
    once: torch runs each with fake tensors for it, and the layers of a model are alike.
    """
    from torch._inductor.fx_utils import count_flops_fx

    key = _same_operations(node)
    if key is None:
        return _hint(count_flops_fx(node))
    if key not in _counted:
        _counted[key] = _hint(count_flops_fx(node))
    return _counted[key]


_counted: dict[tuple[object, ...], int] = {}
"""Operation, sizes and constants → operations done."""


def _same_operations(node: torch.fx.Node) -> tuple[object, ...] | None:
    """Return what two calls that do as many operations have alike; None where a size varies."""
    inputs = node.all_input_nodes
    values = [one.meta.get("val") for one in inputs]
    sizes = [(tuple(value.shape), value.dtype) for value in values if isinstance(value, torch.Tensor)]
    if len(sizes) < len(values) or not all(type(size) is int for shape, _ in sizes for size in shape):
        return None
    return node.target, tuple(sizes), repr(torch.fx.map_arg((node.args, node.kwargs), inputs.index))


def _hint(number: int | torch.SymInt | None) -> int:
    """Return a size as a number. One that varies counts as what it was: ``int()`` of it would fix
    it, and change what is generated.
    """
    return int((number.node.hint if isinstance(number, torch.SymInt) else number) or 0)
