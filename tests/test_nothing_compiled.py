"""These tests use a target in which nothing is compiled: each command that captures it first
reports this, and ends with 2 unless an option says otherwise.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

PROGRAM = """
import torch


class Left(torch.nn.Module):
    @torch.compiler.disable
    def forward(self, x):
        return x + 1


def inputs():
    return (torch.ones(2),)
"""


@pytest.mark.parametrize(
    ("command", "extra", "code"),
    [
        ("capture", (), 2),
        ("report", (), 2),
        ("options", ("--format", "json"), 2),
        ("report", ("--allow-nothing",), 0),
    ],
)
def test_a_capture_without_compilations_ends_with_2(
    command: str,
    extra: tuple[str, ...],
    code: int,
    tmp_path: Path,
    warm_python: str,
    capture_environment: dict[str, str],
    fx_explorer: list[str],
) -> None:
    (tmp_path / "left.py").write_text(PROGRAM)
    arguments = [
        *fx_explorer,
        command,
        "left.py",
        *extra,
        "--python",
        warm_python,
    ]
    environment = {**os.environ, **capture_environment}
    ended = subprocess.run(
        arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == code, ended.stderr
    assert ("nothing was compiled: exit code 2 (0 with --allow-nothing)" in ended.stderr) is (
        code == 2
    )
    assert bool(ended.stdout) is (command != "capture")  # it is answered all the same
