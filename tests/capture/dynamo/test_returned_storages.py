"""These tests check that the search for the program's references to its graphs' results neither
keeps nor releases them.
"""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fx_explorer import model
from fx_explorer.capture.dynamo.returned_storages import PythonReferences, storage_of, tensors_in
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import in_exhaustive_runs


class Watched(nn.Module):
    """Watched notes after each break which of the values that crossed a break still exist."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(torch.randn(8, 8))
        self.values: list[weakref.ref[torch.Tensor]] = []
        self.alive: list[list[bool]] = []
        self.kept: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = x @ self.weight
        self.note(first)
        second = first.sin()
        self.keep(second)
        third = (first + 1) @ self.weight
        self.note(third)
        return third.sum()

    @torch.compiler.disable
    def keep(self, value: torch.Tensor) -> None:
        self.kept.append(value.detach()[:1])
        self.note(value)

    @torch.compiler.disable
    def note(self, value: torch.Tensor) -> None:
        self.look()
        self.values.append(weakref.ref(value))

    def look(self) -> None:
        self.alive.append([reference() is not None for reference in self.values])


def step(network: Watched, compiled: Any) -> list[list[bool]]:
    with torch.no_grad():
        result = compiled(torch.ones(4, 8))
    network.look()
    assert result.shape == ()
    return network.alive


@in_exhaustive_runs
def test_values_that_cross_breaks_live_as_long_as_without_recording(tmp_path: Path) -> None:
    torch._dynamo.reset()
    bare = Watched()
    expected = step(bare, torch.compile(bare, backend="eager"))
    torch._dynamo.reset()
    recorded = Watched()
    reader = record(tmp_path / "s.fxs", lambda compile_: step(recorded, compile_(recorded)))
    assert recorded.alive == expected
    assert not failures(reader)
    assert any(False in alive for alive in expected), "nothing was dropped, so nothing is shown"


def test_results_are_looked_at_where_a_backward_begins_and_not_where_one_is_traced(
    tmp_path: Path,
) -> None:
    network = Watched()

    def program(compile_: Compile) -> None:
        compile_(network)(torch.ones(4, 8)).backward()

    rows = record(tmp_path / "s.fxs", program).rows(model.ReturnedStorage)
    held = {row.size_bytes: row.at_end for row in rows}
    assert held[4] == "held"  # the sum, whose backward runs
    assert [row.at_end for row in rows].count("held") == 2  # and what a view is kept of
    assert "" not in held.values()


def test_built_graphs_run_as_torch_made_them(tmp_path: Path) -> None:
    def program(compile_: Compile) -> None:
        compile_(lambda x: x @ x)(torch.ones(2, 2))

    assert not record(tmp_path / "s.fxs", program, build=True).rows(model.ReturnedStorage)


@pytest.fixture
def references() -> PythonReferences:
    return PythonReferences()


def test_references_of_python_are_counted_without_those_of_autograd(
    references: PythonReferences,
) -> None:
    value = torch.ones(3, requires_grad=True) * 2
    reference = weakref.ref(value)
    assert references.count(reference) == 1
    several = [value, {"x": value}]
    assert references.count(reference) == 3
    product = value * value
    assert references.count(reference) == 3
    del several, value
    assert reference() is not None  # autograd has it
    assert references.count(reference) == 0
    del product
    assert reference() is None


def test_all_tensors_of_a_storage_are_found_by_what_the_collector_knows(
    references: PythonReferences,
) -> None:
    value = torch.zeros(4)
    views = [value[:2], value.detach()]
    (found,) = tensors_in([storage_of(value)]).values()
    assert {id(reference()) for reference in found} == {id(value), *map(id, views)}
    assert references.holds(found)
