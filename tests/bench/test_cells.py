"""These tests check cells of a bench in the worker: inputs of other sizes, whether results agree,
what is called.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fx_explorer.capture.compiled_inside import is_compiled
from fx_explorer.errors import TargetError
from fx_explorer.instruments.bench.measure import call_timing
from fx_explorer.instruments.bench.measure.agreement import (
    Reference,
    agreement,
    agreement_otherwise,
    content,
    reference_of,
)
from fx_explorer.instruments.bench.measure.calls import (
    Caller,
    NetworkState,
    observed,
    uncompiled,
    with_sizes,
)
from fx_explorer.instruments.bench.measure.path_while_compiling import answering_as_compiled
from fx_explorer.model import InputDim, InputSize
from fx_explorer.program.inputs import Arguments
from fx_explorer.program.target import Target


def model(ids: torch.Tensor, mask: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
    return ids * mask * scale


TARGET = Target(
    "model", model, Arguments((torch.arange(6).reshape(2, 3), torch.ones(2, 3)), {"scale": 2.0})
)


def shapes(target: Target) -> list[list[int]]:
    return [list(tensor.shape) for tensor in target.arguments.tensors()]


# sizes


def test_a_batch_changes_every_input_whose_first_size_it_is_and_says_which() -> None:
    changed, told = with_sizes(TARGET, [InputSize(5)])
    assert shapes(changed) == [[5, 3], [5, 3]]
    assert told == ["batch is dimension 0 of ids and mask"]
    assert torch.equal(
        changed.arguments.args[0],
        torch.tensor([[0, 1, 2], [3, 4, 5], [0, 1, 2], [3, 4, 5], [0, 1, 2]]),
    )


def test_named_dimensions_are_changed_and_no_others() -> None:
    changed, told = with_sizes(
        TARGET, [InputSize(4, (InputDim("ids", 1), InputDim("1", 1))), InputSize(1)]
    )
    assert shapes(changed) == [[1, 4], [1, 4]]
    assert told[0] == "ids:1 is dimension 1 of ids and 1"
    assert shapes(with_sizes(TARGET, [InputSize(7, (InputDim("ids", 1),))])[0]) == [[2, 7], [2, 3]]


@pytest.mark.parametrize(
    ("dim", "words"),
    [
        (InputDim("no", 0), "there is no input 'no': the inputs are ids, mask, scale"),
        (InputDim("ids", 2), "no tensor with a dimension 2"),
        (InputDim("scale", 0), "it is not a tensor"),
    ],
)
def test_a_dimension_that_is_not_there_is_refused_with_what_there_is(
    dim: InputDim, words: str
) -> None:
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
        return {
            "y": self.dropout(self.norm(self.fc(x))),
            "n": x.shape[0] * torch.ones(1, dtype=torch.int64),
        }


def caller(net: torch.nn.Module, *, trains: bool = True) -> Caller:
    return Caller(
        Target(
            "net", net, Arguments((torch.randn(16, 8, generator=torch.Generator().manual_seed(0)),))
        ),
        net,
        trains,
    )


Results = dict[str, torch.Tensor]


def reference_for(called: Caller) -> Reference:
    return reference_of(called, NetworkState(called.target.network))


def both_calls(called: Caller) -> list[Results]:
    """Return the results of a contender that is the program itself: with the example inputs, and
    with other values.
    """
    state = NetworkState(called.target.network)
    return [observed(one, state) for one in (called, called.with_other_values())]


def agreed(
    called: Caller, change: Callable[[Results], Results], *, call: int = 0
) -> dict[str, Any]:
    """Return the comparison of the results when one of the calls is changed."""
    reference, found = reference_for(called), both_calls(called)
    return agreement(
        reference,
        [change(one) if i == call else one for i, one in enumerate(found)],
        content(called),
    )


def test_the_same_program_gives_equal_results_gradients_among_them_and_keeps_its_state() -> None:
    net = Net()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    found = agreed(caller(net), dict)
    assert found["agreement"] == "equal"
    names = reference_for(caller(net)).results[0].keys()
    assert {
        "output 0",
        "output 1",
        "gradient of fc.weight",
        "buffer norm.running_mean",
        "input 0 after the call",
    } <= names
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


@pytest.mark.parametrize(("factor", "kind"), [(1 + 1e-5, "equal"), (1.001, "differs")])
def test_a_difference_is_judged_by_the_tolerance_of_same(factor: float, kind: str) -> None:
    found = agreed(
        caller(Net()), lambda results: {**results, "output 0": results["output 0"] * factor}
    )
    assert found["agreement"] == kind
    assert found["where"] == "output 0"


NAMES = ("output 0", "gradient of fc.weight", "buffer norm.running_mean", "input 0 after the call")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("call", [0, 1])
def test_whatever_a_call_gives_or_leaves_behind_is_compared_in_the_second_call_too(
    name: str, call: int
) -> None:
    """A contender may be right once and give the same again (a stale cache), or lose what is
    changed in place.
    """
    found = agreed(caller(Net()), lambda results: {**results, name: results[name] + 1}, call=call)
    assert found["agreement"] == "differs"
    assert found["where"] == (f"{name}, with other values" if call else name)


def one(
    ours: torch.Tensor, theirs: torch.Tensor, exact: torch.Tensor | None = None
) -> dict[str, Any]:
    reference = Reference(
        [{"output 0": theirs}], [{"output 0": exact}] if exact is not None else []
    )
    return agreement(reference, [{"output 0": ours}], [])


def test_a_result_that_is_nearer_to_float64_than_uncompiled_is_not_wrong() -> None:
    exact, off = torch.full((4,), 1.0, dtype=torch.float64), torch.full((4,), 1.001)
    found = one(exact.float(), off, exact)
    assert found["agreement"] == "within_error"
    assert found["error"] == 0
    assert found["reference_error"] == pytest.approx(0.001, rel=1e-3)
    assert one(exact.float(), off)["agreement"] == "differs"


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_not_finite_where_the_exact_result_is_differs(number: float) -> None:
    exact = torch.ones(4, dtype=torch.float64)
    some, whole = exact.float(), torch.full((4,), number)
    some[1] = number
    for ours in (some, whole):
        found = one(ours, exact.float() * 1.0001, exact)
        assert found["agreement"] == "differs"
        assert "not finite where eager mode's is" in found["agreement_words"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda results: {k: v for k, v in results.items() if k != "output 1"},
            "output 1 is missing",
        ),
        (lambda results: {**results, "output 2": results["output 0"]}, "output 2 is new"),
        (
            lambda results: {**results, "output 0": results["output 0"].double()},
            "output 0 has dtype torch.float64",
        ),
        (
            lambda results: {**results, "output 0": results["output 0"][:1]},
            r"output 0 has shape \[1, 8\]",
        ),
    ],
)
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_results_of_another_kind_are_wrong_chance_or_not(
    change: Callable[[Results], Results], words: str, dropout: float
) -> None:
    found = agreed(caller(Net(dropout), trains=False), change)
    assert found["agreement"] == "differs"
    assert found["largest_difference"] == 0
    assert re.search(words, found["agreement_words"])


def test_nan_at_the_same_place_is_equal_and_nan_alone_is_wrong() -> None:
    nan = torch.tensor([float("nan"), 1.0])
    assert one(nan.clone(), nan)["agreement"] == "equal"
    found = one(torch.tensor([0.0, 1.0]), nan)
    assert found["agreement"] == "differs"
    assert found["largest_difference"] == float("inf")


def test_a_program_of_chance_is_compared_only_where_it_draws_the_same() -> None:
    assert agreed(caller(Net(dropout=0.5)), dict)["agreement"] == "equal"
    found = agreed(
        caller(Net(dropout=0.5)), lambda results: {**results, "output 0": results["output 0"] + 1}
    )
    assert found["agreement"] == "not_compared"
    assert "dropout" in found["agreement_words"]


@pytest.mark.parametrize(("factor", "kind"), [(1.0, "equal"), (1.001, None)])
def test_a_program_of_chance_is_compared_where_it_can_draw_eagers_numbers(
    factor: float, kind: str | None
) -> None:
    """What Inductor does: it draws numbers of its own, unless ``fallback_random`` is set."""
    called = caller(Net(dropout=0.5), trains=False)

    def contender(x: torch.Tensor) -> dict[str, torch.Tensor]:
        if not torch._inductor.config.fallback_random:
            torch.rand(3)
        results = called.function(x)
        return {**results, "y": results["y"] * factor}

    other = dataclasses.replace(called, function=contender)
    reference, state = reference_for(called), NetworkState(called.target.network)
    agreed = agreement(reference, both_calls(other), content(other))
    assert agreed["agreement"] == "not_compared"
    again = agreement_otherwise(reference, other, state, agreed)
    assert again.get("agreement") == kind
    if kind:
        assert "fallback_random" in again["agreement_words"]


@pytest.mark.parametrize(
    ("with_tf32", "without_it", "kind", "words"),
    [
        (1.05, 1.0, "differs", "TF32 causes the difference: with TF32 switched off"),
        (1.05, 1.05, "differs", "results differ too: output 0"),
        (1.0, 1.05, "differs", "results differ too: output 0"),
    ],
)
def test_with_tf32_switched_off_it_is_said_whether_results_still_differ(
    with_tf32: float, without_it: float, kind: str, words: str
) -> None:
    called = caller(Net(), trains=False)

    def contender(x: torch.Tensor) -> dict[str, torch.Tensor]:
        results = called.function(x)
        factor = with_tf32 if torch.backends.cudnn.allow_tf32 else without_it
        return {**results, "y": results["y"] * factor}

    assert torch.backends.cudnn.allow_tf32, "torch's default"
    other = dataclasses.replace(called, function=contender)
    reference = reference_for(called)
    reference = dataclasses.replace(reference, without_tf32=reference.results)
    agreed = agreement(reference, both_calls(other), content(other))
    if agreed["agreement"] == "equal":  # it is not compared once more
        agreed |= {"agreement": "within_error", "error": 2e-7, "reference_error": 1e-7}
    again = agreement_otherwise(reference, other, NetworkState(called.target.network), agreed)
    assert again["agreement"] == kind
    assert words in again["agreement_words"]
    assert torch.backends.cudnn.allow_tf32


def test_chance_in_one_result_excuses_no_other() -> None:
    found = agreed(
        caller(Net(dropout=0.5)), lambda results: {**results, "output 1": results["output 1"] + 1}
    )
    assert (found["agreement"], found["where"]) == ("differs", "output 1")


def test_a_program_that_counts_its_calls_is_not_said_to_be_of_chance() -> None:
    calls = [0]

    def counting(x: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return x * calls[0]

    called = Caller(
        Target("counting", counting, Arguments((torch.ones(3),))), counting, trains=False
    )
    found = agreement(reference_for(called), both_calls(called), content(called))
    assert found["agreement"] == "not_compared"
    assert "between two calls of the program in eager mode, too" in found["agreement_words"]


def test_other_parameters_and_other_inputs_are_not_compared() -> None:
    called = caller(Net())
    others = [1 + number for number in content(called)]
    assert (
        agreement(reference_for(called), both_calls(called), others)["agreement"] == "not_compared"
    )
    other = dataclasses.replace(
        called, target=called.target.with_arguments(Arguments((torch.ones(16, 8),)))
    )
    assert (
        agreement(reference_for(called), both_calls(other), content(other))["agreement"]
        == "not_compared"
    )


def test_nan_among_the_parameters_does_not_keep_from_comparing() -> None:
    net = Net()
    net.register_buffer("unknown", torch.tensor([float("nan")]))
    assert agreed(caller(net), dict)["agreement"] == "equal"


def test_without_room_for_float64_the_rest_is_compared_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "fx_explorer.instruments.bench.measure.agreement._free_bytes", lambda caller: 100
    )
    reference = reference_for(caller(Net()))
    assert (
        "the run in float64 is missing (the model does not fit into memory in float64)"
        in reference.about_exact
    )
    assert reference.results[0]
    assert not reference.exact


class Empty(torch.nn.ModuleList):
    """A module whose length, and so its truth, is that of an empty list."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def test_a_parameter_that_the_call_writes_to_is_told_where_eager_does_not() -> None:
    net = Net()
    called = caller(net, trains=False)

    def contender(x: torch.Tensor) -> object:
        with torch.no_grad():
            net.fc.weight.mul_(1.01)
        return net(x)

    reference = reference_for(called)
    before = net.fc.weight.clone()
    other = dataclasses.replace(called, function=contender)
    found = agreement(reference, both_calls(other), content(other))
    assert found["agreement"] == "differs"
    assert "parameter fc.weight is written to, unlike in eager mode" in found["agreement_words"]
    assert torch.equal(net.fc.weight, before)


