"""These tests run ``fx-explorer kernel`` and ``report --kernels`` on a capture for an H100 that
this machine does not have.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from fx_explorer.analysis.kernel_documents import session_gpu
from fx_explorer.instruments.kernels.gpu_limits import (
    NOT_CAPTURED_FOR_A_GPU,
    UNKNOWN_PICK,
    UNKNOWN_RUN_TIME,
)
from fx_explorer.instruments.kernels.report import kernel_text, kernels_text, pass_text, passes_text
from fx_explorer.model import Kernel
from fx_explorer.session import SessionReader
from tests.analysis.kernel_ir.built_sessions import write_kernel
from tests.analysis.kernel_ir.samples import sample
from tests.conftest import Captured
from tests.sessions import write_training_step

ROOT = Path(__file__).parents[1]

needs_gpu_tools = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or shutil.which("g++") is None,
    reason="triton or a C++ compiler is not there",
)

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def run(shared_folder: Path, fx_explorer: list[str]) -> Run:
    """``run(word, …)``: fx-explorer with the cache of this run of the tests."""
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(shared_folder / "cache"),
        "PYTHONPATH": str(ROOT),
    }

    def run_command(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*fx_explorer, *words],
            env=environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run_command


@pytest.fixture(scope="module")
def run_warm(run: Run, warm_python_for_gpus: str) -> Run:
    """The same, whose kernels are built in the warm Python."""
    return lambda *words: run(*words, "--python", warm_python_for_gpus)


@pytest.fixture(scope="module")
def session(captured: Captured, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the session, because builds are kept in it."""
    path = tmp_path_factory.mktemp("captured") / "mlp.fxs"
    return Path(shutil.copy(captured("mlp", gpu="h100"), path))


@needs_gpu_tools
def test_a_kernel_of_a_captured_model_goes_down_to_sass(run_warm: Run, session: Path) -> None:
    listed = run_warm("kernel", str(session))
    names = re.findall(r"^triton_\w+", listed.stdout, re.MULTILINE)
    assert names
    assert UNKNOWN_RUN_TIME in listed.stdout
    shown = run_warm("kernel", str(session), names[0], "--level", "sass")
    assert shown.returncode == 0, shown.stderr
    assert f".text.{names[0]}" in shown.stdout
    assert "EXIT" in shown.stdout
    assert run_warm("kernel", str(session), names[0], "--level", "triton").stdout.startswith(
        "import triton"
    )


@needs_gpu_tools
def test_the_report_has_every_configuration_and_keeps_its_contract(
    run_warm: Run, session: Path
) -> None:
    done = run_warm("report", str(session), "--kernels", "all")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    jsonschema.Draft202012Validator(
        json.loads((ROOT / "docs" / "reference" / "report-schema.json").read_text())
    ).validate(report)
    kernels = [
        kernel for compilation in report["compilations"] for kernel in compilation["kernels"]
    ]
    triton = [kernel for kernel in kernels if kernel["language"] == "triton"]
    assert triton
    for kernel in triton:
        assert all(
            config["registers"] > 0 and config["ptx_lines"] > 0 for config in kernel["configs"]
        )
        moved_s = kernel["estimate"]["bytes"] / 3.35e12
        assert kernel["estimate"]["seconds"] == pytest.approx(max(moved_s, 1.5e-6))
    libraries = [kernel for kernel in kernels if kernel["language"] == "extern"]
    assert all(kernel["configs"] == [] and kernel["estimate"]["flops"] > 0 for kernel in libraries)


@needs_gpu_tools
def test_passes_are_listed_and_each_can_be_shown(run_warm: Run, session: Path) -> None:
    with SessionReader(session) as reader:
        name = next(kernel.name for kernel in reader.rows(Kernel) if kernel.language == "triton")
    listed = run_warm("kernel", str(session), name, "--passes").stdout
    (number,) = re.findall(r"^ *(\d+) +\* +ConvertTritonToTritonGPU", listed, re.MULTILINE)
    assert "ttg.num-warps" in run_warm("kernel", str(session), name, "--pass", number).stdout
    refused = run_warm("kernel", str(session), name, "--pass", "9999")
    assert refused.returncode == 2
    assert "no pass 9999" in refused.stderr


@needs_gpu_tools
def test_a_configuration_that_is_not_there_is_refused(run_warm: Run, session: Path) -> None:
    with SessionReader(session) as reader:
        name = next(kernel.name for kernel in reader.rows(Kernel) if kernel.language == "triton")
    done = run_warm("kernel", str(session), name, "--level", "ptx", "--config", "99")
    assert done.returncode != 0
    assert "no configuration 99" in done.stderr


def test_a_session_without_a_gpu_and_a_name_that_is_not_there_are_refused(
    run: Run, tmp_path: Path
) -> None:
    without = run("kernel", str(write_training_step(tmp_path / "cpu.fxs").path), "kernel")
    assert without.returncode == 2
    assert NOT_CAPTURED_FOR_A_GPU in without.stderr
    written = write_kernel(tmp_path / "s.fxs", sample("h100_softmax"))
    unknown = run("kernel", str(written.path), "conv")
    assert unknown.returncode == 2
    assert "triton_per_fused__softmax_gelu" in unknown.stderr


def test_the_table_says_what_bounds_a_kernel_and_what_limits_it(tmp_path: Path) -> None:
    written = write_kernel(tmp_path / "s.fxs", sample("h100_softmax"))
    with SessionReader(written.path) as reader:
        gpu = session_gpu(reader)
        assert gpu is not None
        kernels = reader.rows(Kernel)
        text = kernel_text(reader, kernels[0], gpu)
        assert "too small on NVIDIA H100 SXM 80 GB to be bound by memory or arithmetic" in text
        assert re.search(r"^ +0 +30 +0 +32 +100 % +warps, registers +", text, re.MULTILINE)
        assert "options: XBLOCK 1, num_warps 8, num_stages 1" in text
        assert UNKNOWN_PICK not in text
        assert "516,000" in kernels_text(reader, kernels, gpu)


def test_passes_as_text() -> None:
    from fx_explorer.instruments.kernels.mlir_passes import passes
    from tests.analysis.kernel_ir.samples import dump

    found = passes(dump())
    assert f"{len(found)} passes, " in passes_text(found)
    (convert,) = (one for one in found if one.argument == "convert-triton-to-tritongpu")
    assert "+ #blocked = #ttg.blocked" in pass_text(convert)
    assert "its result is not printed" in pass_text(found[-1])


def test_in_a_width_names_keep_both_ends_and_the_table_says_what_is_left_out(
    tmp_path: Path,
) -> None:
    written = write_kernel(tmp_path / "s.fxs", sample("h100_softmax"))
    with SessionReader(written.path) as reader:
        gpu = session_gpu(reader)
        assert gpu is not None
        kernels = reader.rows(Kernel)
        listed = kernels_text(reader, kernels, gpu, 60).splitlines()
        one = " ".join(kernel_text(reader, kernels[0], gpu, 60).split())
    heading, row = listed[:2]
    assert max(map(len, (heading, row))) <= 60
    assert row.split()[0][:6] == kernels[0].name[:6]
    assert row.split()[0][-4:] == kernels[0].name[-4:]
    assert "“PTX lines”" in one
    assert "A wider terminal and output to a file show all columns." in one
