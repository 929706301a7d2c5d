"""This module computes the bounds that a GPU's limits set on a kernel: its least time with the
limiting resource, and its occupancy. Both are estimates; nothing is run. ``card`` is the GPU that a
session is compared with: the virtual one, or the real one on which it was recorded.

Bytes and operations are Inductor's own estimate, recorded while it wrote the kernel
(``estimate_kernel_num_bytes`` and ``estimate_flops``). The model of time is the roofline of
Williams, Waterman and Patterson (2009): the longer of moving the bytes and doing the operations.

Occupancy is how many blocks fit on one multiprocessor at once, and what keeps one more from
fitting. The formulas are those of NVIDIA's occupancy calculator (``cuda_occupancy.h`` of the CUDA
toolkit). AMD's compute units allocate in the same way: they have four parts with their own
registers, and wavefronts in place of warps (LLVM, ``AMDGPUBaseInfo.cpp``).

Sentences on what cannot be known without a GPU stand at the end, for the places where it matters.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.analysis.words import counted
from fx_explorer.gpus import gpu_like, gpu_of_device
from fx_explorer.model import CardCeiling, Gpu, KernelBuild
from fx_explorer.session import SessionReader, answered_once

Bound = Literal["memory", "arithmetic", "start", "unknown"]
"""What limits a kernel's time. ``start``: the kernel moves and computes so little that starting and
ending it takes longer.
"""

LEAST_S = 1.5e-6
"""Minimum duration of any kernel on a GPU, in seconds: the shortest took 1.3 to 2 µs on the clocks
of an H100 and an H200 (torch 2.11; ``fx-explorer kernel --bench`` measures an empty kernel).
"""

FLOPS_COUNTED = (
    "Inductor counts only the operations of matrix multiplications and convolutions; others count "
    "as free."
)
ESTIMATE = (
    "An estimate: the time at full bandwidth or full arithmetic, whichever is longer, and at "
    f"least {LEAST_S * 1e6:.1f} µs, about the time of an empty kernel. Nothing ran."
)
NO_SIZES = (
    "Inductor gave no estimate of the bytes this kernel moves, so there is no estimate of its time."
)
NO_PEAK = "There is no number for {kind} arithmetic of {gpu}, so only its memory is estimated."
NO_BANDWIDTH = "The memory bandwidth of {gpu} is not known, so there is no estimate of its time."

_MATRIX_TYPES = (
    (
        re.compile(
            r"\b(?:wgmma\.mma_async|mma)\.[\w.:]{0,100}\.e[45]m[\d]\w*|v_mfma_\w{0,100}_(?:fp8|bf8)"
        ),
        "fp8",
    ),
    (
        re.compile(r"\b(?:wgmma\.mma_async|mma)\.[\w.:]{0,100}\.(?:s8|u8)\b|v_mfma_i32\w{0,100}i8"),
        "int8",
    ),
    (
        re.compile(r"\b(?:wgmma\.mma_async|mma)\.[\w.:]{0,100}\.bf16\.bf16|v_mfma_\w{0,100}bf16"),
        "bf16",
    ),
    (
        re.compile(r"\b(?:wgmma\.mma_async|mma)\.[\w.:]{0,100}\.f16\.f16|v_mfma_\w{0,100}_f16"),
        "fp16",
    ),
    (re.compile(r"\b(?:wgmma\.mma_async|mma)\.[\w.:]{0,100}\.tf32|v_mfma_\w{0,100}_xf32"), "tf32"),
    (re.compile(r"\bmma\.[\w.:]{0,100}\.f64|v_mfma_f64"), "fp64"),
    (re.compile(r"\btcgen05\.mma\.[\w.:]{0,100}kind::(?:f8f6f4|mxf8f6f4)"), "fp8"),
    # ``kind::f16`` stands for both types of 16 bits, which are equally fast.
    (re.compile(r"\btcgen05\.mma\.[\w.:]{0,100}kind::f16"), "bf16"),
    (re.compile(r"\btcgen05\.mma\.[\w.:]{0,100}kind::tf32"), "tf32"),
    (re.compile(r"\btcgen05\.mma\.[\w.:]{0,100}kind::i8"), "int8"),
)
"""Pattern → number type. PTX of ``mma`` names the types of D, A, B and C; ``wgmma`` those of D, A
and B.
"""


@dataclass(frozen=True, slots=True)
class Roofline:
    """The estimate for one call. All times are in seconds."""

    bound: Bound
    memory_s: float
    arithmetic_s: float
    """Seconds of the arithmetic at its peak; 0 when no operations are counted."""
    kind: str
    """Number type whose peak of the GPU it was compared with, such as ``fp32`` or ``bf16``."""
    intensity: float
    """Operations per byte."""
    ridge: float
    """Operations per byte from which arithmetic is the bound; 0 when the GPU has no number for this
    kind.
    """
    notes: tuple[str, ...]

    @property
    def estimated_s(self) -> float:
        """Return the least time of a call, by which estimates are added up and ordered; 0 where it
        is not known.
        """
        if not self.is_known:
            return 0.0
        return max(self.memory_s, self.arithmetic_s, LEAST_S)

    @property
    def is_known(self) -> bool:
        return self.notes[0] == ESTIMATE


def roofline(gpu: Gpu, bytes_moved: int, flops: int, kind: str = "fp32") -> Roofline:
    """Estimate one call. ``bytes_moved`` and ``flops`` are below 0 when they are not known;
    ``kind`` is a result of ``number_kind``.
    """
    if bytes_moved < 0:
        return Roofline("unknown", 0.0, 0.0, kind, 0.0, 0.0, (NO_SIZES,))
    if not gpu.memory_bandwidth:
        return Roofline("unknown", 0.0, 0.0, kind, 0.0, 0.0, (NO_BANDWIDTH.format(gpu=gpu.title),))
    peak = gpu.peak_flops.get(kind, 0.0)
    memory_s = bytes_moved / gpu.memory_bandwidth
    arithmetic_s = max(0, flops) / peak if peak else 0.0
    notes = [ESTIMATE]
    if flops <= 0:
        notes.append(FLOPS_COUNTED)
    elif not peak:
        notes.append(NO_PEAK.format(gpu=gpu.title, kind=kind))
    bound = _bound(memory_s, arithmetic_s, is_open=flops > 0 and not peak)
    intensity = max(0, flops) / bytes_moved if bytes_moved else 0.0
    ridge = peak / gpu.memory_bandwidth
    return Roofline(bound, memory_s, arithmetic_s, kind, intensity, ridge, tuple(notes))


def _bound(memory_s: float, arithmetic_s: float, *, is_open: bool) -> Bound:
    """Return the resource that limits the time. ``is_open``: some of the arithmetic is unknown."""
    if is_open:
        return "unknown"
    if max(memory_s, arithmetic_s) < LEAST_S:
        return "start"
    if arithmetic_s > memory_s:
        return "arithmetic"
    return "memory"


def number_kind(assembly: str) -> str:
    """Return the number type that the kernel's matrix instructions compute with, read from its PTX
    or AMDGCN; ``fp32`` when it has none.
    """
    return next((kind for pattern, kind in _MATRIX_TYPES if pattern.search(assembly)), "fp32")


def describe_roofline(gpu: Gpu, estimate: Roofline) -> str:
    """Return ``bound by memory on NVIDIA H100 SXM 80 GB; at least 0.15 µs a call (estimate, not
    run)``."""
    if not estimate.is_known:
        return estimate.notes[0]
    if estimate.bound == "unknown":
        return (
            f"at least {microseconds(estimate.memory_s)} a call for its memory (estimate, not "
            "run). "
            f"{estimate.notes[1]}"
        )
    least = microseconds(estimate.estimated_s)
    if estimate.bound == "start":
        return (
            f"too small on {gpu.title} to be bound by memory or arithmetic; at least {least} a "
            "call, like any kernel (estimate, not run)"
        )
    return f"bound by {estimate.bound} on {gpu.title}; at least {least} a call (estimate, not run)"


def describe_bound(estimate: Roofline) -> str:
    """Return ``bound by memory``, or that the kernel is too short for either. Not for an unknown
    bound.
    """
    if estimate.bound == "start":
        return "so short that its launch takes longer"
    return f"bound by {estimate.bound}"


def microseconds(duration_s: float) -> str:
    """Return ``0.15 µs``, ``23.1 µs``, ``1,204 µs``, or ``< 0.01 µs``. All kernels use the same
    unit, so that they can be compared.
    """
    value = duration_s * 1e6
    if 0 < value < 0.01:
        return "< 0.01 µs"
    if value < 10:
        return f"{value:.2f} µs"
    if value < 100:
        return f"{value:.1f} µs"
    return f"{value:,.0f} µs"


# Occupancy.


Limit = Literal["warps", "blocks", "registers", "shared"]

LIMITS: tuple[Limit, ...] = get_args(Limit)

PARTS = 4
"""Number of schedulers of a multiprocessor, each with a quarter of the registers
(``cuda_occupancy.h``: numSubPartitions; AMD: four SIMD units). All registers of a warp come from
one quarter.
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
    """Number of blocks at the same time on one multiprocessor. At 0, the kernel cannot be launched
    on this GPU.
    """
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
        """Return the occupancy: resident warps as a fraction of the maximum, from 0 to 1."""
        return self.warps / self.max_warps


