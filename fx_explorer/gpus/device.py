"""The GPU that a session was recorded on: one of those described here, or what torch read off the
device.

``torch.cuda.get_device_properties()`` tells sizes, counts and clocks. What it does not tell are
limits of the architecture (limits.py), and peak FLOP/s, which nobody reads off a device.
"""

from __future__ import annotations

from collections.abc import Mapping

from fx_explorer.gpus.limits import Limits, amd_limits, nvidia_limits
from fx_explorer.gpus.reading import gpu_of_device
from fx_explorer.model import Gpu

OFF_THE_DEVICE = "read off the device: torch.cuda.get_device_properties()"
CLOCK_TIMES_BUS = (
    "computed: memory clock x {transfers} transfers x bus width, clock and bus read off the device"
)
NOT_TOLD = "not known: the driver does not tell"

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
    """Return the GPU of a device, from ``properties``, which were recorded of it and are empty in
    sessions that have none. None when nothing is known of it: no GPU, or one of a compute
    capability or architecture that limits.py does not list.
    """
    described = gpu_of_device(device_name)
    if (
        described
        and properties.get("multi_processor_count", described.multiprocessors)
        == described.multiprocessors
    ):
        return described
    limits = _limits(properties)
    return gpu_of_properties(device_name, properties, limits) if limits else None


def _limits(properties: Mapping[str, object]) -> Limits | None:
    arch = str(properties.get("gcnArchName", "")).partition(":")[0]  # gfx942:sramecc+:xnack-
    if "gfx" in arch:
        return amd_limits(arch)
    return nvidia_limits((_number(properties, "major"), _number(properties, "minor")))


def gpu_of_properties(
    device_name: str, properties: Mapping[str, object], limits: Limits
) -> Gpu | None:
    """Return a GPU with the numbers that torch read off the device. A number of 0 is not known, as
    its source says: bandwidth, where the driver tells no clock or bus.
    """
    numbers = {
        field: _number(properties, name)
        for field, name in READ_OFF.items()
        if field not in limits.numbers
    }
    if not all(numbers.values()):
        return None
    bus, clock = (
        _number(properties, "memory_bus_width"),
        1000 * _number(properties, "memory_clock_rate"),
    )
    optional = {
        "memory_bus_bits": bus,
        "memory_clock_hz": clock,
        "clock_hz": 1000 * _number(properties, "clock_rate"),
    }
    bandwidth = clock * limits.transfers_per_clock * bus // 8
    return Gpu(
        name=device_name,
        title=device_name,
        device_name=device_name,
        vendor=limits.vendor,
        arch=limits.arch,
        capability=limits.capability,
        memory_bandwidth=bandwidth,
        peak_flops={},
        sources={
            **dict.fromkeys(numbers, OFF_THE_DEVICE),
            **{field: OFF_THE_DEVICE if value else NOT_TOLD for field, value in optional.items()},
            **limits.sources,
            "memory_bandwidth": CLOCK_TIMES_BUS.format(transfers=limits.transfers_per_clock)
            if bandwidth
            else NOT_TOLD,
        },
        **numbers,
        **optional,
        **limits.numbers,
    )


def _number(properties: Mapping[str, object], name: str) -> int:
    value = properties.get(name, 0)
    return value if isinstance(value, int) else 0
