"""How many blocks of a kernel fit on one multiprocessor at once, and what keeps one more from
fitting. Computed, not measured.

The formulas are those of NVIDIA's occupancy calculator (``cuda_occupancy.h`` of the CUDA toolkit).
AMD's compute units allocate in the same way: they have four parts with their own registers, and
wavefronts in place of warps (LLVM, ``AMDGPUBaseInfo.cpp``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from fx_explorer.model import Gpu

Limit = Literal["warps", "blocks", "registers", "shared"]

LIMITS: tuple[Limit, ...] = get_args(Limit)

PARTS = 4
"""A multiprocessor has four schedulers, each with a quarter of the registers (``cuda_occupancy.h``:
numSubPartitions; AMD: four SIMD units). A warp's registers come out of one quarter.
"""

LIMIT_WORDS: dict[Limit, str] = {
    "warps": "the number of warps a multiprocessor can hold",
    "blocks": "the number of blocks a multiprocessor can hold",
    "registers": "registers",
    "shared": "shared memory",
}


@dataclass(frozen=True, slots=True)
class Occupancy:
    blocks: int
    """Blocks at once on one multiprocessor. At 0, the kernel cannot be launched on this GPU."""
    warps: int
    """Warps of these blocks together."""
    max_warps: int
    by_limit: dict[Limit, int]
    """Blocks that each limit alone would allow. Limits on resources that a block does not use are
    left out.
    """

    @property
    def limited_by(self) -> tuple[Limit, ...]:
        """Return the resources that allow the fewest blocks."""
        return tuple(limit for limit in LIMITS if self.by_limit.get(limit) == self.blocks)

    @property
    def share(self) -> float:
        """Return the share of the warps that the multiprocessor can hold, from 0 to 1."""
        return self.warps / self.max_warps


def occupancy(gpu: Gpu, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Compute the occupancy of a kernel with ``threads`` per block, ``registers`` per thread and
    ``shared_bytes`` per block (static and dynamic).
    """
    warps = -(-threads // gpu.warp_size)
    max_warps = gpu.threads_per_multiprocessor // gpu.warp_size
    by_limit: dict[Limit, int] = {
        "warps": max_warps // warps if threads <= gpu.threads_per_block else 0,
        "blocks": _by_slots(gpu, warps, max_warps),
        "registers": _by_registers(gpu, warps, registers),
        **_by_shared(gpu, shared_bytes),
    }
    blocks = min(by_limit.values())
    return Occupancy(blocks, blocks * warps, max_warps, by_limit)


def _by_slots(gpu: Gpu, warps: int, max_warps: int) -> int:
    """Blocks that the slots allow. On AMD barriers are counted, and a single wavefront needs none
    (LLVM, ``getMaxWorkGroupsPerCU``).
    """
    return max_warps if gpu.vendor == "amd" and warps == 1 else gpu.blocks_per_multiprocessor


def _by_registers(gpu: Gpu, warps: int, registers: int) -> int:
    """Return the blocks that registers allow (``cudaOccMaxBlocksPerSMRegsLimit``). A warp gets
    whole allocation units out of one quarter of the registers.
    """
    if registers > gpu.registers_per_thread:
        return 0
    of_a_warp = _rounded(max(1, registers) * gpu.warp_size, gpu.register_granularity)
    warps_of_a_part = gpu.registers_per_multiprocessor // PARTS // of_a_warp
    return warps_of_a_part * PARTS // warps


def _by_shared(gpu: Gpu, shared_bytes: int) -> dict[Limit, int]:
    """Return the blocks that shared memory allows (``cudaOccMaxBlocksPerSMSmemLimit``), in whole
    allocation units and with what the system reserves per block; empty for a block that needs none.
    """
    if shared_bytes > gpu.shared_per_block:
        return {"shared": 0}
    of_a_block = _rounded(shared_bytes + gpu.shared_reserved_per_block, gpu.shared_granularity)
    return {"shared": gpu.shared_per_multiprocessor // of_a_block} if of_a_block else {}


def _rounded(number: int, granularity: int) -> int:
    return -(-number // granularity) * granularity


def occupancy_in_words(found: Occupancy) -> str:
    """Return ``50 %: 16 blocks of 2 warps on a multiprocessor, limited by registers``."""
    if not found.blocks:
        what = " and ".join(LIMIT_WORDS[limit] for limit in found.limited_by)
        return f"does not fit: a block needs more than this GPU has ({what})"
    per_block = found.warps // found.blocks
    limits = " and ".join(LIMIT_WORDS[limit] for limit in found.limited_by)
    blocks = (
        f"{found.blocks} block{'' if found.blocks == 1 else 's'} of {per_block} "
        f"warp{'' if per_block == 1 else 's'}"
    )
    return f"{100 * found.share:.0f} %: {blocks} on a multiprocessor, limited by {limits}"
