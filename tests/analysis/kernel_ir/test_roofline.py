"""These tests check the roofline: bytes, operations and the bound of a kernel; the numbers of the
H100 are those of its data sheet.
"""

from __future__ import annotations

import pytest

from fx_explorer.gpus import find_gpu
from fx_explorer.instruments.kernels.gpu_limits import (
    FLOPS_COUNTED,
    NO_SIZES,
    describe_roofline,
    number_kind,
    roofline,
)
from tests.analysis.kernel_ir.samples import sample


def test_a_softmax_is_bound_by_memory() -> None:
    found = roofline(find_gpu("h100"), 33_500_000, 0)
    assert (found.bound, found.estimated_s) == ("memory", pytest.approx(1e-5))
    assert FLOPS_COUNTED in found.notes
    assert describe_roofline(find_gpu("h100"), found) == (
        "bound by memory on NVIDIA H100 SXM 80 GB; at least 10.0 µs a call (estimate, not run)"
    )


def test_a_large_product_of_matrices_is_bound_by_arithmetic() -> None:
    size = 8192
    found = roofline(find_gpu("h100"), 3 * size * size * 2, 2 * size**3, "bf16")
    assert found.bound == "arithmetic"
    assert found.estimated_s == pytest.approx(2 * size**3 / 989.5e12)
    assert found.intensity > found.ridge == pytest.approx(989.5e12 / 3.35e12)
    assert FLOPS_COUNTED not in found.notes


@pytest.mark.parametrize("given", [(0, 0), (1024, 0), (3 * 64 * 256 * 4, 2 * 64 * 256 * 256)])
def test_no_kernel_takes_less_than_an_empty_one(given: tuple[int, int]) -> None:
    found = roofline(find_gpu("h100"), *given)
    assert (found.bound, found.estimated_s) == ("start", 1.5e-6)
    assert "at least 1.50 µs a call, like any kernel" in describe_roofline(find_gpu("h100"), found)


def test_without_sizes_there_is_no_estimate() -> None:
    found = roofline(find_gpu("h100"), -1, -1)
    assert (found.bound, found.estimated_s, found.notes) == ("unknown", 0.0, (NO_SIZES,))


def test_a_kind_of_number_that_the_data_sheet_lacks_is_said() -> None:
    found = roofline(find_gpu("a100"), 1000, 1000, "fp8")
    assert found.arithmetic_s == 0
    assert any("no number for fp8" in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("h100_matmul", "bf16"),
        ("a100_matmul", "bf16"),
        ("mi300x_matmul", "bf16"),
        ("h100_softmax", "fp32"),
    ],
)
def test_the_kind_of_number_is_read_off_the_matrix_instructions(name: str, kind: str) -> None:
    levels = sample(name).levels
    assert number_kind(levels.get("ptx") or levels["amdgcn"]) == kind


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {…}", "tf32"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {…}", "fp16"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {…}", "int8"),
        ("wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {…}", "fp8"),
        ("wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {…}", "tf32"),
        ("tcgen05.mma.cta_group::1.kind::f16 [%r1], …", "bf16"),
    ],
)
def test_each_matrix_instruction_has_its_kind(instruction: str, kind: str) -> None:
    assert number_kind(f"\t{instruction};") == kind
