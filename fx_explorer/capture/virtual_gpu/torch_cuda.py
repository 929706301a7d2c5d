"""This module makes ``torch.cuda`` (torch/cuda/__init__.py) describe the virtual GPU to torch and
the program. Streams, events, CUDA graphs and profiler marks can be made, but do nothing, because
nothing runs. A build of torch without CUDA has only classes that raise when they are made.
"""

from __future__ import annotations

import contextlib
import functools
import math
import types
from collections.abc import Callable
from typing import Any

import torch

from fx_explorer.capture.torch_compat.private_names import TracingContext
from fx_explorer.capture.torch_compat.versions import require
from fx_explorer.capture.virtual_gpu.device_queries import Emulation, asked_by_program
from fx_explorer.capture.virtual_gpu.fake_cuda_tensors import users_line
from fx_explorer.model import Gpu

CUDA_VERSION, HIP_VERSION = "13.0", "6.4"
"""CUDA and HIP versions for a build of torch without one, because Inductor asks for them."""


def answer(emulation: Emulation) -> None:
    """Make the functions of ``torch.cuda`` answer as on a machine with this GPU. Whether a GPU
    exists is answered differently for torch and for the program.
    """
    gpu = emulation.gpu
    properties = device_properties(gpu)
    answers = {
        "is_initialized": True,
        "is_current_stream_capturing": False,
        "current_device": 0,
        "synchronize": None,
        "set_device": None,
        "_lazy_init": None,
        "_exchange_device": 0,
        "_maybe_exchange_device": 0,
        "memory_allocated": 0,
        "max_memory_allocated": 0,
        "memory_reserved": 0,
        "max_memory_reserved": 0,
        "memory_stats": {},
        "memory_summary": "",
        "empty_cache": None,
        "ipc_collect": None,
        "reset_peak_memory_stats": None,
        "reset_max_memory_allocated": None,
        "set_per_process_memory_fraction": None,
        "manual_seed": None,
        "manual_seed_all": None,
        "seed": None,
        "seed_all": None,
        "initial_seed": 0,
        "mem_get_info": (gpu.memory_bytes, gpu.memory_bytes),
        "get_rng_state": torch.zeros(16, dtype=torch.uint8),
        "set_rng_state": None,
        "get_rng_state_all": [torch.zeros(16, dtype=torch.uint8)],
        "set_rng_state_all": None,
        "get_device_properties": properties,
        "get_device_capability": gpu.capability,
        "get_device_name": gpu.device_name,
        "get_arch_list": [gpu.arch],
        "memory_snapshot": [],
        "is_bf16_supported": gpu.capability >= (8, 0),
        "is_tf32_supported": gpu.vendor == "nvidia" and gpu.capability >= (8, 0),
    }
    for name, value in answers.items():
        setattr(torch.cuda, name, _always(require("torch.cuda", name), value))
    for name in ("_record_memory_history", "_dump_snapshot"):
        setattr(torch.cuda.memory, name, _always(require("torch.cuda.memory", name), None))
    torch.Generator = _Generator
    _set_by_who_asks(emulation, "is_available", for_torch=True, for_program=False)
    _set_by_who_asks(emulation, "device_count", for_torch=1, for_program=0)
    _set_versions(gpu)


def keep_dynamo_rules() -> None:
    """Make Dynamo treat our functions like torch's own in code that it compiles."""
    from fx_explorer.capture.recording.noting import traced_as

    for function in list(vars(torch.cuda).values()):
        if not isinstance(function, types.FunctionType):
            continue
        # Those that stand for one of torch's have the attribute, of functools.wraps.
        if function.__code__.co_filename == __file__ and hasattr(function, "__wrapped__"):
            traced_as(function.__wrapped__, function)


