"""These tests check ``doctor --gpus`` and ``doctor --gpu NAME``."""

from __future__ import annotations

import json
import os
import stat
from importlib import metadata
from pathlib import Path

import pytest

from fx_explorer import cli
from fx_explorer.gpus import find_gpu, known_gpus

ALL_HOOKS = 15


def doctor(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    return cli.main(["doctor", *arguments]), capsys.readouterr().out


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_every_number_is_listed_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    ended, printed = doctor(capsys, "--gpus")
    assert ended == 0
    lines = printed.splitlines()
    for name in known_gpus():
        for number, source in find_gpu(name).sources.items():
            assert any(
                line.split()[0] == number and line.endswith(source)
                for line in lines
                if line.strip()
            )


def test_the_list_as_json_can_be_read_back(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(doctor(capsys, "--gpus", "--format", "json")[1])
    assert [gpu["name"] for gpu in listed["gpus"]] == list(known_gpus())


def test_everything_is_found_for_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("triton")
    ended, printed = doctor(capsys, "--gpu", "l4", "--format", "json")
    checks = json.loads(printed)["checks"]
    found = {check["name"]: check["found"] for check in checks}
    assert ended == 0, checks
    assert sum(check["name"] == "hook" for check in checks) == ALL_HOOKS
    assert found["target"] == "cuda:89"
    assert found["attention"] == "fused (flash)"
    assert found["training"].endswith("Triton kernels, forward and backward")
    assert found["machine code"].startswith("ptx, cubin of triton_")


@pytest.fixture
def with_triton_of_2023(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stands before the one that is installed."""
    told = tmp_path / "first" / "triton-2.1.0.dist-info" / "METADATA"
    told.parent.mkdir(parents=True)
    told.write_text("Metadata-Version: 2.1\nName: triton\nVersion: 2.1.0\n")
    (tmp_path / "first" / "triton").mkdir()
    (tmp_path / "first" / "triton" / "__init__.py").write_text("__version__ = '2.1.0'\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "first"))


@pytest.mark.usefixtures("with_triton_of_2023")
def test_a_triton_of_another_version_is_named_beside_torchs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ended, printed = doctor(capsys, "--gpu", "h100", "--format", "json")
    checks = {check["name"]: check for check in json.loads(printed)["checks"]}
    torch = metadata.version("torch")
    assert ended == 1
    assert checks["versions"]["state"] == "warning"
    assert checks["versions"]["found"] == f"torch {torch} and triton 2.1.0"
    assert f"triton 2.1.0 is installed, but torch {torch} needs 3." in checks["versions"]["advice"]
    assert checks["hook"]["found"] == "Triton's driver: module 'triton' has no attribute 'runtime'"


def test_where_triton_cannot_be_found_it_is_not_blamed_on_the_compiler(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['triton'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ended, printed = doctor(capsys, "--gpu", "h100", "--format", "json")
    (check,) = json.loads(printed)["checks"]
    assert (ended, check["name"]) == (1, "triton")
    assert "needs triton, which" in check["found"]


def test_without_a_compiler_it_says_what_to_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    ended, printed = doctor(capsys, "--gpu", "h100")
    assert ended == 1
    assert "there is no C++ compiler here (g++, clang++, c++). Install g++ or set CXX." in printed


def test_an_unknown_gpu_is_a_mistake_of_the_users(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--gpu", "voodoo2"]) == 2
    assert "there are a100" in capsys.readouterr().err


def test_an_interpreter_that_dies_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ended, printed = doctor(
        capsys, "--gpu", "h100", "--python", script(tmp_path / "python", "echo gone >&2; exit 7")
    )
    assert ended == 1
    assert "ended with status 7: gone" in printed


def test_an_interpreter_that_is_not_there_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ended, printed = doctor(capsys, "--gpu", "h100", "--python", os.fspath(tmp_path / "none"))
    assert ended == 1
    assert "cannot be started (No such file or directory)" in printed
