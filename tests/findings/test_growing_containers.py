"""These tests check what is said of lists and dictionaries that a compiled function fills: each
length is compiled, so no limit suffices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fx_explorer.findings.every_kind import findings
from fx_explorer.findings.finding import Finding
from tests.capture.recorded import Compile, record


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.outputs: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.outputs.append(x * 2)
        return x + 1


def fill(table: dict[int, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    table[len(table)] = x * 2
    return x + 1


def total(xs: Sequence[torch.Tensor]) -> torch.Tensor:
    return sum(x.sum() for x in xs)


def fill_a_list(compile_: Compile) -> None:
    kept = compile_(Kept())
    for _ in range(4):
        kept(torch.ones(2))


def fill_a_dictionary(compile_: Compile) -> None:
    compiled, table = compile_(fill), {}
    for _ in range(4):
        compiled(table, torch.ones(2))


def give_lists_of_two_lengths(compile_: Compile) -> None:
    compiled = compile_(total)
    for length in (3, 2, 3, 2):
        compiled([torch.ones(2)] * length)


def give_longer_lists(compile_: Compile) -> None:
    compiled = compile_(total)
    for length in (1, 2, 3, 4):
        compiled([torch.ones(2)] * length)


def the_finding(program: Callable[[Compile], None], path: Path, **config: Any) -> Finding:
    with torch._dynamo.config.patch(**config):
        reader = record(path / "s.fxs", program, backend="eager")
    (finding,) = [row for row in findings(reader) if row.kind.startswith("recompile")]
    return finding


@pytest.mark.parametrize("program", [fill_a_list, fill_a_dictionary])
def test_a_container_that_grows_is_to_be_filled_outside(
    program: Callable[[Compile], None], tmp_path: Path
) -> None:
    finding = the_finding(program, tmp_path)
    assert "valid for one length only" in finding.detail
    assert "outside of the compiled function" in finding.detail
    assert "do not change it" not in finding.detail


def test_a_longer_list_in_each_call_is_not_filled_inside(tmp_path: Path) -> None:
    assert "outside of the compiled" not in the_finding(give_longer_lists, tmp_path).detail


def test_a_container_of_two_lengths_does_not_grow(tmp_path: Path) -> None:
    assert "The function fills it" not in the_finding(give_lists_of_two_lengths, tmp_path).detail


def test_no_higher_limit_is_proposed_for_one_that_grows(tmp_path: Path) -> None:
    finding = the_finding(fill_a_list, tmp_path, recompile_limit=2)
    assert finding.kind == "recompile limit"
    assert "A higher limit only allows more lengths" in finding.detail
    assert not any("recompile_limit =" in remedy.text for remedy in finding.remedies)
