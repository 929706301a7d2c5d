"""These tests build, launch and measure kernels on a real GPU."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
import torch

from fx_explorer.instruments.kernels.builder_pool import with_sass
from fx_explorer.instruments.kernels.kernel_times import kernel_speed, measure_kernel
from fx_explorer.model import Artifact, CardCeiling, Failure, Kernel, KernelBuild, KernelLaunch
from fx_explorer.session import SessionReader

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no GPU here that torch can use"
)

CALLS = 3
ROWS, COLUMNS = 4096, 8192


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from torch._inductor import config

    from fx_explorer.capture.recorder import record

    path = tmp_path_factory.mktemp("gpu") / "s.fxs"
    compiled = torch.compile(lambda x, y: (torch.softmax(x.sin(), -1), x.t() * y))
    x, y = torch.randn(ROWS, COLUMNS, device="cuda"), torch.randn(COLUMNS, ROWS, device="cuda")
    with record(path), config.patch(force_disable_caches=True):
        for _ in range(CALLS):
            compiled(x, y)
    return path


@pytest.fixture(scope="module")
def reader(session: Path) -> SessionReader:
    return SessionReader(session)


def kernels(reader: SessionReader) -> list[Kernel]:
    return reader.rows(Kernel, language="triton")


def test_nothing_failed_to_be_noted(reader: SessionReader) -> None:
    assert kernels(reader)
    assert not [row.message for row in reader.rows(Failure) if row.kind != "unavailable"]


def test_each_kernel_has_one_pick_and_it_is_the_fastest_that_was_timed(
    reader: SessionReader,
) -> None:
    for kernel in kernels(reader):
        builds = reader.rows(KernelBuild, kernel=kernel.id)
        [picked] = [build for build in builds if build.is_picked]
        timed = [build.timing_s for build in builds if build.timing_s]
        assert len(builds) == 1 or picked.timing_s == min(timed)
        assert picked.gpu == torch.cuda.get_device_name()


def test_every_level_of_every_configuration_is_there(session: Path, reader: SessionReader) -> None:
    for kernel in kernels(reader):
        for build in reader.rows(KernelBuild, kernel=kernel.id):
            looked_at = with_sass(session, build)
            texts = {
                level: reader.text(reader.get(Artifact, row).text)
                for level, row in looked_at.levels.items()
            }
            assert set(texts) == {"ttir", "ttgir", "llir", "ptx", "sass"}
            assert re.search(rf"\.entry {kernel.name}\b", texts["ptx"])
            assert '//## File "' in texts["sass"], "with lines"
            assert build.file in texts["ptx"]
            assert build.registers > 0
            assert build.threads == build.options["num_warps"] * 32  # type: ignore[operator]


def test_launches_are_counted_with_a_grid_that_covers_the_data(reader: SessionReader) -> None:
    for kernel in kernels(reader):
        [launch] = reader.rows(KernelLaunch, kernel=kernel.id)
        options = reader.get(KernelBuild, launch.build).options
        sizes = {str(argument["name"]): argument.get("value") for argument in launch.arguments}
        assert launch.count == CALLS
        assert launch.grid[0] * options.get("XBLOCK", 1) >= sizes["xnumel"]  # type: ignore[operator]


def test_a_kernel_is_measured_and_is_no_faster_than_the_card(
    session: Path, reader: SessionReader
) -> None:
    kernel = max(kernels(reader), key=lambda row: row.estimated_bytes)
    time = asyncio.run(measure_kernel(session, kernel.id))
    speed = kernel_speed(reader, kernel)
    assert speed is not None
    assert speed.time == time
    assert {row.kind for row in reader.rows(CardCeiling)} == {
        "memory",
        "fp32",
        "tf32",
        "bf16",
        "fp16",
    }
    assert time.iqr_s < time.median_s
    assert 0.1 < speed.bytes_per_s / speed.ceilings["memory"].rate < 1.2
    asyncio.run(measure_kernel(session, kernel.id))
    assert reader.count(CardCeiling) == 5, "measured once a session"


def test_generated_code_is_that_of_a_compile_without_a_recording(
    session: Path, reader: SessionReader
) -> None:
    from torch._inductor.utils import run_and_get_triton_code

    torch._dynamo.reset()
    compiled = torch.compile(lambda x, y: (torch.softmax(x.sin(), -1), x.t() * y))
    x, y = torch.randn(ROWS, COLUMNS, device="cuda"), torch.randn(COLUMNS, ROWS, device="cuda")
    code = run_and_get_triton_code(compiled, x, y)
    for kernel in kernels(reader):
        source = reader.text(reader.get(Artifact, kernel.artifact).text)
        body = source[source.index("@triton.jit") :].strip()
        assert body in code
