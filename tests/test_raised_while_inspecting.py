"""These tests check that a program that raises where its graphs run with PyTorch's operators is
built: its compiled code may not raise.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fx_explorer.program.explaining import ran_in_a_graph
from tests.exhaustive import with_others

PROGRAM = """
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.relu = torch.nn.Linear(8, 8), torch.nn.ReLU(inplace=True)

    def forward(self, x):
        h = self.relu(self.linear(x))
        torch._dynamo.graph_break()
        h.mul_(2)
        return {last}


model = Net()
example_inputs = torch.ones(4, 8)
"""


def reported(
    program: str, folder: Path, python: str, environment: dict[str, str]
) -> tuple[subprocess.CompletedProcess[str], dict[str, object]]:
    (folder / "net.py").write_text(program)
    command = [sys.executable, "-m", "fx_explorer", "report", "net.py", "--python", python]
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended, json.loads(ended.stdout)


def test_what_only_eager_mode_raises_is_no_error_of_the_program(
    tmp_path: Path, warm_python: str, capture_environment: dict[str, str]
) -> None:
    program = PROGRAM.format(last="h.sum()")
    ended, report = reported(program, tmp_path, warm_python, capture_environment)
    assert ended.returncode == 0, ended.stderr
    outcome, target = report["outcome"], report["target"]
    assert isinstance(outcome, dict)
    assert isinstance(target, dict)
    assert (outcome["kind"], target["build"]) == ("finished", True)
    assert "the compiled program does not raise" in outcome["message"]
    assert "modified by an inplace operation" in outcome["message"]


def test_what_the_compiled_program_raises_too_is_its_error(
    tmp_path: Path, warm_python: str, capture_environment: dict[str, str]
) -> None:
    program = PROGRAM.format(last="h @ torch.ones(int(h.numel()) + 1)[h.argmax().item() :]")
    ended, report = reported(program, tmp_path, warm_python, capture_environment)
    assert ended.returncode == 3, ended.stderr
    assert isinstance(report["outcome"], dict)
    assert report["outcome"]["kind"] == "raised"


SCRIPT = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

norm = nn.BatchNorm1d(4)


def normed(x):
    return checkpoint(norm, x, use_reentrant=False).relu().sum()


torch.compile(normed)(torch.ones(3, 4, requires_grad=True)).backward()
"""


@pytest.mark.parametrize("trying", with_others([True], [False]))
def test_diagnose_says_of_a_script_that_it_was_not_built_and_builds_it_with_try(
    trying: bool, tmp_path: Path, fx_explorer: list[str], capture_environment: dict[str, str]
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    more = ["--try", "--budget", "1"] if trying else []
    ended = subprocess.run(
        [*fx_explorer, "diagnose", "train.py", *more],
        cwd=tmp_path,
        env={**os.environ, **capture_environment},
        capture_output=True,
        text=True,
        check=False,
    )
    if trying:
        assert ended.returncode == 0, ended.stderr
        assert "No problem was found." in ended.stdout
    else:
        assert ended.returncode == 3
        assert "The program failed while it was inspected" in ended.stdout
        assert "--build shows whether" in ended.stdout


def test_an_error_outside_of_graphs_needs_no_build() -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        1 / 0  # noqa: B018
    assert not ran_in_a_graph(raised.value)
