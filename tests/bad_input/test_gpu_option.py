"""These tests check that ``--gpu`` with an unknown GPU, or where nothing is captured, is refused
before anything begins.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import cli

CAPTURING = (
    ["explore"],
    ["capture"],
    ["run"],
    ["kernel"],
    ["report"],
    ["check", "--max-recompiles", "0"],
    ["fix"],
    ["dynamic"],
    ["options"],
    ["diff", "--gpu", "h100"],
)


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert cli.main(list(arguments)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


@pytest.mark.parametrize("name", ["", "voodoo2"])
@pytest.mark.parametrize("command", CAPTURING, ids=lambda command: command[0])
def test_what_is_no_gpu_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str], command: list[str], name: str
) -> None:
    said = refusal(capsys, command[0], "model.py", *command[1:], "--gpu", name)
    assert said.startswith(
        f"fx-explorer: there is no GPU called {name!r}; there are a100, b200, h100, h200, l4, mi300x."
    )


def test_doctor_refuses_an_empty_name_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert "there is no GPU called ''" in refusal(capsys, "doctor", "--gpu", "")


@pytest.mark.parametrize(
    "command",
    [
        *(one for one in CAPTURING if one[0] not in ("capture", "run", "dynamic")),
        ["diff", "other.fxs"],
    ],
    ids=" ".join,
)
def test_a_session_cannot_be_had_for_another_gpu(
    capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    said = refusal(capsys, command[0], "model.fxs", *command[1:], "--gpu", "a100")
    assert said == (
        "fx-explorer: --gpu works on targets: model.fxs is already a capture. Capture its "
        "program with --gpu.\n"
    )


def test_weights_of_a_session_cannot_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--no-weights works on targets" in refusal(capsys, "report", "model.fxs", "--no-weights")


def test_what_would_run_is_refused_for_a_gpu_that_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert "--build cannot be combined with --gpu" in refusal(
        capsys, "run", "script.py", "--gpu", "h100", "--build"
    )
    assert "--bench runs the kernel on this machine's GPU" in refusal(
        capsys, "kernel", "model.py", "triton_", "--gpu", "h100", "--bench"
    )


def test_leaving_out_weights_needs_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("capture", "run"):
        assert "--no-weights needs --gpu" in refusal(capsys, command, "model.py", "--no-weights")