def test_a_model_in_sixteen_bits_is_held_against_float32_where_it_cannot_run_in_float64() -> None:
    class Narrow(torch.nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.dtype == torch.float64:
                raise TypeError("no kernel for float64")
            return super().forward(x)

    torch.manual_seed(0)
    net = Narrow(64, 64).to(torch.bfloat16)
    net.register_buffer("frequencies", torch.ones(4))  # as models in 16 bits have in 32
    x = torch.randn(32, 64).to(torch.bfloat16)
    called = Caller(Target("net", net, Arguments((x,))), net, trains=False)
    reference = reference_for(called)
    assert "so both are compared with a float32 run" in reference.about_exact
    assert {one["output 0"].dtype for one in reference.exact} == {torch.float32}
    found = agreed(called, lambda results: {**results, "output 0": results["output 0"] * 1.1})
    assert found["agreement"] == "differs"
    assert found["reference_error"] > 0


def test_what_stays_float32_in_the_run_in_float64_is_named_and_compared() -> None:
    def partly(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.float(), -1)

    called = Caller(Target("partly", partly, Arguments((torch.randn(8, 8),))), partly, trains=False)
    reference = reference_for(called)
    assert reference.about_exact == "in the float64 run, output 0 stays torch.float32"
    assert reference.exact


def test_a_module_without_length_has_gradients_too() -> None:
    assert "gradient of weight" in reference_for(caller(Empty())).results[0]


def test_sparse_results_are_compared() -> None:
    def sparse(x: torch.Tensor) -> torch.Tensor:
        return x.to_sparse()

    called = Caller(Target("sparse", sparse, Arguments((torch.eye(3),))), sparse, trains=False)
    assert (
        agreement(reference_for(called), both_calls(called), content(called))["agreement"]
        == "equal"
    )


# what is called, and for how long


def test_what_the_target_compiled_itself_is_measured_uncompiled() -> None:
    net = Net()
    assert uncompiled(torch.compile(net, backend="eager")) is net
    assert uncompiled(torch.compile(model, backend="eager")) is model
    compiled = Net()
    compiled.compile(backend="eager")
    assert uncompiled(compiled)._compiled_call_impl is None


def test_what_the_author_left_to_python_stays_so() -> None:
    disabled = torch.compiler.disable(model)
    assert uncompiled(disabled) is disabled
    assert not is_compiled(disabled)


def test_sizes_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(TargetError, match="dimension 0 of ids gets two sizes: 2 and 7"):
        with_sizes(TARGET, [InputSize(2, (InputDim("ids", 0),)), InputSize(7)])


def test_a_warm_up_ends_when_times_are_stable_and_counts_every_call() -> None:
    calls: list[str] = []
    found = call_timing.warmed_up(0.5, lambda: calls.append("call"), is_gpu=False)
    assert len(calls) == found.calls - 1
    assert found.first_call_s == 0.5
    assert found.took_s >= 0.5
    assert call_timing.MIN_CALLS <= found.calls <= call_timing.MAX_CALLS


def test_the_peak_is_what_is_allocated_at_once_in_a_call() -> None:
    """Second source, by hand: two tensors of 4 MB live at the same time, and then a third beside
    one.
    """

    def call() -> None:
        a = torch.ones(1 << 20)
        b = a + 1
        del a
        torch.add(b, 1)

    assert call_timing.peak_bytes(call, is_gpu=False) == pytest.approx(
        2 * 4 << 20, abs=100
    )  # the 1 is a tensor, too


def test_a_call_does_not_walk_over_the_network_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is timed is the program's call, and nothing of ours that grows with the model."""
    called = caller(Net())
    called.call()
    walked: list[str] = []
    walk = torch.nn.Module.named_parameters
    monkeypatch.setattr(
        torch.nn.Module,
        "named_parameters",
        lambda *given, **named: walked.append("") or walk(*given, **named),
    )
    called.call()
    dataclasses.replace(called, trains=False).call()
    assert not walked


@pytest.mark.parametrize(
    "ask",
    [
        torch.compiler.is_compiling,
        torch._dynamo.is_compiling,
        lambda: torch.compiler.is_dynamo_compiling(),
    ],
)
def test_whoever_asks_is_answered_as_dynamo_does_and_named_inside_the_block_only(
    ask: Callable[[], bool],
) -> None:
    assert not ask()
    with answering_as_compiled() as lines:
        assert ask()
    assert not ask()
    assert sys.getprofile() is None
    assert [line.rpartition(":")[0] for line in lines] == ["tests/bench/test_cells.py"]
