"""These tests check what is said of the place of torch.compile: a function around a module that
breaks where the module does not. The second source is what the same program does with torch.compile on the
module.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from fx_explorer.errors import TargetError
from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, record


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) + x


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


class BreakingNet(Net):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            torch._dynamo.graph_break()
        return x.sum().item() + x


class Reporting(nn.Module):
    """Breaks at two lines around a module that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        y: torch.Tensor = self.net(x)
        torch._dynamo.graph_break()
        return y.softmax(-1)


class BreakingLastNet(Net):
    """All of its operations are in one graph, and a line behind them breaks."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = super().forward(x)
        torch._dynamo.graph_break()
        return x


net = Net()
breaking_net = BreakingNet()
breaking_last_net = BreakingLastNet()


def step(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    y: torch.Tensor = net(x)
    torch._dynamo.graph_break()
    return y.sum()


def step_of_breaking_net(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    y: torch.Tensor = breaking_net(x)
    torch._dynamo.graph_break()
    return y.sum()


def step_of_breaking_last_net(x: torch.Tensor) -> torch.Tensor:
    torch._dynamo.graph_break()
    y: torch.Tensor = breaking_last_net(x)
    torch._dynamo.graph_break()
    return y.sum()


def step_with_one_line(x: torch.Tensor) -> torch.Tensor:
    y: torch.Tensor = net(x)
    torch._dynamo.graph_break()
    return y.sum()


def recorded(path: Path, function: Callable[..., Any], **request: Any) -> SessionReader:
    def program(compile_: Compile) -> None:
        compile_(function)(torch.ones(2, 4, requires_grad=True))

    return record(path, program, backend="eager", **request)


def placements(reader: SessionReader) -> list[Finding]:
    return [finding for finding in findings(reader) if finding.kind == "placement"]


@pytest.mark.parametrize(
    ("function", "named", "paths"),
    [(step, "net inside", ["G.net"]), (Reporting(), "net inside", ["net"])],
    ids=["function", "module"],
)
def test_the_module_without_a_break_is_named_and_compiled_alone_it_has_none(
    function: Callable[..., Any], named: str, paths: list[str], tmp_path: Path
) -> None:
    (finding,) = placements(recorded(tmp_path / "before.fxs", function))
    assert named in finding.text
    assert "at 2 lines" in finding.text
    (remedy,) = finding.remedies
    assert remedy.changes == {"compile_modules": paths}
    counters.clear()
    reader = recorded(tmp_path / "after.fxs", function, compile_modules=tuple(paths))
    assert not counters["graph_break"]
    assert counters["stats"]["unique_graphs"] == 1
    assert not findings(reader)


@pytest.mark.parametrize(
    "function", [step_of_breaking_net, step_of_breaking_last_net, step_with_one_line]
)
def test_no_place_is_better(function: Callable[..., Any], tmp_path: Path) -> None:
    assert not placements(recorded(tmp_path / "s.fxs", function))


def test_each_block_of_a_list_is_compiled_by_itself(tmp_path: Path) -> None:
    counters.clear()
    recorded(tmp_path / "s.fxs", Net(), compile_modules=("layers.*",))
    assert counters["stats"]["unique_graphs"] == 1  # one code serves the three
    assert counters["stats"]["calls_captured"] == 3  # linear, relu, add


@pytest.mark.parametrize("path", ["G.nothing", "L.net", "G.net.nothing", "G"])
def test_a_path_that_leads_nowhere_is_an_error_that_names_it(path: str, tmp_path: Path) -> None:
    with pytest.raises(TargetError, match=f"{path} is not known"):
        recorded(tmp_path / "s.fxs", step, compile_modules=(path,))
