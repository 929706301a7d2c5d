"""This driver for Triton (triton/backends/driver.py) only answers which GPU the code is for. It
does not need torch.
"""

from __future__ import annotations

import types
from typing import Any

from fx_explorer.model import Gpu


def target_of(gpu: Gpu) -> Any:
    """Return Triton's own name for the GPU: ``GPUTarget("cuda", 90, 32)``."""
    from triton.backends.compiler import GPUTarget

    if gpu.vendor == "amd":
        return GPUTarget("hip", gpu.arch, gpu.warp_size)
    major, minor = gpu.capability
    return GPUTarget("cuda", 10 * major + minor, gpu.warp_size)


def use_driver(gpu: Gpu) -> None:
    """Have Triton compile for ``gpu`` from now on."""
    import triton

    triton.runtime.driver.set_active(virtual_driver(gpu))


def virtual_driver(gpu: Gpu) -> Any:
    """Return a driver of Triton that names this GPU as its target and asks no device."""
    import triton

    vendor = "amd" if gpu.vendor == "amd" else "nvidia"
    base = triton.backends.backends[vendor].driver
    target = target_of(gpu)

    class VirtualDriver(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            self.utils = types.SimpleNamespace(
                get_device_properties=lambda device: device_properties(gpu)
            )

        @classmethod
        def is_active(cls) -> bool:
            return True

        def get_current_target(self) -> Any:
            return target

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, device: int = 0) -> int:
            return 0

        def set_current_device(self, device: int) -> None:
            pass

        def get_device_capability(self, device: int = 0) -> tuple[int, ...]:
            return gpu.capability

        def get_active_torch_device(self) -> Any:
            import torch

            return torch.device("cuda", 0)

    return VirtualDriver()


def device_properties(gpu: Gpu) -> dict[str, int]:
    """Return the properties that ``load_binary`` and ``triton.testing`` ask for
    (triton/backends/nvidia/driver.c, ``getDeviceProperties``).
    """
    return {
        "max_shared_mem": gpu.shared_per_block,
        "multiprocessor_count": gpu.multiprocessors,
        "max_num_regs": gpu.registers_per_multiprocessor,
        "warpSize": gpu.warp_size,
        "sm_clock_rate": gpu.clock_hz // 1000,
        "mem_clock_rate": gpu.memory_clock_hz // 1000,
        "mem_bus_width": gpu.memory_bus_bits,
    }
