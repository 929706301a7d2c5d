"""These tests check the options that are named as the reason of a library call: with the other
value that is named, there is no such call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from fx_explorer.answers.graphs_and_kernels import of_decisions
from fx_explorer.errors import UsageError
from fx_explorer.instruments.decisions.figures import Explained, explained_decisions
from tests.capture.recorded import record

INPUTS = (torch.randn(8, 8), torch.randint(0, 8, (8, 8)), torch.randn(8, 8))

REDUCES = "cpp.fallback_scatter_reduce_sum"
RANDOM = "fallback_random"


def scattered(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return x.scatter_add(0, index, source)


def put(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return x.index_put((index[0],), source, accumulate=True)


def dropped(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(source)


def library_calls(
    path: Path, function: Callable[..., Any], config: dict[str, Any]
) -> list[Explained]:
    def program(compile_it: Callable[[Any], Any]) -> None:
        with torch._inductor.config.patch(config):
            compile_it(function)(*INPUTS)

    with record(path, program) as session:
        decisions = explained_decisions(session)
    calls = [each for each in decisions if each.decision.kind == "library call"]
    return [each for each in calls if "randint" not in each.kernel.name]


@contextmanager
def deterministic(value: bool) -> Iterator[None]:
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(value)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)


@pytest.mark.parametrize(
    ("function", "option", "value"),
    [(scattered, REDUCES, True), (dropped, RANDOM, True)],
)
def test_with_the_other_value_there_is_no_library_call(
    function: Callable[..., Any], option: str, value: bool, tmp_path: Path
) -> None:
    name = f"torch._inductor.config.{option}"
    calls = library_calls(tmp_path / "a.fxs", function, {option: value})
    assert calls
    for call in calls:
        assert f"because {name} = {value}" in call.reason.text
        assert call.reason.change.startswith(f"{name} = {not value}: ")
    assert library_calls(tmp_path / "b.fxs", function, {option: not value}) == []


def test_deterministic_algorithms_are_named(tmp_path: Path) -> None:
    with deterministic(True):
        (call,) = library_calls(tmp_path / "a.fxs", put, {})
    assert "because torch.are_deterministic_algorithms_enabled() = True" in call.reason.text
    with deterministic(False):
        assert library_calls(tmp_path / "b.fxs", put, {}) == []


def test_an_operation_that_no_option_decides_about_names_none(tmp_path: Path) -> None:
    (call,) = library_calls(tmp_path / "a.fxs", ordered, {})
    assert "torch._inductor.config" not in call.reason.text
    assert call.reason.change == ""


def largest(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return x.scatter_reduce(0, index, source, reduce="amax")


def counted(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return torch.zeros(8, 8, dtype=torch.int64).scatter_add(0, index, index)


@pytest.mark.parametrize("is_on", [True, False])
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (largest, 'its reduction is "amax", not a sum'),
        (counted, "the tensor that it adds to is int64"),
    ],
)
def test_a_reason_that_no_option_changes_is_named_with_all_that_hold(
    function: Callable[..., Any], reason: str, is_on: bool, tmp_path: Path
) -> None:
    (call,) = library_calls(tmp_path / "a.fxs", function, {REDUCES: is_on})
    assert reason in call.reason.text
    assert call.reason.change == ""
    also = function is counted and is_on and torch.get_num_threads() > 1
    assert (f"{REDUCES} is on with several threads" in call.reason.text) == also
    assert call.decision.reason.startswith("use_scatter_fallback(")


def ordered(x: torch.Tensor, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return torch.sort(x)[0]


def test_why_takes_an_operation_a_node_and_a_line(tmp_path: Path) -> None:
    def program(compile_it: Callable[[Any], Any]) -> None:
        compile_it(scattered)(*INPUTS)

    line = scattered.__code__.co_firstlineno + 1
    with record(tmp_path / "a.fxs", program) as session:
        for about in ("scatter_add", "aten.scatter_reduce_", f"{Path(__file__).name}:{line}"):
            first = of_decisions(session, about).rows[0]
            assert (first["about"], first["node"]) == ("library call", "scatter_add")
        with pytest.raises(UsageError, match="no decision about a kernel, node or line"):
            of_decisions(session, "softmax")
