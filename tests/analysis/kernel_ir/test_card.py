"""These tests check with what numbers of a real session are compared, and the sentence where
something is not known.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer.gpus import gpu_like
from fx_explorer.instruments.kernels.gpu_limits import (
    card,
    describe_roofline,
    not_described,
    roofline,
)
from fx_explorer.instruments.kernels.kernel_facts import kernel_facts
from fx_explorer.model import Kernel, KernelBuild
from fx_explorer.session import SessionReader, SessionWriter
from tests.gpus.test_device import RTX_4090
from tests.worker.launched import launched_session

NAME = "triton_poi_fused_add_0"
DEVICE = "NVIDIA GeForce RTX 4090"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "s.fxs"
    launched_session(path, "import triton\n", NAME)
    with SessionWriter(path) as writer:
        writer.set_meta("environment", {"gpu": DEVICE, "gpu_properties": RTX_4090})
    return path


def test_a_real_session_has_the_gpu_that_its_environment_tells(session: Path) -> None:
    with SessionReader(session) as reader:
        found = card(reader)
        assert found is not None
        assert found.title == DEVICE
        assert not_described(reader) == ""
        kernel = reader.get(Kernel, 1)
        build = KernelBuild(
            0, 1, 0, {}, DEVICE, "built", threads=256, registers=128, shared_bytes=0, timing_s=1e-5
        )
        facts = {fact.label: fact.text for fact in kernel_facts(reader, kernel, found, build)}
    assert facts["occupancy"].startswith(
        "33 %: 2 blocks of 8 warps on a multiprocessor, limited by registers"
    )
    assert facts["time"].startswith("reads and writes 48.0 MB: 47.6 µs at 1.01 TB/s")


def test_of_a_gpu_that_nobody_described_it_is_said(session: Path) -> None:
    with SessionWriter(session) as writer:
        writer.set_meta("environment", {"gpu": "Future 1", "gpu_properties": {"major": 99}})
    with SessionReader(session) as reader:
        assert card(reader) is None
        assert (
            not_described(reader)
            == "The limits of Future 1 are not known, so there is no occupancy and no estimate."
        )


def test_without_an_environment_the_builds_tell_the_device(session: Path) -> None:
    with SessionWriter(session) as writer:
        writer.set_meta("environment", {})
    with SessionReader(session) as reader:
        found = card(reader)
    assert found is not None
    assert found.name == "h200"


def test_what_bounds_a_kernel_is_not_guessed() -> None:
    known, blind = (
        gpu_like(DEVICE, RTX_4090),
        gpu_like(DEVICE, {**RTX_4090, "memory_clock_rate": 0}),
    )
    assert known is not None
    assert blind is not None
    assert describe_roofline(known, roofline(known, 1_008_000_000, 10**12, "bf16")) == (
        "at least 1,000 µs a call for its memory (estimate, not run). There is no number for bf16 arithmetic of "
        f"{DEVICE}, so only its memory is estimated."
    )
    assert describe_roofline(blind, roofline(blind, 1000, 0)) == (
        f"The memory bandwidth of {DEVICE} is not known, so there is no estimate of its time."
    )
