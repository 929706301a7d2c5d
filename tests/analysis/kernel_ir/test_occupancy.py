"""These tests check occupancy against NVIDIA's own calculator (tests/data/kernel_ir/occupancy.cpp),
for AMD by hand from LLVM's rules.
"""

from __future__ import annotations

import gzip
import json
import re

import pytest

from fx_explorer.gpus import find_gpu
from fx_explorer.instruments.kernels.gpu_limits import LIMITS, PARTS, describe_occupancy, occupancy
from tests.analysis.kernel_ir.samples import DATA, sample
from tests.exhaustive import with_others

NVIDIA_LIMITS = {1: "warps", 2: "registers", 4: "shared", 8: "blocks"}
"""``OCC_LIMIT_…`` of cuda_occupancy.h."""


@pytest.mark.parametrize("gpu", with_others(["h100"], ["l4", "a100", "b200"]))
def test_blocks_and_limits_are_those_of_nvidias_calculator(gpu: str) -> None:
    rows = [
        row
        for row in json.loads(gzip.decompress((DATA / "occupancy.json.gz").read_bytes()))
        if row[0] == gpu
    ]
    assert len(rows) == 980
    for _, threads, registers, shared_bytes, blocks, bits in rows:
        found = occupancy(find_gpu(gpu), threads, registers, shared_bytes)
        limits = {name for bit, name in NVIDIA_LIMITS.items() if bits & bit}
        assert found.blocks == blocks, (threads, registers, shared_bytes)
        assert not blocks or set(found.limited_by) == limits, (threads, registers, shared_bytes)


def test_a_wavefront_that_needs_more_than_128_registers_leaves_half_the_slots_empty() -> None:
    gpu = find_gpu("mi300x")
    shares = {
        registers: occupancy(gpu, 256, registers, 0).share
        for registers in (64, 65, 128, 129, 256, 512)
    }
    assert shares == {64: 1.0, 65: 7 / 8, 128: 0.5, 129: 3 / 8, 256: 0.25, 512: 0.125}


LLVM_OCCUPANCY = {18: 8, 36: 8, 48: 8, 73: 6, 76: 6, 82: 5, 88: 5, 100: 4, 120: 4, 167: 3}
"""Vector registers → wavefronts on a SIMD unit: ``; NumVgprs`` and ``; Occupancy`` by Triton 3.7.1
for gfx942.
"""


@pytest.mark.parametrize("registers", LLVM_OCCUPANCY)
def test_wavefronts_on_amd_are_those_that_llvm_counts(registers: int) -> None:
    found = occupancy(find_gpu("mi300x"), 64, registers, 0)
    assert found.warps / PARTS == LLVM_OCCUPANCY[registers]


@pytest.mark.parametrize("name", ["mi300x_softmax", "mi300x_matmul"])
def test_of_a_recorded_kernel_too(name: str) -> None:
    one = sample(name)
    told = {
        word: int(re.findall(rf"^; {word}: (\d+)", one.levels["amdgcn"], re.MULTILINE)[0])
        for word in ("NumVgprs", "Occupancy")
    }
    found = occupancy(find_gpu("mi300x"), one.fields["threads"], told["NumVgprs"], 0)
    assert found.warps // PARTS == told["Occupancy"], (
        "LLVM knows nothing of memory that is asked for at the launch"
    )


def test_local_memory_that_is_not_used_limits_nothing() -> None:
    mi300x = find_gpu("mi300x")
    assert occupancy(mi300x, 256, 32, 0).limited_by == ("warps",)
    assert occupancy(mi300x, 128, 32, 0).limited_by == ("warps", "blocks")
    assert occupancy(mi300x, 256, 32, 32768).limited_by == ("shared",)
    assert occupancy(find_gpu("h100"), 32, 32, 0).limited_by == ("blocks",)


def test_blocks_of_one_wavefront_need_no_barrier() -> None:
    """16 blocks at once are the limit only where they have barriers."""
    mi300x = find_gpu("mi300x")
    assert occupancy(mi300x, 64, 32, 0).blocks == 32
    assert occupancy(mi300x, 65, 32, 0).blocks == 16


def test_a_block_that_is_too_large_does_not_fit() -> None:
    found = occupancy(find_gpu("a100"), 128, 32, 200_000)
    assert found.blocks == 0
    assert (
        describe_occupancy(found)
        == "does not fit: a block needs more than this GPU has (shared memory)"
    )
    assert occupancy(find_gpu("a100"), 2048, 32, 0).limited_by == ("warps",)
    assert occupancy(find_gpu("a100"), 128, 256, 0).limited_by == ("registers",)


def test_what_limits_is_said_in_words() -> None:
    one = sample("a100_matmul")
    registers = int(re.findall(r"Used (\d+) registers", one.fields["ptxas"])[0])
    found = occupancy(
        find_gpu("a100"), one.fields["threads"], registers, one.fields["shared_bytes"]
    )
    assert (
        describe_occupancy(found)
        == "56 %: 18 blocks of 2 warps on a multiprocessor, limited by registers"
    )
    assert set(found.by_limit) == set(LIMITS)
