"""The GPU that a session was recorded on: one of those described here, or what torch read off the device.

``torch.cuda.get_device_properties()`` tells sizes, counts and clocks. What it does not tell are limits of the compute
capability (below), and peak FLOP/s, which nobody reads off a device.
"""

from __future__ import annotations

from collections.abc import Mapping

from fx_explorer.gpus.reading import gpu_of_device
from fx_explorer.model import Gpu

OFF_THE_DEVICE = "read off the device: torch.cuda.get_device_properties()"
CLOCK_TIMES_BUS = "computed: memory clock x 2 x bus width, both read off the device"
NOT_TOLD = "not known: the driver does not tell"
GUIDE = "CUDA C++ Programming Guide, Compute Capabilities, technical specifications"
OCCUPANCY = "cuda_occupancy.h of the CUDA toolkit"

BLOCKS_OF_CAPABILITY = {
    (7, 0): 32,
    (7, 5): 16,
    (8, 0): 32,
    (8, 6): 16,
    (8, 7): 16,
    (8, 9): 24,
    (9, 0): 32,
    (10, 0): 32,
    (10, 3): 32,
    (12, 0): 24,
    (12, 1): 24,
}
"""The most blocks on a multiprocessor: the one limit that torch's properties leave out (CUDA C++ Programming Guide)."""

READ_OFF = {
    "multiprocessors": "multi_processor_count",
    "warp_size": "warp_size",
    "registers_per_multiprocessor": "regs_per_multiprocessor",
    "shared_per_block": "shared_memory_per_block_optin",
    "shared_per_block_default": "shared_memory_per_block",
    "shared_per_multiprocessor": "shared_memory_per_multiprocessor",
    "threads_per_multiprocessor": "max_threads_per_multi_processor",
    "threads_per_block": "max_threads_per_block",
    "l2_bytes": "L2_cache_size",
    "memory_bytes": "total_memory",
}
"""Field of a Gpu → property of the device."""


def gpu_like(device_name: str, properties: Mapping[str, object]) -> Gpu | None:
    """``properties``: what was recorded of the device, empty in sessions that have none of it.

    None when nothing is known of it: no GPU, one of AMD's that is not described, a compute capability that is not listed above.
    """
    described = gpu_of_device(device_name)
    if described and properties.get("multi_processor_count", described.multiprocessors) == described.multiprocessors:
        return described
    return gpu_of_properties(device_name, properties)


def gpu_of_properties(device_name: str, properties: Mapping[str, object]) -> Gpu | None:
    """NVIDIA's only. A number of 0 is not known, as its source says: bandwidth, where the driver tells no clock or bus."""
    capability = (_number(properties, "major"), _number(properties, "minor"))
    if capability not in BLOCKS_OF_CAPABILITY or "gfx" in str(properties.get("gcnArchName", "")):
        return None
    numbers = {field: _number(properties, name) for field, name in READ_OFF.items()}
    if not all(numbers.values()):
        return None
    bus, clock = _number(properties, "memory_bus_width"), 1000 * _number(properties, "memory_clock_rate")
    optional = {"memory_bus_bits": bus, "memory_clock_hz": clock, "clock_hz": 1000 * _number(properties, "clock_rate")}
    bandwidth = clock * 2 * bus // 8
    return Gpu(
        name=device_name,
        title=device_name,
        device_name=device_name,
        vendor="nvidia",
        arch=f"sm_{capability[0]}{capability[1]}",
        capability=capability,
        registers_per_thread=255,
        register_granularity=256,
        shared_granularity=128 if capability >= (8, 0) else 256,
        shared_reserved_per_block=1024 if capability >= (8, 0) else 0,
        blocks_per_multiprocessor=BLOCKS_OF_CAPABILITY[capability],
        memory_bandwidth=bandwidth,
        peak_flops={},
        sources={
            **dict.fromkeys(numbers, OFF_THE_DEVICE),
            **{field: OFF_THE_DEVICE if value else NOT_TOLD for field, value in optional.items()},
            **dict.fromkeys(("registers_per_thread", "shared_reserved_per_block", "blocks_per_multiprocessor"), GUIDE),
            **dict.fromkeys(("register_granularity", "shared_granularity"), OCCUPANCY),
            "memory_bandwidth": CLOCK_TIMES_BUS if bandwidth else NOT_TOLD,
        },
        **numbers,
        **optional,
    )


def _number(properties: Mapping[str, object], name: str) -> int:
    value = properties.get(name, 0)
    return value if isinstance(value, int) else 0