def occupancy(gpu: Gpu, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Compute the occupancy of a kernel with ``threads`` per block, ``registers`` per thread and
    ``shared_bytes`` per block (static and dynamic).
    """
    warps = -(-threads // gpu.warp_size)
    max_warps = gpu.threads_per_multiprocessor // gpu.warp_size
    by_warps = max_warps // warps if threads <= gpu.threads_per_block else 0
    by_limit: dict[Limit, int] = {
        "warps": by_warps,
        "blocks": _by_slots(gpu, warps, max_warps),
        "registers": _by_registers(gpu, warps, registers),
        **_by_shared(gpu, shared_bytes),
    }
    blocks = min(by_limit.values())
    return Occupancy(blocks, blocks * warps, max_warps, by_limit)


def _by_slots(gpu: Gpu, warps: int, max_warps: int) -> int:
    """Return the number of blocks that the slots allow. On AMD the limit is on barriers, which a
    single wavefront does not need (LLVM, ``getMaxWorkGroupsPerCU``).
    """
    if gpu.vendor == "amd" and warps == 1:
        return max_warps
    return gpu.blocks_per_multiprocessor


def _by_registers(gpu: Gpu, warps: int, registers: int) -> int:
    """Return the number of blocks that the registers allow (``cudaOccMaxBlocksPerSMRegsLimit``). A
    warp gets whole allocation units from one quarter of the registers.
    """
    if registers > gpu.registers_per_thread:
        return 0
    of_a_warp = _rounded(max(1, registers) * gpu.warp_size, gpu.register_granularity)
    warps_of_a_part = gpu.registers_per_multiprocessor // PARTS // of_a_warp
    return warps_of_a_part * PARTS // warps


def _by_shared(gpu: Gpu, shared_bytes: int) -> dict[Limit, int]:
    """Return the number of blocks that shared memory allows (``cudaOccMaxBlocksPerSMSmemLimit``),
    in whole allocation units including the system's reserve per block; empty for a block that uses
    none.
    """
    if shared_bytes > gpu.shared_per_block:
        return {"shared": 0}
    of_a_block = _rounded(shared_bytes + gpu.shared_reserved_per_block, gpu.shared_granularity)
    if of_a_block:
        return {"shared": gpu.shared_per_multiprocessor // of_a_block}
    return {}


def _rounded(number: int, granularity: int) -> int:
    return -(-number // granularity) * granularity


def describe_occupancy(occupancy: Occupancy) -> str:
    """Return ``50 %: 16 blocks of 2 warps on a multiprocessor, limited by registers``."""
    limits = " and ".join(LIMIT_WORDS[limit] for limit in occupancy.limited_by)
    if not occupancy.blocks:
        return f"does not fit: a block needs more than this GPU has ({limits})"
    warps = counted(occupancy.warps // occupancy.blocks, "warp")
    blocks = f"{counted(occupancy.blocks, 'block')} of {warps}"
    return f"{100 * occupancy.share:.0f} %: {blocks} on a multiprocessor, limited by {limits}"


NOT_DESCRIBED = "The limits of {device} are not known, so there is no occupancy and no estimate."


@answered_once
def card(reader: SessionReader) -> Gpu | None:
    """Return the GPU of a session. None on a CPU, before the program has used the GPU, and for an
    unknown GPU (``not_described`` explains that).

    ``session_gpu`` is the GPU that kernels are compiled for: only a virtual one.
    """
    environment = reader.meta("environment") or {}
    # As text, since a dict cannot be the key of a cache.
    return session_gpu(reader) or _real(
        device_name(reader), json.dumps(environment.get("gpu_properties") or {})
    )


def device_name(reader: SessionReader) -> str:
    """Return the name of the real GPU; empty without one."""
    recorded = (reader.meta("environment") or {}).get("gpu")
    return str(recorded or _of_a_build(reader))


def measured_card(reader: SessionReader, device: str) -> Gpu | None:
    """Return the GPU that a kernel was measured on, which may differ from the session's."""
    if device == device_name(reader):
        return card(reader)
    return gpu_of_device(device)


def measured_bandwidth(reader: SessionReader) -> float:
    """Return the bytes a second that were measured of the machine's memory; 0 where none were."""
    memory = measured_ceilings(reader).get("memory")
    return memory.rate if memory else 0.0


def measured_ceilings(reader: SessionReader) -> dict[str, CardCeiling]:
    """Return kind → what was last measured of the machine: its memory, its arithmetic."""
    rows = reader.rows(CardCeiling)
    return {row.kind: row for row in rows if row.device == rows[-1].device and row.rate > 0}


def not_described(reader: SessionReader) -> str:
    """Return a sentence if there is a GPU without ``card``; otherwise an empty string."""
    device = device_name(reader)
    if device and card(reader) is None:
        return NOT_DESCRIBED.format(device=device)
    return ""


def _of_a_build(reader: SessionReader) -> str:
    """Return the GPU that a build names, for a session that ended before its environment was
    written again.
    """
    return next((row.gpu for row in reader.rows(KernelBuild, limit=1)), "")


@lru_cache(maxsize=4)
def _real(device: str, properties: str) -> Gpu | None:
    """Return the GPU described by ``properties`` (JSON). It is remembered, because the inspector
    asks at every move of the cursor.
    """
    if device:
        return gpu_like(device, json.loads(properties))
    return None


# What cannot be known without the GPU.


UNKNOWN_PICK = (
    "The autotuner's choice is not known: it times the configurations on the GPU. All of them are "
    "shown."
)
UNKNOWN_RUN_TIME = (
    "The run time is not known: nothing ran. The estimate is a lower bound from the data sheet."
)
UNKNOWN_PADDING = (
    "Whether a matrix would be padded is not known: torch times both on the GPU. Nothing is "
    "padded here."
)
UNKNOWN_LIBRARY_KERNEL = "A library call: the library chooses its kernel on the GPU."
UNKNOWN_LIBRARY_PICK = (
    "The autotuner's choice is not known: it times them on the GPU. The first is shown."
)
UNKNOWN_TEMPLATE_OR_LIBRARY = (
    "Whether a template or a library would be chosen is not known: they are timed on the GPU. A "
    "template is shown."
)
TEMPLATE_WITHOUT_FUSION = (
    "Some configurations of the template are shown without the operations that are fused into the "
    "first one."
)
ATTENTION_BY_OUR_RULES = (
    "The attention kernel is chosen by fx-explorer's copy of the rules of a CUDA build."
)
NOT_CAPTURED_FOR_A_GPU = (
    "This session was not captured for a GPU: capture it with --gpu h100, for example."
)
NO_SASS_ON_AMD = "AMD's machine code is the AMDGCN text: it is the lowest level."
