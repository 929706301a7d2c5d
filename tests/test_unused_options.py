"""These tests check that an option that says how to capture is refused where nothing is captured."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from fx_explorer.cli import main
from fx_explorer.session import SessionWriter

OPTIONS = [
    "--frontend all",
    "--mode max-autotune",
    "--backend eager",
    "--dynamic",
    "--no-dynamic",
    "--fullgraph",
    "--build",
]
MORE = [
    "--option max_fusion_size=8",
    "--call f",
    "--inputs 3",
    "--train",
    "--device cpu",
    "--stance default",
    "--use-caches",
]
THE_DEFAULT = ["--no-build", "--backend inductor", "--frontend-limit 120", "--device="]
"""Given, and of no other value than without."""

COMMANDS = [
    ["explore"],
    ["report"],
    ["graph"],
    ["support"],
    ["check", "--max-guards", "9"],
    ["fix"],
    ["options"],
    ["memory"],
]


@pytest.fixture
def session(tmp_path: Path) -> Path:
    path = tmp_path / "s.fxs"
    SessionWriter(path).finish()
    return path


@pytest.fixture
def package(tmp_path: Path) -> Path:
    path = tmp_path / "p.pt2"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("p/data/aotinductor/model/a.wrapper.cpp", "int main() {}")
    return path


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", [*OPTIONS, *MORE, *THE_DEFAULT])
def test_an_option_of_capturing_is_refused_for_a_saved_session(
    command: list[str], option: str, session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, str(session), *option.split()]) == 2
    told = capsys.readouterr().err
    assert (
        f"{option.split()[0].rstrip('=')} works on targets: {session} is already a capture" in told
    )
    assert told.count("\n") == 1


@pytest.mark.parametrize("option", ["--build", "--no-build", "--backend inductor"])
def test_two_sessions_are_compared_without_capturing(
    option: str, session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", str(session), str(session), *option.split()]) == 2
    assert f"{option.split()[0]} works on targets" in capsys.readouterr().err


def test_of_a_ledger_that_is_saved_nothing_is_built(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ledger", str(session), "--build"]) == 2
    assert "--build works on targets" in capsys.readouterr().err
    assert main(["ledger", str(session)]) == 2
    assert "has no ledger" in capsys.readouterr().err


def test_a_bench_that_is_saved_is_not_measured_with_a_default_either(
    session: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", str(session), "--no-train"]) == 2
    assert "--train works on targets" in capsys.readouterr().err
    assert main(["bench", str(session), "--format", "json"]) == 2
    assert "has no bench" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["explore"], ["report"], ["graph"], ["capture"]])
@pytest.mark.parametrize("option", [*OPTIONS, *MORE, *THE_DEFAULT, "--gpu h100", "--no-weights"])
def test_an_option_of_capturing_is_refused_for_a_package(
    command: list[str],
    option: str,
    package: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*command, str(package), *option.split()]) == 2
    assert (
        f"{option.split()[0].rstrip('=')} works on targets: {package} is compiled already"
        in capsys.readouterr().err
    )
    assert not (tmp_path / "p.fxs").exists()


@pytest.mark.parametrize("option", ["--python python3", "--timeout 3", "--allow-nothing"])
def test_a_package_is_kept_without_a_worker_to_choose(
    option: str,
    package: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["capture", str(package), *option.split()]) == 2
    assert f"{option.split()[0]} works on targets" in capsys.readouterr().err
    assert main(["capture", str(package), "--trust", "-o", "kept.fxs"]) == 0
