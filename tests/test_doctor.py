"""These tests check ``fx-explorer doctor``: what works, what does not, and what to do."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest

from fx_explorer import cli
from fx_explorer.commands import doctor
from fx_explorer.commands.doctor import (
    DoctorCheck,
    closing_line,
    judge_torch,
    lines_of,
    machine_checks,
    probe,
)

GOOD: dict[str, Any] = {
    "python": "3.11.7",
    "version_info": [3, 11],
    "torch": "2.13.0+cpu",
    "torch_cuda": None,
    "torch_hip": None,
    "gpu": None,
    "triton": None,
    "cache_dir": "/tmp",
}


def checks(**changes: object) -> dict[str, DoctorCheck]:
    return {check.name: check for check in judge_torch("python", {**GOOD, **changes})}


def machine(**environ: str) -> dict[str, DoctorCheck]:
    return {check.name: check for check in machine_checks(environ)}


def fake_python(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_this_interpreter_is_asked_and_fit() -> None:
    """Second source: the interpreter the tests run in."""
    import importlib.metadata

    found = probe(sys.executable)
    assert isinstance(found, dict)
    assert found["torch"].partition("+")[0] == importlib.metadata.version("torch").partition("+")[0]
    assert tuple(found["version_info"]) == sys.version_info[:2]
    assert {check.state for check in judge_torch(sys.executable, found)} == {"ok"}


@pytest.mark.parametrize(
    ("version", "state"),
    [
        ("2.10.1", "problem"),
        ("2.11.0", "ok"),
        ("2.13.0+cu130", "ok"),
        ("2.15.0.dev20260101", "ok"),
        ("2.16.0", "warning"),
    ],
)
def test_torch_must_be_in_the_supported_range(version: str, state: str) -> None:
    assert checks(torch=version)["torch"].state == state
    assert bool(checks(torch=version)["torch"].advice) == (state != "ok")


def test_a_torch_that_does_not_import_is_told_with_the_command_that_installs_it() -> None:
    found = dict(GOOD)
    del found["torch"]
    (_, torch) = judge_torch(
        "/my env/python", {**found, "error": "ModuleNotFoundError: No module named 'torch'"}
    )
    assert torch.state == "problem"
    assert "'/my env/python' -m pip install torch" in torch.advice


def test_an_old_python_is_a_problem() -> None:
    assert checks(version_info=[3, 9])["python"].state == "problem"


def test_the_build_and_the_gpu_are_named() -> None:
    assert "CPU build" in checks()["torch"].found
    assert "CUDA 13.0 build" in checks(torch_cuda="13.0")["torch"].found
    assert checks(torch_cuda="13.0", gpu="NVIDIA H200")["gpu"].found == "NVIDIA H200"
    assert "none, although" in checks(torch_cuda="13.0")["gpu"].found


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exit 3", "ended with status 3"),
        ("echo hello", "no answer"),
        ("echo oh no >&2; exit 1", "oh no"),
        ("kill -9 $$", "-9"),
    ],
)
def test_an_interpreter_that_does_not_answer_is_told(
    tmp_path: Path, script: str, said: str
) -> None:
    found = probe(fake_python(tmp_path / "python", script))
    assert isinstance(found, str)
    assert said in found


def test_an_interpreter_that_is_not_there_is_told() -> None:
    assert probe("/no/such/python") == "cannot be started (No such file or directory)"


def test_an_interpreter_that_chatters_is_understood(tmp_path: Path) -> None:
    """A sitecustomize may print; the answer is the last line."""
    chatter = fake_python(tmp_path / "python", 'echo welcome; echo \'{"python": "3.11"}\'')
    assert probe(chatter) == {"python": "3.11"}


def test_an_interpreter_that_hangs_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PROBE_TIMEOUT_S", 0.2)
    assert probe(fake_python(tmp_path / "python", "exec sleep 60")) == "did not answer within 0.2 s"


def test_a_missing_compiler_matters_only_for_building(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    compiler = machine()["c++ compiler"]
    assert compiler.state == "warning"
    assert "--build" in compiler.advice
    assert "CXX is mine" in machine(CXX="mine")["c++ compiler"].found


def test_a_nearly_full_disk_is_worth_a_look(monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage(10, 9, 1000))
    assert machine()["temporary"].state == "warning"


def test_a_directory_that_cannot_be_written_is_a_problem(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    check = doctor._writable("cache", f"{file}/below", "Choose another.")
    assert check.state == "ok", "its parent can be written, so it can be made"
    unwritable = doctor._writable("cache", "/proc/1/nothing", "Choose another.")
    assert (unwritable.state, unwritable.advice) == ("problem", "Choose another.")


def test_colours_follow_the_environment() -> None:
    assert machine(NO_COLOR="1", COLORTERM="truecolor")["colour"].found.startswith("off")
    assert machine(COLORTERM="truecolor")["colour"].found == "16 million colours"
    assert machine(TERM="xterm-256color")["colour"].found.startswith("256")
    assert machine()["colour"].found == "16 colours"


def test_tmux_needs_a_setting_to_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "native_tool", lambda environ: ())
    assert "set-clipboard" in machine(TMUX="x")["clipboard"].advice
    monkeypatch.setattr(doctor, "native_tool", lambda environ: ("xclip",))
    assert machine()["clipboard"].found == "through xclip"
    assert "OSC 52" in machine(SSH_TTY="/dev/pts/1")["clipboard"].found, (
        "the clipboard of the remote machine is of no use"
    )


def test_an_editor_that_is_not_there_is_worth_a_look() -> None:
    assert machine(EDITOR="no-such-editor-x")["editor"].state == "warning"
    assert machine(EDITOR=sys.executable)["editor"].state == "ok"


def test_a_line_has_sign_word_and_advice() -> None:
    lines = lines_of(
        DoctorCheck("torch", "problem", "cannot be \x1b[31mimported", "Install it."), None
    )
    assert lines[0].split() == ["✗", "torch", "problem", "cannot", "be", "␛[31mimported"]
    assert lines[1].strip() == "→ Install it."


def test_the_last_line_says_whether_it_is_ready() -> None:
    ok, warning, problem = (DoctorCheck(state, state, "") for state in ("ok", "warning", "problem"))  # type: ignore[arg-type]
    assert closing_line([ok]).strip() == "Ready."
    assert "Worth a look: warning" in closing_line([ok, warning])
    assert closing_line([ok, warning, problem]).strip() == "Not ready: problem."


def test_json_holds_the_same_checks(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["doctor", "--format", "json", "--python", str(tmp_path / "none")]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["schema"] == "fx-explorer/doctor/1"
    assert said["checks"][0]["state"] == "problem"
    assert {check["name"] for check in said["checks"]} == {"python", *machine(**os.environ)}


def test_doctor_imports_no_torch() -> None:
    import subprocess

    program = "import sys, fx_explorer.commands.doctor; sys.exit('torch' in sys.modules or 'textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
