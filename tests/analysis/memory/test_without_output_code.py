"""These tests check the report on a step's memory where a backend writes no output code, against
what autograd saves uncompiled.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd

from fx_explorer.instruments.memory.report import memory_json, memory_report
from fx_explorer.instruments.memory.saved_values import choices, why
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, record


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.sigmoid(self.up(x))).sum()


def step(compile_: Compile) -> None:
    compile_(Net())(torch.randn(8, 32)).backward()


def recorded(path: Path, backend: str, program: object = step) -> SessionReader:
    return record(path / "s.fxs", program, backend=backend)  # type: ignore[arg-type]


def saved_uncompiled() -> int:
    """The bytes of the storages that autograd saves and that are no parameters and no inputs."""
    network, x = Net(), torch.randn(8, 32)
    known = {one.untyped_storage().data_ptr() for one in (*network.parameters(), x)}
    found: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        found[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        network(x)
    return sum(size for storage, size in found.items() if storage not in known)


def test_what_is_saved_is_told_and_why_there_is_no_peak(tmp_path: Path) -> None:
    with recorded(tmp_path, "aot_eager") as reader:
        report = memory_report(reader)
        told = json.loads(memory_json(report))
        empty = TABLES["step_memory"](reader).empty
    assert "backend aot_eager writes none" in report.sentences[0]
    assert "--measure" in report.sentences[0]
    assert report.sentences[1].startswith("The forward saves ")
    assert not told["is_known"]
    assert told["saved_bytes"] == saved_uncompiled() == 8 * 64 * 4
    assert report.sentences[1] in empty


@pytest.mark.parametrize(
    ("backend", "gradient", "why_not"),
    [
        ("eager", True, "backend eager does not use AOTAutograd"),
        ("aot_eager", False, "nothing here needs a gradient"),
    ],
)
def test_where_nothing_is_known_to_be_saved_the_reason_is_told(
    backend: str, gradient: bool, why_not: str, tmp_path: Path
) -> None:
    def program(compile_: Compile) -> None:
        with torch.set_grad_enabled(gradient):
            compile_(Net())(torch.randn(8, 32))

    with recorded(tmp_path, backend, program) as reader:
        sentences = memory_report(reader).sentences
    assert len(sentences) == 2
    assert why_not in sentences[1]


def mine(module: torch.fx.GraphModule, inputs: object) -> object:
    return make_boxed_func(module.forward)


def test_who_decided_without_a_cut_is_told(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        torch.compile(Net(), backend=aot_autograd(fw_compiler=mine))(torch.randn(8, 32)).backward()

    with record(tmp_path / "s.fxs", program) as reader:
        reasons = {why(row) for row in choices(reader).values() if row.choice == "saved"}
    assert reasons == {
        "saved because the backward needs it: backend mine splits the graph with torch's default_partition, "
        "which saves whatever the backward needs"
    }
