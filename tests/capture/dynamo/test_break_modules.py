"""These tests check that a graph break knows the module that was being called when it happened."""

from __future__ import annotations

from pathlib import Path

from fx_explorer import model
from tests.conftest import Captured, OpenedReader

MODEL = """import torch


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(4, 4)

    def forward(self, x):
        x = self.out(x)
        torch._dynamo.graph_break()
        return x + 1


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = Attention()

    def forward(self, x):
        return self.attn(x)


def example_inputs():
    return (torch.ones(2, 4),)
"""


def test_a_break_in_an_inlined_module_is_that_modules(
    tmp_path: Path, captured: Captured, reader: OpenedReader
) -> None:
    file = tmp_path / "nested_break.py"
    file.write_text(MODEL)
    breaks = reader(captured(f"{file}:Net", train=False)).rows(model.GraphBreak)
    assert breaks[0].module == "attn"
