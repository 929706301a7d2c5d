"""These tests compare values kept for the backward because of a graph break with those that
autograd keeps (saved_tensors_hooks).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
import torch

from fx_explorer.instruments.breaks.cut_tensors import KeptAcross
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.instruments.breaks.view import kept_line
from fx_explorer.instruments.memory.view import memory_table
from fx_explorer.report.instrument_entries import graph_break
from tests.capture.recorded import Compile, record

PARTITIONING = "aot_eager_decomp_partition"
"""The name of torch's backend that partitions as Inductor does, and runs the result without
building anything.
"""

BYTES = 8 * 8 * 4


@dataclass
class Kept:
    """Storages that were kept before and behind the break; and by name those that the function held
    at it.
    """

    names: dict[int, str] = field(default_factory=dict)
    before: set[int] = field(default_factory=set)
    behind: set[int] = field(default_factory=set)
    is_behind: bool = False

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        (self.behind if self.is_behind else self.before).add(tensor.untyped_storage().data_ptr())
        return tensor

    @property
    def behind_by_name(self) -> set[str]:
        return {self.names[one] for one in self.behind if one in self.names}

    @property
    def twice_by_name(self) -> set[str]:
        return {self.names[one] for one in self.behind & self.before if one in self.names}


kept = Kept()


@torch.compiler.disable
def look(**held: torch.Tensor) -> None:
    kept.names = {tensor.untyped_storage().data_ptr(): name for name, tensor in held.items()}
    kept.is_behind = True


def program(x: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    product = x @ weight
    shifted = product + 1
    twice = torch.softmax(product, 0)
    unneeded = product * scale
    look(
        product=product,
        shifted=shifted,
        twice=twice,
        unneeded=unneeded,
        x=x,
        weight=weight,
        scale=scale,
    )
    return (shifted.tanh() * twice + unneeded + x @ weight) * 2


def sources(found: list[KeptAcross]) -> set[str]:
    return {one.source.removeprefix("L['").removesuffix("']") for one in found}


@dataclass(frozen=True)
class Told:
    """Told has the values kept across the break, and the names of these in the JSON report and the
    app.
    """

    found: tuple[KeptAcross, ...]
    in_json: list[object]
    in_text: list[str]


@pytest.fixture(scope="module")
def found(told: Told) -> tuple[KeptAcross, ...]:
    return told.found


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    def run(compile_: Compile) -> None:
        x, weight, scale = (torch.randn(8, 8, requires_grad=True) for _ in range(3))
        with torch.autograd.graph.saved_tensors_hooks(kept.pack, lambda tensor: tensor):
            compile_(program)(x, weight, scale).sum().backward()

    with record(
        tmp_path_factory.mktemp("kept") / "s.fxs", run, backend=PARTITIONING, build=True
    ) as reader:
        (one,) = distinct_breaks(reader)
        notice = memory_table(reader).notice
        in_json = graph_break(reader, one)["cost"]["kept_across"]  # type: ignore[index]
        in_text = [kept_line(reader, kept_value) for kept_value in one.cost.kept_across]
    cost = one.cost
    assert notice.endswith(
        f"{cost.kept_twice.description} stand here twice: both sides of a graph break save them "
        "(4)."
    )
    crossing = [row for row in cost.kept_across if row.crosses]
    assert (cost.saved.count, cost.saved.size_bytes) == (len(crossing), BYTES * len(crossing))
    twice = [row for row in cost.kept_across if row.is_kept_twice]
    assert (cost.kept_twice.count, cost.kept_twice.size_bytes) == (len(twice), BYTES * len(twice))
    return Told(cost.kept_across, in_json, in_text)


def test_the_json_report_names_them_as_the_program_and_the_app_do(told: Told) -> None:
    names = [one["source"] for one in told.in_json]  # type: ignore[index]
    assert set(names) == sources(list(told.found))
    assert names == [line.split("  ")[0] for line in told.in_text]


def test_values_that_cross_and_are_kept_behind_are_those_that_autograd_is_given_there(
    found: tuple[KeptAcross, ...],
) -> None:
    inputs = {"x", "weight", "scale"}
    crossing = sources([one for one in found if one.crosses])
    assert crossing == kept.behind_by_name - inputs
    assert crossing >= {"shifted", "twice"}
    assert "unneeded" not in crossing


def test_values_kept_on_both_sides_are_those_that_autograd_is_given_twice(
    found: tuple[KeptAcross, ...],
) -> None:
    """``weight`` and ``x`` are inputs of both, and the product of both needs them."""
    both = sources([one for one in found if one.is_kept_twice])
    assert both == kept.twice_by_name
    assert both >= {"x", "weight"}
    assert {one.source for one in found if not one.crosses} == {"L['x']", "L['weight']"}


def test_without_a_backward_nothing_is_kept(tmp_path: Path) -> None:
    def run(compile_: Compile) -> None:
        with torch.no_grad():
            compile_(program)(*(torch.randn(8, 8) for _ in range(3)))

    with record(tmp_path / "s.fxs", run, backend=PARTITIONING, build=True) as reader:
        (one,) = distinct_breaks(reader)
    assert one.cost.kept_across == ()
