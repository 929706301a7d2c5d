"""A program may make streams, events, CUDA graphs and profiler marks: they do nothing, because
nothing runs.

A build of torch without CUDA has only classes that raise when they are made.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import torch
from torch._guards import TracingContext

from fx_explorer.capture.virtual_gpu.device_queries import Emulation
from fx_explorer.capture.virtual_gpu.fake_cuda_tensors import users_line

_DEVICE = torch.device("cuda", 0)


def add_streams(emulation: Emulation) -> None:
    """Add the classes to torch. A program that makes one without asking whether there is a GPU
    needs them.
    """

    class Event(_Event):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            _notice(emulation, "events")

    class Stream(_Stream):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            _notice(emulation, "streams")

    default = _Stream()
    made: dict[str, Any] = {
        "Event": Event,
        "Stream": Stream,
        "current_stream": lambda device=None: default,
        "default_stream": lambda device=None: default,
        "set_stream": lambda stream: None,
        "stream": lambda stream: contextlib.nullcontext(stream),
    }
    for name, value in made.items():
        setattr(torch.cuda, name, value)
    torch.cuda.CUDAGraph = torch.cuda.graphs.CUDAGraph = _CudaGraph
    torch.cuda.graph_pool_handle = torch.cuda.graphs.graph_pool_handle = lambda: (0, 0)
    torch.accelerator.synchronize = lambda device=None: None
    torch.accelerator.current_stream = lambda device=None: default
    torch.Tensor.record_stream = lambda tensor, stream: None
    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        setattr(torch.cuda.nvtx, name, lambda *args, **kwargs: 0)


def _notice(emulation: Emulation, what: str) -> None:
    """Note that the program uses the GPU. What torch makes while it compiles does not count."""
    if TracingContext.try_get() is None:
        emulation.become_fake(f"the program uses CUDA {what}{users_line()}")


class _Event:
    """Stands in for torch.cuda.Event."""

    def record(self, stream: object = None) -> None: ...

    def wait(self, stream: object = None) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: object) -> float:
        """Return NaN: the time is unknown, and a zero would end a program that divides by it."""
        return math.nan


class _CudaGraph:
    """Stands in for torch.cuda.CUDAGraph. What would be recorded runs as usual, and a replay does
    nothing.
    """

    def __init__(self, keep_graph: bool = False) -> None: ...

    def capture_begin(self, *args: object, **kwargs: object) -> None: ...

    def capture_end(self) -> None: ...

    def instantiate(self) -> None: ...

    def replay(self) -> None: ...

    def reset(self) -> None: ...

    def enable_debug_mode(self) -> None: ...

    def debug_dump(self, debug_path: str) -> None: ...

    def pool(self) -> tuple[int, int]:
        return (0, 0)


class _Stream:
    """Stands in for torch.cuda.Stream. Every stream is the default one."""

    device = _DEVICE
    device_index = 0
    stream_id = 0
    cuda_stream = 0

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *error: object) -> None: ...

    def wait_event(self, event: object) -> None: ...

    def wait_stream(self, stream: object) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def is_capturing(self) -> bool:
        return False

    def record_event(self, event: Any = None) -> Any:
        return event or torch.cuda.Event()
