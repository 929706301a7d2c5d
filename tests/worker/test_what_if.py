"""These tests check that a waiting worker can say whether compiled code would take other inputs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fx_explorer.model import Command
from tests.worker.driving import converse

AT_MOST_512 = (
    "x.size()[0] <= 512" if torch.__version__.startswith("2.11.") else "8*x.size()[0] <= 4096"
)

pytestmark = pytest.mark.usefixtures("warm_workers")

PROGRAM = """
import torch

BATCH = 4


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.fc(x))


model = Net()
example_inputs = (torch.ones(BATCH, 8),)
"""


SCRIPT = """
import torch

BATCH = 4


@torch.compile(backend="eager")
def step(x):
    return torch.relu(x)


step(torch.ones(BATCH, 8))
"""

GELU = """
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.gelu(x).sum()


model = Net()
batch = torch.ones(4, 8)
torch._dynamo.mark_dynamic(batch, 0)
example_inputs = (batch,)
"""
"""Inductor's C++ asks for a bound of what it sums over."""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "net.py"
    file.write_text(PROGRAM)
    return file


def ask(expression: str) -> Command:
    return Command("what_if", expression=expression)


async def test_other_inputs_are_asked_about_at_the_pause_and_at_the_end(program: Path) -> None:
    wider = ask("torch.ones(2 * BATCH, 8)")
    found = await converse(
        program, [wider, Command("go"), wider, ask("(torch.zeros(BATCH, 8),)")], pause="dynamo"
    )
    rejected = "forward would recompile: [0/0] fails at tensor 'x' size mismatch at index 0. expected 4, actual 8"
    accepted = "[0/0] would be reused: all its guards hold"
    assert [one.text for one in found.answers if one.text != "continuing"] == [
        rejected,
        rejected,
        accepted,
    ]
    assert found.gates == ["dynamo", "end"]
    assert [row.name for row in found.compilations] == [
        "0/0"
    ]  # nothing was compiled for the answers


async def test_what_lowering_asked_of_a_size_counts_too(tmp_path: Path) -> None:
    program = tmp_path / "gelu.py"
    program.write_text(GELU)
    found = await converse(
        program,
        [Command("go"), ask("torch.ones(512, 8)"), ask("torch.ones(513, 8)")],
        pause="dynamo",
    )
    assert [one.text for one in found.answers if one.text != "continuing"] == [
        "[0/0] would be reused: all its guards hold",
        f"forward would recompile: [0/0] fails at {AT_MOST_512}",
    ]


async def test_an_expression_that_does_not_work_is_refused_with_its_error(program: Path) -> None:
    wrong = ["torch.ones(", "torch.ones(unknown)", "torch.ones(-1)", "(1, 2, 3)"]
    found = await converse(program, map(ask, wrong))
    assert [one.kind for one in found.answers] == ["refused"] * 4
    syntax, name, raised, count = (one.text for one in found.answers)
    assert "is not a Python expression" in syntax
    assert "name 'unknown' is not defined" in name
    assert "torch.ones(-1) raises RuntimeError" in raised
    assert "Net.forward cannot be called with these inputs: too many positional arguments" in count


async def test_the_first_compiled_function_of_a_script_is_asked(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    found = await converse(script, [ask("torch.ones(BATCH, 8)"), ask("torch.ones(9, 8)"), ask("")])
    accepted, rejected, refused = found.answers
    assert accepted.text == "[0/0] would be reused: all its guards hold"
    assert "fails at tensor 'x' size mismatch at index 0. expected 4, actual 9" in rejected.text
    assert refused.kind == "refused"
    assert "A script has no example inputs" in refused.text


async def test_at_a_gate_of_one_graph_it_is_too_early_to_ask(program: Path) -> None:
    found = await converse(program, [ask("torch.ones(4, 8)")], pause="step")
    assert found.answers[0].text == (
        "Guards can be checked with other inputs once the program has ended: continue first."
    )
