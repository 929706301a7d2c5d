"""These tests check that a write into a tensor which AOTAutograd gets wrong is named, and that writes
which it gets right are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import fx

from fx_explorer.instruments.numerics.measure.functionalization import (
    _wrong_writes,
    operation_name,
    writes_into_a_tensor,
)
from fx_explorer.model import NumericsFinding
from tests.numerics.test_located_faults import learned

UNFOLDED = """import torch

def model(table):
    windows = table.unfold(1, 1, 5)
    windows.add_(windows)
    return table

example_inputs = (torch.arange(22.0).view(2, 11),)
"""


def boost(table: torch.Tensor) -> torch.Tensor:
    """torch has this wrong: pytorch/pytorch#198102."""
    table = table * 1
    windows = table.unfold(1, 1, 5)
    windows.add_(windows)
    return table


def healthy(table: torch.Tensor) -> torch.Tensor:
    flat = table.view(-1)
    flat[2:4] += 1
    table.t()[0] = 3.0
    table[:, 1].mul_(2)
    return torch.add(table, 1, out=torch.empty_like(table))


def dropped(table: torch.Tensor) -> torch.Tensor:
    """Random numbers are the same in both runs."""
    return table.bernoulli_(0.5) + table.normal_()


def wrong(
    function: Callable[..., Any],
) -> tuple[list[NumericsFinding], list[str], list[str]]:
    """Return the findings of a function, the writes that are recognised, and what is not compared."""
    found: list[NumericsFinding] = []
    writes: list[str] = []
    not_compared: list[str] = []

    def backend(graph_module: fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        nodes = [node for node in graph_module.graph.nodes if writes_into_a_tensor(node)]
        writes.extend(operation_name(node) for node in nodes)

        def call(*inputs: Any) -> Any:
            found.extend(_wrong_writes(graph_module, inputs, not_compared))
            return graph_module(*inputs)

        return call

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(torch.arange(22.0).view(2, 11))
    return found, writes, not_compared


def test_a_write_into_an_unfolded_view_is_named() -> None:
    (finding,), writes, _ = wrong(boost)
    assert writes == ["Tensor.add_"]
    assert finding.stage == "aot"
    assert finding.code == "windows.add_(windows)"
    (of_the_write, _) = finding.reasons
    assert "which Tensor.unfold makes (windows = table.unfold(1, 1, 5))" in of_the_write
    assert "in eager mode" in of_the_write


@pytest.mark.parametrize("function", [healthy, dropped])
def test_right_writes_are_not_named(function: Callable[..., Any]) -> None:
    found, writes, not_compared = wrong(function)
    assert not found
    assert not not_compared
    assert len(writes) >= 2, "the writes were not recognised"


def test_numerics_names_the_write_and_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], warm_workers: None
) -> None:
    code, answer = learned(tmp_path, capsys, UNFOLDED)
    assert code == 1
    finding = answer["finding"]
    assert (finding["stage"], finding["line"]) == ("aot", 5)
    assert any(
        "The first operator that differs is add_ (Tensor.add_) at program.py:5" in sentence
        for sentence in answer["verdict"]
    ), answer["verdict"]
