"""These tests check that arguments passed on by a decorator have the names of the user's function:
in a model of transformers, whose every forward is wrapped, and in decorators of the test's own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fx_explorer.instruments.fixes.dynamic_marks import marks
from fx_explorer.instruments.guards.guard_tree import explained_checks
from fx_explorer.instruments.recompiles.causes import causes
from fx_explorer.model import Compilation
from fx_explorer.overview.view_tables import TABLES
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import in_exhaustive_runs


def handing_on(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def handed_on(*given: Any, **named: Any) -> Any:
        return function(*given, **named)

    return handed_on


def putting_first(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def put_first(self: nn.Module, *given: Any) -> Any:
        return function(self, given[0] * 2, *given)

    return put_first


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    @handing_on
    @handing_on
    def forward(
        self, x: torch.Tensor, scales: dict[str, float], *rest: torch.Tensor
    ) -> torch.Tensor:
        return self.linear(x) * scales["all"] + sum(rest)


class Doubled(Net):
    @putting_first
    def forward(self, twice: torch.Tensor, once: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return self.linear(twice) + once


def added(*terms: torch.Tensor) -> torch.Tensor:
    return both(terms[0], terms[1])


def both(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left + right


def names_of(reader: SessionReader) -> dict[str, str] | None:
    return reader.rows(Compilation)[0].argument_names


def checked(reader: SessionReader) -> set[str]:
    assert failures(reader) == []
    return {
        one.name
        for one in explained_checks(reader)
        if one.check.kind in ("TENSOR_MATCH", "EQUALS_MATCH")
    }


@in_exhaustive_runs
def test_a_model_of_transformers_called_without_names(tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel  # takes each process of the tests 4 s

    config = BertConfig(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        attn_implementation="eager",
    )
    model = BertModel(config).eval()

    def program(compiled: Compile) -> None:
        called = compiled(model)
        for length in (8, 12):
            called(torch.ones(1, length, dtype=torch.long), torch.ones(1, length))

    with record(tmp_path / "s.fxs", program, backend="eager") as reader:
        assert {"input_ids", "attention_mask"} <= checked(reader)
        cause = next(one for one in causes(reader) if one.is_cause)
        assert cause.description == "size 1 of input_ids was 8 and now is 12"
        assert "torch._dynamo.mark_dynamic(input_ids, 1)" in cause.remedy
        assert "args[" not in cause.remedy + cause.plain_guard
        # The mark that is tried without an edit has torch's name: nothing else does it.
        assert marks(reader)[0].source.partition(":")[0] == "L['args'][0]"
        said = [
            cell for table in TABLES.values() for row in table(reader).rows for cell in row.cells
        ]
        assert [text for text in map(str, said) if "args[0]" in text] == []


def test_what_several_decorators_hand_on_and_what_is_within_it(tmp_path: Path) -> None:
    def program(compiled: Compile) -> None:
        called = compiled(Net())
        called(torch.ones(2, 8), {"all": 2.0}, torch.ones(8), torch.ones(1))

    with record(tmp_path / "s.fxs", program, backend="eager") as reader:
        assert {"x", "scales['all']"} <= checked(reader)


def test_another_position_is_found_where_it_is_bound_and_not_counted(tmp_path: Path) -> None:
    with record(
        tmp_path / "s.fxs", lambda compiled: compiled(Doubled())(torch.ones(2, 8)), backend="eager"
    ) as reader:
        assert names_of(reader) == {"L['given'][0]": "once"}
        assert "once" in checked(reader)


def test_a_function_of_ones_own_keeps_its_names(tmp_path: Path) -> None:
    with record(
        tmp_path / "s.fxs",
        lambda compiled: compiled(added)(torch.ones(2), torch.ones(2)),
        backend="eager",
    ) as reader:
        assert names_of(reader) is None
        assert {"terms[0]", "terms[1]"} <= checked(reader)


class Timed:
    """A decorator that is a class."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class Scoring(nn.Module):
    @torch.no_grad()
    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return tokens * mask


class Waves:
    def __call__(self, wave: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return wave * gain

    @torch.no_grad()
    def run(self, signal: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        return signal + noise


@torch.inference_mode()
def infer(prompt: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return prompt @ table


@Timed
def timed(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left - right


def scaled(value: torch.Tensor, factor: torch.Tensor, *, bias: float) -> torch.Tensor:
    return value * factor + bias


AROUND_WHICH_TORCH_PUTS_A_FUNCTION = {
    "a decorated forward": (Scoring(), ("tokens", "mask")),
    "an object that is called": (Waves(), ("wave", "gain")),
    "a decorated method": (Waves().run, ("signal", "noise")),
    "a decorated function": (infer, ("prompt", "table")),
    "a decorator that is a class": (timed, ("left", "right")),
    "a partial": (functools.partial(scaled, bias=2.0), ("value", "factor")),
    "an argument of a partial": (
        functools.partial(scaled, torch.eye(2), bias=2.0),
        ("value", "factor"),
    ),
    "a partial of a function of many arguments": (
        functools.partial(added, torch.eye(2)),
        ("terms[0]", "terms[1]"),
    ),
}


@pytest.mark.parametrize("which", AROUND_WHICH_TORCH_PUTS_A_FUNCTION)
def test_what_torch_does_not_compile_by_itself_has_the_names_of_its_function(
    tmp_path: Path, which: str
) -> None:
    called, expected = AROUND_WHICH_TORCH_PUTS_A_FUNCTION[which]
    held = len(called.args) if isinstance(called, functools.partial) else 0

    def program(compiled: Compile) -> None:
        compiled(called)(*(torch.eye(2) for _ in expected[held:]))

    with record(tmp_path / "s.fxs", program, backend="eager") as reader:
        checks = [one for one in explained_checks(reader) if one.check.kind == "TENSOR_MATCH"]
        assert failures(reader) == []
        assert tuple(one.name for one in checks) == expected
