"""These tests compare two captures that differ in a batch size: nodes and kernels are paired by
what they compute, and only sizes have changed.
"""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from fx_explorer import model
from fx_explorer.analysis.diff import describe_difference, graph_diff
from fx_explorer.instruments.diff.kernel_pairs import kernel_pairs
from fx_explorer.instruments.diff.two_sessions import figures_of_both
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, record


def node(name: str, target: str, arguments: str, shape: tuple[str, ...]) -> model.Node:
    return model.Node(
        0, 0, 0, name, "call_function" if target else "placeholder", target, arguments, shape, "f32"
    )


def graph(batch: str, factor: str = "2") -> list[model.Node]:
    return [
        node("x", "", "", (batch, "8")),
        node("view", "aten.view.default", f"x, [{batch}, 2, 4]", (batch, "2", "4")),
        node("mul", "aten.mul.Tensor", f"view, {factor}", (batch, "2", "4")),
        node("add", "aten.add.Tensor", "mul, view", (batch, "2", "4")),
    ]


def test_nodes_of_another_size_are_changed_and_none_is_removed_or_added() -> None:
    rows = graph_diff(graph("4"), graph("6"))
    assert [row.sign for row in rows] == ["~"] * 4
    assert all(row.before and row.after and row.before.name == row.after.name for row in rows)
    assert describe_difference(rows) == "4 nodes changed"


def test_a_node_more_is_found_among_nodes_of_another_size() -> None:
    after = graph("6")
    after.insert(2, node("sin", "aten.sin.default", "x", ("6", "8")))
    signs = [row.sign for row in graph_diff(graph("4"), after)]
    assert (signs.count("+"), signs.count("-"), signs.count("~")) == (1, 0, 4)


def test_another_number_is_a_change_of_that_node_alone() -> None:
    assert [row.sign for row in graph_diff(graph("4"), graph("4", "3"))] == [" ", " ", "~", " "]


def test_a_renamed_graph_is_the_same() -> None:
    renamed = [
        replace(one, name=f"{one.name}_9", arguments=one.arguments) for one in graph("4")[:1]
    ]
    assert [row.sign for row in graph_diff(graph("4")[:1], renamed)] == [
        "~"
    ]  # an input's name is what it is


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.linear(x)) * 2


def calling(*batches: int) -> object:
    def program(compile_: Compile) -> None:
        torch.manual_seed(0)
        compiled = compile_(Net())
        for batch in batches:
            compiled(torch.ones(batch, 16))

    return program


@pytest.fixture(scope="module")
def four_and_eight(tmp_path_factory: pytest.TempPathFactory) -> tuple[SessionReader, SessionReader]:
    folder = tmp_path_factory.mktemp("sizes")
    return record(folder / "4.fxs", calling(4)), record(folder / "8.fxs", calling(8))  # type: ignore[arg-type]


def test_kernels_of_another_batch_are_paired_and_none_is_alone(
    four_and_eight: tuple[SessionReader, SessionReader],
) -> None:
    pairs = kernel_pairs(*four_and_eight)
    assert pairs
    assert not any(pair.difference.startswith("only") for pair in pairs)
    assert "sizes" in {pair.difference for pair in pairs}


def test_sums_over_versions_are_called_that_and_each_version_is_listed(
    four_and_eight: tuple[SessionReader, SessionReader], tmp_path: Path
) -> None:
    plain = {one.what for one in figures_of_both(*four_and_eight)}
    assert "kernels" in plain
    assert not any("versions" in what for what in plain)
    both = record(tmp_path / "both.fxs", calling(4, 8))  # type: ignore[arg-type]
    told = {one.what: one for one in figures_of_both(four_and_eight[0], both)}
    assert {"kernels, all versions", "saved for the backward, all versions"} <= told.keys()
    first, second = told["  [0/0]"], told["  [0/1]"]
    assert first.left == first.right
    assert second.left == "none"
    assert second.right not in ("none", "0")
    assert told["kernels, all versions"].right == str(both.count(model.Kernel))
