"""These tests check the findings about the structure of a program: unrolled loops, and what looks
like one and is none. The second source is the number of operations that Dynamo captured.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from fx_explorer.findings.unrolled_loops import unrolled_loops
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, record
from tests.exhaustive import with_others


class Recurrent(nn.Module):
    """A loop over steps in Python: each iteration needs the one before it."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.cell = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.steps):
            x = torch.tanh(self.cell(x)) * 0.5 + x.sin() - x.cos()
        return x


class Stacked(nn.Module):
    """A loop over modules: the same lines, each time for another module."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(4, 4), nn.GELU()) for _ in range(layers)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x) + x.sin() * 0.5 - x.cos()
        return x


def counting_down(x: torch.Tensor) -> torch.Tensor:
    step = 0
    while step < 30:
        x = x.sin() + x.cos() * 2 - x
        step += 1
    return x


def recorded(tmp_path: Path, function: object, *inputs: torch.Tensor) -> SessionReader:
    def program(compile_: Compile) -> None:
        compile_(function)(*inputs)

    return record(tmp_path / "s.fxs", program, backend="eager")


def of_kind(reader: SessionReader, kind: str) -> list[Finding]:
    return [finding for finding in findings(reader) if finding.kind == kind]


@pytest.mark.parametrize("steps", with_others([25], [40]))
def test_a_loop_over_steps_is_counted_by_iteration(tmp_path: Path, steps: int) -> None:
    counters.clear()
    reader = recorded(tmp_path, Recurrent(steps), torch.ones(2, 4))
    captured = counters["stats"]["calls_captured"]
    (loop,) = unrolled_loops(reader)
    assert loop.iterations == steps
    assert loop.of_graph == captured
    assert loop.operations == captured
    (finding,) = of_kind(reader, "unrolled loop")
    assert f"its {steps} iterations are {captured} of the graph's {captured}" in finding.text
    assert finding.place is not None
    line = Path(__file__).read_text().splitlines()[finding.place.line]
    assert line.strip() == "for _ in range(self.steps):"


def test_a_while_loop_is_found_as_well(tmp_path: Path) -> None:
    (finding,) = of_kind(recorded(tmp_path, counting_down, torch.ones(4)), "unrolled loop")
    assert "its 30 iterations" in finding.text
    assert any("while_loop" in remedy.text for remedy in finding.remedies)


@pytest.mark.parametrize(
    "function",
    [Stacked(30), Recurrent(4)],
    ids=["a loop over modules", "a short loop"],
)
def test_what_is_no_unrolled_loop(tmp_path: Path, function: nn.Module) -> None:
    assert not of_kind(recorded(tmp_path, function, torch.ones(2, 4)), "unrolled loop")


def test_two_lengths_are_one_finding_that_names_both(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        model = compile_(Recurrent(20))
        model(torch.ones(2, 4))
        model.steps = 32
        model(torch.ones(2, 4))

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    (finding,) = of_kind(reader, "unrolled loop")
    assert "It was compiled for several numbers of iterations: 20, 32." in finding.detail
