"""This module has ``Gpu``, a GPU as its data sheet describes it, for which code is generated and
estimates are made.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from fx_explorer.model.checked_json import checked

Vendor = Literal["nvidia", "amd"]


@dataclass(frozen=True, slots=True)
class Gpu:
    """Sizes are in bytes, rates per second. *multiprocessor* is AMD's compute unit, *warp* its
    wavefront, *shared* its LDS.
    """

    name: str
    """The name, as in ``--gpu``: ``h100``."""
    title: str
    """The product, for people: ``NVIDIA H100 SXM 80 GB``."""
    device_name: str
    """The result of ``torch.cuda.get_device_name()`` on this GPU."""
    vendor: Vendor
    arch: str
    """``sm_90``, ``gfx942``."""
    capability: tuple[int, ...]
    """The result of ``torch.cuda.get_device_capability()``: major, minor."""
    multiprocessors: int
    warp_size: int
    registers_per_multiprocessor: int
    """Number of registers of 32 bits."""
    registers_per_thread: int
    """The most registers that a thread can have."""
    register_granularity: int
    """A warp is given registers in multiples of this."""
    shared_per_block: int
    """Largest shared memory of a block, in bytes, for a kernel that asks for it (*opt-in*)."""
    shared_per_block_default: int
    shared_per_multiprocessor: int
    shared_granularity: int
    """A block is given shared memory in multiples of this."""
    shared_reserved_per_block: int
    """Bytes of each block's share that the system reserves."""
    threads_per_multiprocessor: int
    threads_per_block: int
    blocks_per_multiprocessor: int
    l2_bytes: int
    """Bytes of the L2 cache as the driver reports them; on AMD those of one chiplet."""
    memory_bytes: int
    memory_bandwidth: int
    memory_bus_bits: int
    memory_clock_hz: int
    clock_hz: int
    """Highest clock of the multiprocessors, in Hz."""
    peak_flops: dict[str, float]
    """Kind of number (``fp32``; ``tf32``, ``bf16``, ``fp16``, ``fp8``, ``int8`` on the matrix
    units, dense) → operations per second. A missing kind has no units of its own, or is not
    documented.
    """
    sources: dict[str, str]
    """Name of a field (``multiprocessors``, ``peak_flops.bf16``) → where its number is from."""

    def to_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Gpu:
        """Make a GPU of JSON. Raises TypeError, and ValueError for a GPU that cannot be."""
        gpu = checked(cls(**{**fields, "capability": tuple(fields.get("capability", ()))}))
        if len(gpu.capability) != 2:
            raise ValueError("capability is two numbers, such as [9, 0]")
        for name in NUMBERS:
            least = 0 if name in MAY_BE_ZERO else 1
            if not least <= getattr(gpu, name) <= MOST:
                raise ValueError(f"{name} cannot be {getattr(gpu, name)}")
        for kind, flops in gpu.peak_flops.items():
            if not 0 < flops < math.inf:
                raise ValueError(f"peak_flops.{kind} cannot be {flops}")
        contradictions = list(_contradictions(gpu))
        if contradictions:
            raise ValueError("; ".join(contradictions))
        return gpu


NUMBERS = tuple(field.name for field in dataclasses.fields(Gpu) if field.type == "int")
"""Fields with one number each, in order."""

MAY_BE_ZERO = ("shared_reserved_per_block",)

MOST = 2**63 - 1

AT_MOST = (
    ("shared_per_block_default", "shared_per_block"),
    ("shared_per_block", "shared_per_multiprocessor"),
    ("threads_per_block", "threads_per_multiprocessor"),
)
"""Pairs of fields of which the first cannot be larger than the second."""

WARP_SIZES = {"nvidia": (32,), "amd": (32, 64)}


def _contradictions(gpu: Gpu) -> Iterator[str]:
    expected = _archs(gpu)
    if not re.fullmatch(expected, gpu.arch):
        shown = expected.replace("[af]?", "").replace("[0-9a-f]", "…")
        yield (
            f"arch {gpu.arch!r} does not match vendor {gpu.vendor!r} and capability "
            f"{list(gpu.capability)}, which give {shown}"
        )
    if gpu.warp_size not in WARP_SIZES[gpu.vendor]:
        yield f"warp_size of {gpu.vendor} cannot be {gpu.warp_size}"
    for less, more in AT_MOST:
        if getattr(gpu, less) > getattr(gpu, more):
            yield f"{less} {getattr(gpu, less)} is more than {more} {getattr(gpu, more)}"


def _archs(gpu: Gpu) -> str:
    """Return a regular expression for the names of an architecture: ``sm_90`` or ``sm_90a`` for [9,
    0]; ``gfx942`` for [9, 4], whose last digit is in no capability.
    """
    major, minor = gpu.capability
    if gpu.vendor == "nvidia":
        return f"sm_{major}{minor}[af]?"
    return f"gfx{major}{minor:x}[0-9a-f]"
