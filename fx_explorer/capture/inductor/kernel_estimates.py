"""What Inductor itself estimates of a kernel: bytes moved and operations done. Asked for while it
generates code for a GPU.

Bytes: ``estimate_kernel_num_bytes`` (torch/_inductor/codegen/simd.py) and
``get_read_write_buffers_sizes`` (scheduler.py). Operations are counted in capture/torch_flops.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

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
    if hasattr(kernel, "estimate_kernel_num_bytes"):
        return int(kernel.estimate_kernel_num_bytes())
    return NOT_KNOWN


def bytes_of_call(scheduler_node: Any) -> int:
    return int(scheduler_node.get_read_write_buffers_sizes())


def bytes_of_calls(scheduler_nodes: Iterable[Any]) -> int:
    return sum(map(bytes_of_call, scheduler_nodes))
