"""These tests run ``fx-explorer kernel`` on a session of a real GPU: what torch built and ran there
is shown, and nothing is built again.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import torch

from fx_explorer.cli import main
from fx_explorer.model import Artifact, CardCeiling, KernelBuild, KernelLaunch, KernelTime
from fx_explorer.session import SessionReader, SessionWriter
from tests.worker.launched import launched_session

NAME = "triton_poi_fused_add_0"
SCHEMA = Path(__file__).parents[1] / "docs" / "reference" / "report-schema.json"
PTX = ".version 8.7\n.target sm_90a\n"


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "s.fxs"
    kernel = launched_session(path, "import triton\n", NAME)
    with SessionWriter(path) as writer:
        ptx = writer.add(
            Artifact(0, 1, "ptx", "kernel", "forward", NAME, "ptx", writer.text(PTX), 2)
        )
        first = {
            "threads": 256,
            "registers": 16,
            "spill_bytes": 0,
            "stack_bytes": 0,
            "shared_bytes": 0,
        }
        options: dict[str, object] = {"XBLOCK": 512, "num_warps": 8, "num_stages": 1}
        writer.update(
            KernelBuild(
                1, kernel.id, 0, options, "NVIDIA H200", "built", toolchain="triton 3.6.0", timing_s=4e-6,
                is_picked=True, levels={"ptx": ptx}, **first,
            )
        )  # fmt: skip
        writer.add(
            KernelBuild(
                0,
                kernel.id,
                1,
                {**options, "XBLOCK": 1024},
                "NVIDIA H200",
                "failed",
                error="left out",
            )
        )
        writer.add(KernelLaunch(0, kernel.id, 1, (), 3, ()))
    return path


def test_configurations_stand_with_the_autotuners_times_and_its_pick(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kernel", str(session), "add"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[:3] == [
        NAME,
        "built and run by torch on NVIDIA H200 (triton 3.6.0)",
        "bound by memory on NVIDIA H200 SXM 141 GB; at least 10.0 µs a call (estimate, not run)",
    ]
    [first] = [line for line in told.splitlines() if line.strip().startswith("0 ")]
    assert first.split() == [
        "0",
        "512",
        "16",
        "0",
        "0",
        "100",
        "%",
        "warps",
        "2",
        "4.00",
        "µs",
        "picked",
    ]
    assert "launched 7 times with a grid of 1 x 1 x 1 blocks (xnumel 32)" in told
    assert "launched 3 times with still other sizes" in told


def test_without_a_name_every_kernel_is_told(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kernel", str(session)]) == 0
    assert NAME in capsys.readouterr().out


def test_a_measurement_is_told_with_the_kernel(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionWriter(session) as writer:
        writer.add(KernelTime(0, 1, 1, {}, "NVIDIA H200", 2e-6, 1e-7, 400, 1e-6))
        writer.add(CardCeiling(0, "NVIDIA H200", "memory", 4e12, "copy"))
    assert main(["kernel", str(session), NAME]) == 0
    assert f"{NAME} on NVIDIA H200: 2.00 µs (median of 400 runs" in capsys.readouterr().out


def test_the_report_has_times_pick_and_launches(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(session)]) == 0
    report = json.loads(capsys.readouterr().out)
    jsonschema.validate(report, json.loads(SCHEMA.read_text()))
    [kernel] = report["compilations"][0]["kernels"]
    assert [(one["picked"], one["autotuner_s"], one["error"]) for one in kernel["configs"]] == [
        (True, 4e-6, None),
        (False, None, "left out"),
    ]
    assert [(one["count"], one["grid"], len(one["arguments"])) for one in kernel["launches"]] == [
        (1, [1, 1, 1], 1),
        (7, [1, 1, 1], 3),
        (3, [], 0),
    ]


def test_the_report_has_occupancy_and_estimate(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(session)]) == 0
    [kernel] = json.loads(capsys.readouterr().out)["compilations"][0]["kernels"]
    assert kernel["configs"][0]["occupancy"]["share"] == 1
    assert kernel["estimate"]["bound"] == "memory"
    assert kernel["estimate"]["seconds"] == pytest.approx(48e6 / 4.8e12)


def test_without_a_number_the_configuration_is_the_one_that_ran(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionReader(session) as reader, SessionWriter(session) as writer:
        first, second = reader.rows(KernelBuild)
        artifact = writer.add(
            Artifact(0, 1, "ptx", "kernel", "forward", NAME, "ptx", writer.text("the pick\n"), 1)
        )
        writer.update(replace(first, is_picked=False))
        writer.update(replace(second, is_picked=True, state="built", levels={"ptx": artifact}))
    assert main(["kernel", str(session), NAME, "--level", "ptx"]) == 0
    assert capsys.readouterr().out == "the pick\n"
    assert main(["kernel", str(session), NAME, "--level", "ptx", "--config", "0"]) == 0
    assert capsys.readouterr().out == PTX


def test_a_level_is_printed_from_the_session(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kernel", str(session), NAME, "--level", "ptx"]) == 0
    assert capsys.readouterr().out == PTX
    assert main(["kernel", str(session), NAME, "--level", "triton"]) == 0
    assert capsys.readouterr().out == "import triton\n"
    assert main(["kernel", str(session), NAME, "--level", "sass"]) == 2
    assert main(["kernel", str(session), NAME, "--level", "ptx", "--config", "9"]) == 2
    assert main(["kernel", str(session), NAME, "--passes"]) == 2
    assert "passes are for a virtual GPU" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, so nothing is refused")
def test_a_benchmark_without_a_gpu_is_refused(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kernel", str(session), NAME, "--bench", "--trust"]) == 2
    assert "finds no GPU here" in capsys.readouterr().err


def test_a_benchmark_needs_the_name_of_a_kernel(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["kernel", str(session), "--bench"]) == 2
    assert "give its NAME" in capsys.readouterr().err


def test_a_library_that_was_timed_beside_templates_is_named(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with SessionWriter(session) as writer:
        options: dict[str, object] = {"library": "mm"}
        writer.add(
            KernelBuild(
                0, 1, 2, options, "NVIDIA H200", "built", "library", name="mm", timing_s=3e-6
            )
        )
    assert main(["kernel", str(session), NAME]) == 0
    told = capsys.readouterr().out
    heading, *_ = [line for line in told.splitlines() if line.startswith("config ")]
    assert heading.split()[:4] == ["config", "XBLOCK", "library", "registers"]
    assert "in all configurations: num_warps 8, num_stages 1" in told
    [library] = [line for line in told.splitlines() if " mm " in line]
    assert library.split()[-2:] == ["3.00", "µs"]
