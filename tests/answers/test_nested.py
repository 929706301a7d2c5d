"""These tests check the answer about graphs that another graph runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.compiler import nested_compile_region

from fx_explorer.answers.graphs_and_kernels import of_kernels
from fx_explorer.answers.of_nested import of_nested
from fx_explorer.answers.of_text import of_search
from fx_explorer.errors import UsageError
from fx_explorer.session import SessionReader
from tests.capture.recorded import record


@nested_compile_region
def block(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ weight).softmax(-1)


def shared(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = block(x, weight)
    return torch.cond(x.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (x,))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    def program(compile_it: Callable[[Any], Any]) -> None:
        function = compile_it(shared)
        for _ in range(2):
            function(torch.randn(4, 4), torch.randn(4, 4))

    with record(tmp_path_factory.mktemp("nested") / "nested.fxs", program) as reader:
        yield reader


def test_a_shared_region_has_its_calls_and_kernels(session: SessionReader) -> None:
    (row,) = of_nested(session, "block").rows
    assert (row["calls"], row["runs"], row["run_by"]) == (3, "3 times a call", "invoke_subgraph")
    assert row["calls_of_compiled_code"] == 2
    first = shared.__code__.co_firstlineno
    assert [at.rsplit(":", 1)[1] for at in row["called_from"]] == [str(first + 2)]
    inside = [kernel for kernel in of_kernels(session).rows if "block" in kernel["in_graph"]]
    assert {kernel["kernel"] for kernel in inside} == {*row["kernels"]}
    assert {kernel["runs"] for kernel in inside} == {3}
    assert "extern_kernels.mm" in row["kernels"]


def test_kernels_of_branches_run_as_the_data_decides(session: SessionReader) -> None:
    rows = {row["name"]: row for row in of_nested(session, "cond").rows}
    assert {row["runs"] for row in rows.values()} == {"at most once a call: the predicate decides"}
    (sine,) = rows["cond_true_0"]["kernels"]
    (cosine,) = rows["cond_false_0"]["kernels"]
    assert ("sin" in sine, "cos" in cosine) == (True, True)
    kernels = {row["kernel"]: row for row in of_kernels(session).rows}
    assert kernels[sine]["runs"] is None
    assert kernels["torch.cond"]["language"] == "conditional"
    assert sine in kernels["torch.cond"]["runs_graphs"]
    with pytest.raises(
        UsageError, match=("there is no nested graph called 'nowhere'; nested graphs: block")
    ):
        of_nested(session, "nowhere")


def test_a_region_is_found_by_its_function(session: SessionReader) -> None:
    found = of_search(session, "block")
    assert [row["text"] for row in found.rows if row["what"] == "graph"] == ["block"]
    assert "nested block" in found.next
    assert Path(__file__).name not in found.text
