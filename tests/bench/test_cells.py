"""Cells of a bench in the worker: inputs of other sizes, whether results agree, what is called."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fx_explorer.errors import TargetError
from fx_explorer.model import InputDim, InputSize
from fx_explorer.worker.bench import timing
from fx_explorer.worker.bench.agreement import Reference, agreement, reference_of, weights
from fx_explorer.worker.bench.calls import Caller, observed
from fx_explorer.worker.bench.compiling import uncompiled
from fx_explorer.worker.bench.sizes import with_sizes
from fx_explorer.worker.target.inputs import Arguments
from fx_explorer.worker.target.target import Target


def model(ids: torch.Tensor, mask: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return ids * mask * scale


TARGET = Target("model", model, Arguments((torch.arange(6).reshape(2, 3), torch.ones(2, 3)), {"scale": 2.0}))


def shapes(target: Target) -> list[list[int]]:
    return [list(tensor.shape) for tensor in target.arguments.tensors()]


# sizes


def test_a_batch_changes_every_input_whose_first_size_it_is_and_says_which() -> None:
    changed, told = with_sizes(TARGET, [InputSize(5)])
    assert shapes(changed) == [[5, 3], [5, 3]]
    assert told == ["batch is dimension 0 of ids and mask"]
    assert torch.equal(changed.arguments.args[0], torch.tensor([[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5], [0, 1, 2]]))


def test_named_dimensions_are_changed_and_no_others() -> None:
    changed, told = with_sizes(TARGET, [InputSize(4, (InputDim("ids", 1), InputDim("1", 1))), InputSize(1)])
    assert shapes(changed) == [[1, 4], [1, 4]]
    assert told[0] == "ids:1 is dimension 1 of ids and 1"
    assert shapes(with_sizes(TARGET, [InputSize(7, (InputDim("ids", 1),))])[0]) == [[2, 7], [2, 3]]


@pytest.mark.parametrize(
    ("dim", "words"),
    [
        (InputDim("no", 0), "there is no input 'no': the inputs are ids, mask, scale"),
        (InputDim("ids", 2), "no tensor with a dimension 2"),
        (InputDim("scale", 0), "it is no tensor"),
    ],
)
def test_a_dimension_that_is_not_there_is_refused_with_what_there_is(dim: InputDim, words: str) -> None:
    with pytest.raises(TargetError, match=words):
        with_sizes(TARGET, [InputSize(4, (dim,))])


def test_inputs_without_tensors_have_no_batch() -> None:
    with pytest.raises(TargetError, match="no batch to change"):
        with_sizes(TARGET.with_arguments(Arguments((1, 2))), [InputSize(4)])


# agreement


class Net(torch.nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)
        self.norm = torch.nn.BatchNorm1d(8)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.dropout(self.norm(self.fc(x))), "n": x.shape[0] * torch.ones(1, dtype=torch.int64)}


def caller(net: torch.nn.Module, *, trains: bool = True) -> Caller:
    return Caller(Target("net", net, Arguments((torch.randn(16, 8, generator=torch.Generator().manual_seed(0)),))), net, trains)


def agreed(net: torch.nn.Module, change: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> dict[str, Any]:
    called = caller(net)
    return agreement(reference_of(called), change(observed(called)), weights(called))


def test_the_same_program_gives_equal_results_gradients_among_them_and_keeps_its_state() -> None:
    net = Net()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    found = agreed(net, dict)
    assert found["agreement"] == "equal"
    assert {"output 0", "output 1", "gradient of fc.weight"} <= reference_of(caller(net)).results.keys()
    assert all(
        torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items() if name != "norm.num_batches_tracked"
    )
    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize(("factor", "kind"), [(1 + 1e-7, "close"), (1.01, "wrong")])
def test_a_difference_is_judged_by_the_tolerance_of_torch_testing(factor: float, kind: str) -> None:
    found = agreed(Net(), lambda results: {**results, "output 0": results["output 0"] * factor})
    assert found["agreement"] == kind
    assert found["where"] == "output 0"


def test_a_result_that_is_nearer_to_float64_than_uncompiled_is_not_wrong() -> None:
    exact = torch.full((4,), 1.0, dtype=torch.float64)
    off = torch.full((4,), 1.001)
    reference = Reference({"output 0": off}, {"output 0": exact})
    found = agreement(reference, {"output 0": exact.float()}, [])
    assert found["agreement"] == "as_exact"
    assert found["error"] == 0
    assert found["reference_error"] == pytest.approx(0.001, rel=1e-3)
    assert agreement(dataclasses.replace(reference, exact={}), {"output 0": exact.float()}, [])["agreement"] == "wrong"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda results: {"output 0": results["output 0"]}, "output 1 is missing"),
        (lambda results: {**results, "output 2": results["output 0"]}, "output 2 is new"),
        (lambda results: {**results, "output 0": results["output 0"].double()}, "the dtype of output 0 is torch.float64"),
        (lambda results: {**results, "output 0": results["output 0"][:1]}, r"the shape of output 0 is \[1, 8\]"),
    ],
)
def test_results_of_another_kind_are_wrong(change: Callable[..., dict[str, torch.Tensor]], words: str) -> None:
    called = caller(Net(), trains=False)
    found = agreement(reference_of(called), change(observed(called)), weights(called))
    assert found["agreement"] == "wrong"
    assert pytest.approx(0) == found["largest_difference"]
    assert re.search(words, found["agreement_words"])


def test_nan_at_the_same_place_is_equal_and_nan_alone_is_wrong() -> None:
    nan = torch.tensor([float("nan"), 1.0])
    assert agreement(Reference({"output 0": nan}), {"output 0": nan.clone()}, [])["agreement"] == "equal"
    found = agreement(Reference({"output 0": nan}), {"output 0": torch.tensor([0.0, 1.0])}, [])
    assert found["agreement"] == "wrong"
    assert found["largest_difference"] == float("inf")


def test_a_program_of_chance_is_compared_only_where_it_draws_the_same() -> None:
    assert agreed(Net(dropout=0.5), dict)["agreement"] == "equal"
    found = agreed(Net(dropout=0.5), lambda results: {**results, "output 0": results["output 0"] + 1})
    assert found["agreement"] == "not_compared"
    assert "dropout" in found["agreement_words"]


def test_other_weights_are_not_compared() -> None:
    reference, called = reference_of(caller(Net())), caller(Net())
    assert agreement(reference, observed(called), weights(called))["agreement"] == "not_compared"


# what is called, and for how long


def test_what_the_target_compiled_itself_is_measured_uncompiled() -> None:
    net = Net()
    assert uncompiled(torch.compile(net, backend="eager")) is net
    assert uncompiled(torch.compile(model, backend="eager")) is model
    compiled = Net()
    compiled.compile(backend="eager")
    assert uncompiled(compiled)._compiled_call_impl is None


def test_a_warm_up_ends_when_times_are_stable_and_counts_every_call() -> None:
    calls: list[str] = []
    found = timing.warmed_up(0.5, lambda: calls.append("call"), is_gpu=False)
    assert len(calls) == found.calls - 1
    assert found.first_call_s == 0.5
    assert found.took_s >= 0.5
    assert timing.MIN_CALLS <= found.calls <= timing.MAX_CALLS


def test_the_peak_is_what_is_allocated_at_once_in_a_call() -> None:
    """Second source, by hand: two tensors of 4 MB live at the same time, and then a third beside one."""

    def call() -> None:
        a = torch.ones(1 << 20)
        b = a + 1
        del a
        torch.add(b, 1)

    assert timing.peak_bytes(call, is_gpu=False) == pytest.approx(2 * 4 << 20, abs=100)  # the 1 is a tensor, too
