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
from fx_explorer.instruments.diff.graph_pairs import graph_lines, graph_pairs
from fx_explorer.instruments.diff.kernel_pairs import kernel_pairs
from fx_explorer.instruments.diff.paired_facts import paired_facts
from fx_explorer.instruments.diff.two_sessions import figures_of_both
from fx_explorer.session import SessionReader, SessionWriter
from tests.capture.recorded import Compile, record
from tests.sessions import Written


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
    assert [row.sign for row in rows] == ["≈"] * 4
    assert all(row.before and row.after and row.before.name == row.after.name for row in rows)
    assert describe_difference(rows) == "sizes: 4 → 6 in 4 nodes"


def test_a_node_more_is_found_among_nodes_of_another_size() -> None:
    after = graph("6")
    after.insert(2, node("sin", "aten.sin.default", "x", ("6", "8")))
    rows = graph_diff(graph("4"), after)
    signs = [row.sign for row in rows]
    assert (signs.count("+"), signs.count("-"), signs.count("≈")) == (1, 0, 4)
    assert describe_difference(rows) == "1 node added (sin); sizes: 4 → 6 in 4 nodes"


def test_another_number_is_a_change_of_that_node_alone() -> None:
    assert [row.sign for row in graph_diff(graph("4"), graph("4", "3"))] == [" ", " ", "~", " "]


def test_a_renamed_graph_is_the_same() -> None:
    renamed = [
        replace(one, name=f"{one.name}_9", arguments=one.arguments) for one in graph("4")[:1]
    ]
    assert [row.sign for row in graph_diff(graph("4")[:1], renamed)] == [" "]


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


def test_graphs_of_another_batch_are_the_same_but_for_one_size(
    four_and_eight: tuple[SessionReader, SessionReader],
) -> None:
    pairs = graph_pairs(*four_and_eight)
    assert {pair.left.stage for pair in pairs if pair.left} >= {"dynamo", "forward", "post_grad"}
    assert all(pair.is_same for pair in pairs)
    heading, sizes = graph_lines(pairs)
    assert (
        heading
        == f"each stage's graphs, by their structure: {len(pairs)} the same except for sizes"
    )
    assert sizes.startswith("  sizes: 4 → 8 in ")
    nodes = sum(pair.left.node_count for pair in pairs if pair.left)
    assert nodes == sum(len(pair.alignment.pairs) for pair in pairs if pair.alignment)


def test_guards_of_another_batch_differ_in_the_size_alone(
    four_and_eight: tuple[SessionReader, SessionReader],
) -> None:
    (fact,) = [fact for fact in paired_facts(*four_and_eight) if fact.kind == "guard"]
    assert fact.words == "Net.forward L['x']: size=[4, 16] → size=[8, 16]"
    assert not [fact for fact in paired_facts(*four_and_eight) if fact.kind in ("option", "pass")]
    assert paired_facts(four_and_eight[0], four_and_eight[0]) == []


def test_addresses_in_names_of_torchs_globals_are_no_difference(written: Written) -> None:
    def guarded(address: int) -> SessionReader:
        def write(writer: SessionWriter) -> None:
            writer.set_meta("environment", {"torch": f"2.{address % 10}.0"})
            row = model.Compilation(0, "0/0", 0, 0, "f", "f.py", 1, status="ok")
            name = f"G['_{address}_c1']"
            code = f"___check({name}, {address})"
            writer.add(model.Guard(0, writer.add(row), 0, "ID_MATCH", name, code, ""))

        return written(write)

    one, other = guarded(140425777157264), guarded(140425777157265)
    assert paired_facts(one, other) == []
    first = figures_of_both(one, other)[0]
    assert (first.what, first.left, first.right) == ("torch", "2.4.0", "2.5.0")
