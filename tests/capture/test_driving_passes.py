"""A pass of the user's at each gate: it shows in the code, both graphs are kept, links still lead to the source, and it is applied
once however often another way is taken."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from fx_explorer.model import GATES, Changes, Command, Direction, Gate, Intervention, PassFile
from tests.capture.driving import Driven, Given, drive

SWAP = """import torch

def pass_(gm):
    for node in gm.graph.nodes:
        if node.op == "call_function" and node.target is {old}:
            node.target = {new}
"""
ATEN = "torch.ops.aten.{}.default"
SWAPS: dict[str, tuple[str, str, str, str]] = {
    "pre_grad": ("torch.sin", "torch.cos", ".sin()", ".cos()"),
    "joint": (ATEN.format("sin"), ATEN.format("sinh"), ".sin()", ".sinh()"),
    "partition": (ATEN.format("sin"), ATEN.format("tan"), ".sin()", ".tan()"),
    "post_grad": (ATEN.format("sin"), ATEN.format("atan"), ".sin()", ".atan()"),
}
"""Gate → what to replace by what, and both in the code."""


class Wave(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.up(x)) * 2


def swap(folder: Path, gate: Gate, direction: Direction = "", name: str = "") -> PassFile:
    file = folder / f"{name or gate}.py"
    file.write_text(SWAP.format(old=SWAPS[gate][0], new=SWAPS[gate][1]))
    return PassFile(gate, str(file), direction)


def driven(folder: Path, *commands: Given, **how: object) -> Driven:
    return drive(folder / "s.fxs", commands, model=Wave, **how)  # type: ignore[arg-type]


def edits(driven: Driven, name: str) -> list[tuple[Gate | None, Direction]]:
    return [(row.gate, row.direction) for row in driven.reader.rows(Intervention, compilation=driven.way(name).id)]


@pytest.mark.parametrize("gate", SWAPS)
def test_a_pass_shows_in_the_code_and_stays_in_every_way_from_there(gate: Gate, tmp_path: Path) -> None:
    """From before the gate it is applied again, from later on it is in what was kept: the code is the same."""
    first = Command("again", gate="dynamo", changes=Changes(passes=(swap(tmp_path, gate),)))
    more = [Command("again", gate=start, compilation="0/0~1") for start in GATES]
    result = driven(tmp_path, first, *more)
    assert result.said("refused") == []
    *_, old, new = SWAPS[gate]
    assert old in result.codes()["forward"]
    assert new in result.codes("0/0~1")["forward"]
    assert old not in result.codes("0/0~1")["forward"]
    expected = edits(result, "0/0~1")
    assert expected == ([(gate, "forward"), (gate, "backward")] if gate in ("partition", "post_grad") else [(gate, "")])
    for position, start in enumerate(GATES, 2):
        assert result.codes(f"0/0~{position}") == result.codes("0/0~1"), start
        assert edits(result, f"0/0~{position}") == (expected if GATES.index(start) <= GATES.index(gate) else [])
