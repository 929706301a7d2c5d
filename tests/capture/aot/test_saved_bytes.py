"""These tests check what the forward keeps for the backward, in bytes, against
``saved_tensors_hooks`` of a function that is built and run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fx_explorer.instruments.memory.saved_values import COMPUTED, saved_total, saved_values
from fx_explorer.instruments.memory.view import memory_table
from fx_explorer.model import Graph
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader
from tests.capture.aot.test_nested_regions import Net
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import in_exhaustive_runs, one_of


class Kept(NamedTuple):
    """Bytes of distinct storages."""

    whole: int
    computed: int
    """Bytes of saved tensors that are not parameters, buffers or inputs."""


def measure(
    path: Path, function: Any, owned: Sequence[torch.Tensor], inputs: Sequence[Any], **options: Any
) -> tuple[Kept, Any]:
    """Return the tensors that a run really keeps, and the session that was recorded of the run."""
    packed: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor)
        return tensor

    def program(compile_: Compile) -> None:
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            compile_(function)(*inputs)

    reader = record(path, program, **options)
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in packed
    }
    there_anyway = {tensor.untyped_storage().data_ptr() for tensor in owned}
    computed = sum(size for pointer, size in storages.items() if pointer not in there_anyway)
    return Kept(sum(storages.values()), computed), reader


def told(reader: SessionReader) -> Kept:
    assert not failures(reader)
    return Kept(saved_total(reader).size_bytes, saved_total(reader, *COMPUTED).size_bytes)


def parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape))


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def in_place(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = x * w
    y.mul_(2)
    return y.sin() * w


def views_of_an_output(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = (x @ w).tanh()
    return y, y.t(), y[0]


def three_parts(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    a, b, c = (x @ w).chunk(3, -1)
    return (a @ b.t()).softmax(-1) @ c


LARGE = parameter(64, 64)

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]


@torch.compiler.nested_compile_region
def region(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x @ w) * F.gelu(x)


CASES: dict[str, Case] = {
    "a region called three times": (
        lambda x, w: region(region(region(x, w), w), w).sin(),
        (leaf(8, 8), parameter(8, 8)),
    ),
    "a transposed parameter": (lambda x, w: (x @ w.t()).relu(), (leaf(8, 6), parameter(5, 6))),
    "a slice of a parameter": (lambda x, w: x * w[:3], (leaf(3, 3), parameter(100, 3))),
    "an input that is a view": (lambda x, w: x * w, (leaf(4, 4), LARGE[10:14, 10:14])),
    "an expanded parameter": (
        lambda x, w: (x * w.expand(8, 8)).sin(),
        (leaf(8, 8), parameter(1, 8)),
    ),
    "as_strided": (
        lambda x, w: x * torch.as_strided(w, (4, 4), (1, 2), 3),
        (leaf(4, 4), parameter(32)),
    ),
    "indices": (lambda x, i: x[i].sin() * x[i + 1], (leaf(10, 4), torch.tensor([1, 2, 3, 3]))),
    "a mask": (lambda x, y: torch.where(x > 0, x * y, y.sin()), (leaf(16), leaf(16))),
    "dropout": (lambda x, w: F.dropout(x @ w, 0.5).relu(), (leaf(8, 8), parameter(8, 8))),
    "views of an output": (views_of_an_output, (leaf(8, 8), parameter(8, 8))),
    "an output that is saved": (lambda x: x.exp().sum() * x.exp(), (leaf(8, 8),)),
    "a tensor that is saved twice": (
        lambda x, y: x * y + x.t().cos() * y.t(),
        (leaf(8, 8), leaf(8, 8)),
    ),
    "changes in place": (in_place, (leaf(8, 8), parameter(8, 8))),
    "parts of one result": (three_parts, (leaf(4, 8), parameter(8, 24))),
    "tied parameters": (lambda x, w: (x @ w).sin() @ w.t(), (leaf(4, 8), parameter(8, 8))),
}


@pytest.mark.parametrize("name", one_of(2, CASES))
def test_storages_are_counted_once_and_whole(tmp_path: Path, name: str) -> None:
    """Without Inductor, whose code would have to be built: AOTAutograd's graphs run as they are."""
    function, inputs = CASES[name]
    really, reader = measure(tmp_path / "s.fxs", function, inputs, inputs, backend="aot_eager")
    assert told(reader) == really
    assert really.whole  # hooks did see something


