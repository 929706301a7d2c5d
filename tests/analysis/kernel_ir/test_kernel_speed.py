"""These tests check measurements beside the card's ceilings and its data sheet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fx_explorer.gpus import find_gpu, gpu_of_device
from fx_explorer.instruments.kernels.kernel_times import (
    BY_EVENTS,
    COLD,
    NO_BYTES,
    TOO_SHORT,
    ZEROS,
    describe_speed,
    kernel_speed,
)
from fx_explorer.model import Argument, CardCeiling, Kernel, KernelLaunch, KernelTime
from fx_explorer.session import SessionReader, SessionWriter

CARD = "NVIDIA H200"
KERNEL = Kernel(
    1,
    1,
    "forward",
    0,
    "triton_poi_0",
    "triton",
    estimated_bytes=48_000_000,
    estimated_flops=6_000_000_000,
)
TIME = KernelTime(0, 1, 1, {"XBLOCK": 512}, CARD, 20e-6, 0.5e-6, 400, 1e-6)
CEILINGS = (
    CardCeiling(0, CARD, "memory", 4e12, "copy of 1.07 GB"),
    CardCeiling(0, CARD, "fp32", 50e12, "product"),
)


def told(
    path: Path,
    time: KernelTime = TIME,
    kernel: Kernel = KERNEL,
    arguments: tuple[Argument, ...] = (),
) -> list[str]:
    with SessionWriter(path) as writer:
        writer.add(KernelLaunch(0, 1, 0, (1, 1, 1), 1, arguments))
        writer.add(replace(time, median_s=1.0))
        writer.add(time)
        writer.add_all(CEILINGS)
        writer.add(CardCeiling(0, "NVIDIA L4", "memory", 1.0, "another card"))
    with SessionReader(path) as reader:
        speed = kernel_speed(reader, kernel)
    assert speed is not None
    return describe_speed(speed, find_gpu("h200"))


def test_the_last_measurement_is_told_with_its_rates(tmp_path: Path) -> None:
    assert told(tmp_path / "s.fxs") == [
        "triton_poi_0 on NVIDIA H200: 20.0 µs (median of 400 runs, the middle half within 0.50 µs)",
        "memory: 2,400 GB/s, 60 % of the 4,000 GB/s measured on this card (copy of 1.07 GB)",
        (
            "arithmetic: 300.0 TFLOP/s, 600 % of the 50.0 TFLOP/s of fp32 measured on this card "
            "(product)"
        ),
        "estimate from the data sheet: 89.6 µs; measured: 0.22 times that",
        COLD,
    ]


def test_a_kernel_as_short_as_an_empty_one_is_told_to_be_so(tmp_path: Path) -> None:
    assert f"{TOO_SHORT} (15.0 µs)" in told(tmp_path / "s.fxs", replace(TIME, empty_s=15e-6))


def test_what_is_not_known_is_said(tmp_path: Path) -> None:
    lines = told(
        tmp_path / "s.fxs",
        replace(TIME, clock="events"),
        replace(KERNEL, estimated_bytes=-1, estimated_flops=-1),
    )
    assert lines[1:] == [NO_BYTES, COLD, BY_EVENTS]


def test_indices_that_were_zeros_are_told(tmp_path: Path) -> None:
    lines = told(
        tmp_path / "s.fxs",
        arguments=({"name": "in_ptr0", "dtype": "int64", "shape": [8], "stride": [1]},),
    )
    assert lines[-2:] == [COLD, ZEROS]


def test_nothing_is_told_of_a_kernel_that_was_not_measured(tmp_path: Path) -> None:
    told(tmp_path / "s.fxs")
    with SessionReader(tmp_path / "s.fxs") as reader:
        assert kernel_speed(reader, replace(KERNEL, id=2)) is None


@pytest.mark.parametrize(
    ("device", "name"), [("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100")]
)
def test_a_real_card_is_found_by_its_device_name(device: str, name: str) -> None:
    found = gpu_of_device(device)
    assert found is not None
    assert found.name == name
    assert gpu_of_device("NVIDIA GeForce GTX 1060") is None
