"""These tests check the report on a kernel. The expected times are computed here, from the data
sheet's numbers.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.gpus import find_gpu
from fx_explorer.instruments.kernels.kernel_facts import in_short, kernel_facts
from fx_explorer.session import SessionReader
from tests.analysis.kernel_ir.built_sessions import ESTIMATED_BYTES, write_kernel
from tests.analysis.kernel_ir.samples import sample


def facts(path: Path, name: str, **changes: object) -> dict[str, str]:
    """Label → text, of a kernel that was built."""
    written = write_kernel(path, sample(name))
    with SessionReader(written.path) as reader:
        (kernel,), (build,) = reader.rows(model.Kernel), reader.rows(model.KernelBuild)
        gpu = find_gpu(sample(name).gpu)
        return {
            fact.label: fact.text
            for fact in kernel_facts(reader, replace(kernel, **changes), gpu, build)
        }  # type: ignore[arg-type]


def test_bytes_come_first_with_the_time_that_memory_needs(tmp_path: Path) -> None:
    memory_us = ESTIMATED_BYTES / 3.35e12 * 1e6
    told = facts(tmp_path / "s.fxs", "h100_softmax")["time"]
    assert told.startswith(
        f"reads and writes 516.0 kB: {memory_us:.2f} µs at 3.35 TB/s, an estimate; so short that "
        "its launch takes longer"
    )
    assert told.endswith("so short that its launch takes longer")


def test_operations_of_a_product_are_compared_with_the_peak_of_its_type(tmp_path: Path) -> None:
    flops = 2 * 4096**3
    found = facts(
        tmp_path / "s.fxs", "h100_matmul", estimated_bytes=3 * 2 * 4096**2, estimated_flops=flops
    )
    peak = find_gpu("h100").peak_flops["bf16"]
    assert f"computes 137 GFLOP: {flops / peak * 1e6:,.0f} µs" in found["time"]
    assert "of bf16, an estimate; bound by arithmetic" in found["time"]
    assert found["intensity"].startswith(f"{flops / (6 * 4096**2):,.1f} operations a byte")


def test_resources_and_the_mix_are_told_of_what_was_built(tmp_path: Path) -> None:
    found = facts(tmp_path / "s.fxs", "h100_matmul")
    assert (
        "30 registers of 255 a thread, no spills, 163.8 kB of shared memory a block, 256 threads a block"
        in found["resources"]
    )
    assert "limited by shared memory" in found["occupancy"]
    assert "tensor core" in found["instructions"]
    assert found["compiled"] == "by triton 3.7.1, taken from the cache on disk"


def test_without_an_estimate_of_bytes_there_is_no_time(tmp_path: Path) -> None:
    assert (
        "no estimate of its time"
        in facts(tmp_path / "s.fxs", "h100_softmax", estimated_bytes=-1)["time"]
    )


@pytest.mark.parametrize("built", [True, False])
def test_in_short_the_time_is_called_an_estimate(tmp_path: Path, built: bool) -> None:
    written = write_kernel(tmp_path / "s.fxs", sample("h100_softmax"), built=built)
    with SessionReader(written.path) as reader:
        (kernel,) = reader.rows(model.Kernel)
        build = next(iter(reader.rows(model.KernelBuild)), None)
        told = in_short(reader, kernel, find_gpu("h100"), build)
    assert told[0] == "at least 1.50 µs a call (estimate), so short that its launch takes longer"
    assert ("30 registers" in told) == built
