"""These tests check what is said of an integer of a module that changes in each call."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from fx_explorer.findings.every_kind import findings
from tests.capture.recorded import Compile, record


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x + 1


def test_an_integer_of_a_module_is_made_dynamic_by_its_own_option(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        counter = compile_(Counter())
        for _ in range(4):
            counter(torch.ones(2))

    reader = record(tmp_path / "s.fxs", program, backend="eager")
    (finding,) = [row for row in findings(reader) if row.kind == "recompile"]
    settings = [remedy.changes.get("settings", {}) for remedy in finding.remedies]
    assert {"dynamo.allow_unspec_int_on_nn_module": True} in settings
    assert {"compile.dynamic": True} not in settings