@pytest.mark.parametrize(
    "name", ["dropout", "changes in place", "parts of one result", "tied parameters"]
)
def test_a_backend_that_names_no_partition_function_keeps_what_torchs_own_cut_keeps(
    tmp_path: Path, name: str
) -> None:
    """Most backends of a file are ``aot_autograd(fw_compiler=…)`` and no more, as this one of
    torch's.
    """
    function, inputs = CASES[name]
    really, reader = measure(
        tmp_path / "s.fxs", function, inputs, inputs, backend="aot_eager_default_partitioner"
    )
    assert told(reader) == really
    assert really.computed
    assert {row.stage for row in reader.rows(Graph)} >= {"joint", "forward"}


def test_symbolic_sizes_are_counted_by_their_hints(tmp_path: Path) -> None:
    inputs = leaf(7, 8), parameter(8, 8)
    options = {"backend": "aot_eager", "dynamic": True}
    really, reader = measure(
        tmp_path / "d.fxs", lambda x, w: (x @ w).sin() * x.shape[0], inputs, inputs, **options
    )
    assert told(reader) == really
    assert not saved_total(reader).unknown_sizes


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.second = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.norm(self.first(x)).relu()).relu()


def owned_by(model: nn.Module, *inputs: torch.Tensor) -> list[torch.Tensor]:
    return [*model.parameters(), *model.buffers(), *inputs]


def test_copies_that_inductor_saves_in_place_of_parameters_and_inputs_are_computed(
    tmp_path: Path,
) -> None:
    model, x = Convolutions(), torch.randn(2, 3, 8, 8)
    really, reader = measure(tmp_path / "c.fxs", model, owned_by(model, x), (x,), build=True)
    assert told(reader) == really
    copies = [value for value in saved_values(reader) if value.saved.kind == "copy"]
    assert len(copies) == 3  # two weights and the input, in channels-last order
    (memory,) = [fact for fact in overview(reader) if fact.topic == "memory"]
    assert "copies of parameters or inputs, in another layout" in memory.detail
    detail = next(row.detail().text for row in memory_table(reader).rows if row.cells[2] == "copy")
    assert "a copy that the compiler made" in detail
    # What is only inspected comes to the same.
    inspected = record(tmp_path / "i.fxs", lambda compile_: compile_(model)(x))
    assert told(inspected) == really


class Narrow(Net):
    """torch 2.13 gives an operand that a region returns to a later buffer of its size: there is
    none here.
    """

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x).tanh()


@in_exhaustive_runs
def test_what_a_nested_region_returns_of_its_inputs_is_no_storage_of_its_own(
    tmp_path: Path,
) -> None:
    model, x = Narrow(), torch.randn(4, 8)
    really, reader = measure(tmp_path / "n.fxs", model, owned_by(model, x), (x,), build=True)
    assert told(reader) == really
    assert really.computed < really.whole


def test_a_view_says_that_it_keeps_its_storage_and_shares_it(tmp_path: Path) -> None:
    function, inputs = CASES["parts of one result"]
    _, reader = measure(tmp_path / "v.fxs", function, inputs, inputs, backend="aot_eager")
    table = memory_table(reader)
    assert any("a view keeps its whole storage" in row.detail().text for row in table.rows)
    shared = [row for row in table.rows if row.cells[0] == "shared"]
    assert shared
    assert "where it is counted" in shared[0].detail().text