# In newer releases it is a metaclass of its own.
class _OfEither(type(torch._C.Generator)):  # type: ignore[misc]
    """A metaclass that makes torch's own generators instances of our class too."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, torch._C.Generator)


class _Generator(torch._C.Generator, metaclass=_OfEither):
    """A ``torch.Generator``, which is on the CPU also for ``cuda``: random numbers drawn there
    belong to tensors without content, and are never read.
    """

    def __new__(cls, device: torch.device | str | int = "cpu") -> Any:
        if isinstance(device, int):
            asked = torch.device("cuda", device)
        else:
            asked = torch.device(device)
        if asked.type == "cuda":
            return super().__new__(cls, "cpu")
        return super().__new__(cls, asked)

    def __init__(self, device: torch.device | str | int = "cpu") -> None: ...


def device_properties(gpu: Gpu) -> Any:
    """Return the result of ``torch.cuda.get_device_properties()`` for this GPU, with clocks in
    kHz.
    """
    major, minor = gpu.capability
    architecture = gpu.arch if gpu.vendor == "amd" else ""
    return types.SimpleNamespace(
        name=gpu.device_name,
        major=major,
        minor=minor,
        multi_processor_count=gpu.multiprocessors,
        total_memory=gpu.memory_bytes,
        shared_memory_per_block=gpu.shared_per_block_default,
        shared_memory_per_block_optin=gpu.shared_per_block,
        shared_memory_per_multiprocessor=gpu.shared_per_multiprocessor,
        L2_cache_size=gpu.l2_bytes,
        warp_size=gpu.warp_size,
        gcnArchName=architecture,
        regs_per_multiprocessor=gpu.registers_per_multiprocessor,
        max_threads_per_multi_processor=gpu.threads_per_multiprocessor,
        max_threads_per_block=gpu.threads_per_block,
        clock_rate=gpu.clock_hz // 1000,
        memory_clock_rate=gpu.memory_clock_hz // 1000,
        memory_bus_width=gpu.memory_bus_bits,
        is_integrated=0,
        is_multi_gpu_board=0,
    )


def _always(original: Callable[..., Any], value: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        return value

    return function


def _set_by_who_asks(
    emulation: Emulation, name: str, *, for_torch: object, for_program: object
) -> None:
    """Make a function of ``torch.cuda`` answer the program, which runs on the CPU, as without a
    GPU, and torch as with one.
    """
    original = require("torch.cuda", name)

    @functools.wraps(original)
    def function(*args: Any, **kwargs: Any) -> Any:
        if asked_by_program(emulation, f"torch.cuda.{original.__name__}()"):
            return for_program
        return for_torch

    setattr(torch.cuda, name, function)


def _set_versions(gpu: Gpu) -> None:
    if gpu.vendor == "amd":
        torch.version.hip, torch.version.cuda = torch.version.hip or HIP_VERSION, None
    else:
        torch.version.cuda, torch.version.hip = torch.version.cuda or CUDA_VERSION, None
    # The first is named at the beginning of generated code, which calls it only when it runs. The
    # last is about CUDA graphs.
    answers = {
        "_cuda_getCurrentRawStream": 0,
        "_cuda_cudaCachingAllocator_is_enabled": True,
        "_host_emptyCache": None,
    }
    for name, value in answers.items():
        if not hasattr(torch._C, name):
            setattr(torch._C, name, _always(torch.cuda.current_device, value))
    if not hasattr(torch._C, "_scatter"):  # DataParallel asks for it, and has one device
        torch._C._scatter = lambda tensor, *_: (tensor.cuda(),)


# Streams, events, CUDA graphs and profiler marks.


_DEVICE = torch.device("cuda", 0)


def add_streams(emulation: Emulation) -> None:
    """Add the classes to torch. A program that makes one without checking for a GPU needs them."""

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
    """Record that the program uses the GPU. Objects that torch makes during compilation do not
    count.
    """
    if TracingContext.try_get() is None:
        emulation.become_fake(f"the program uses CUDA {what}{users_line()}")


class _Event:
    """Replaces torch.cuda.Event."""

    def record(self, stream: object = None) -> None: ...

    def wait(self, stream: object = None) -> None: ...

    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: object) -> float:
        """Return NaN: the time is unknown, and a zero would end a program that divides by it."""
        return math.nan


class _CudaGraph:
    """Replaces torch.cuda.CUDAGraph. The block to be recorded runs as usual, and a replay does
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
    """Replaces torch.cuda.Stream. Every stream is the default one."""

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
