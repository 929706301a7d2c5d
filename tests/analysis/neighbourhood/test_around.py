"""These tests check the picture of the nodes around a node: two steps each way, with counts of the
nodes left out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.session import SessionReader
from fx_explorer.tui.panes.neighbourhood_layout import neighbourhood
from tests.analysis.neighbourhood.graphs import random_graph, write_graph
from tests.sessions import write_training_step

CHAIN = [(at, at + 1) for at in range(9)]


def test_two_steps_of_a_chain_are_shown_each_way(tmp_path: Path) -> None:
    written = write_graph(tmp_path / "chain.fxs", 10, CHAIN)
    with SessionReader(written.path) as reader:
        found = neighbourhood(reader, written.id_of(4))
    assert {node.name: found.steps[node.id] for node in found.nodes.values()} == {
        "n2": -2,
        "n3": -1,
        "n4": 0,
        "n5": 1,
        "n6": 2,
    }
    assert not found.more


def test_of_a_thousand_users_ten_are_shown_and_the_rest_is_counted(tmp_path: Path) -> None:
    written = write_graph(tmp_path / "many.fxs", 1001, [(0, at) for at in range(1, 1001)])
    with SessionReader(written.path) as reader:
        found = neighbourhood(reader, written.id_of(0))
        assert len(found.nodes) == 11
        assert found.more == {1: 990}
        more = neighbourhood(reader, written.id_of(0), {1: 20})
        assert len(more.nodes) == 21
        assert more.more == {1: 980}


def test_a_kernel_is_known_with_how_much_it_computes(tmp_path: Path) -> None:
    written = write_graph(
        tmp_path / "fused.fxs", 10, CHAIN, {"triton_a": [3, 4, 7, 8], "triton_b": [5]}
    )
    with SessionReader(written.path) as reader:
        found = neighbourhood(reader, written.id_of(4))
    assert {found.nodes[node].name: kernel.name for node, kernel in found.kernels.items()} == {
        "n3": "triton_a",
        "n4": "triton_a",
        "n5": "triton_b",
    }
    assert found.sizes == {written.kernels["triton_a"]: 4, written.kernels["triton_b"]: 1}


@pytest.mark.parametrize("seed", range(5))
def test_every_edge_between_shown_nodes_is_there_and_no_other(tmp_path: Path, seed: int) -> None:
    written = random_graph(tmp_path / "random.fxs", seed)
    with SessionReader(written.path) as reader:
        every = [
            (producer, at)
            for at in range(written.graph.node_count)
            for producer in reader.producers(written.id_of(at))
        ]
        found = neighbourhood(reader, written.id_of(written.graph.node_count // 2))
    expected = {(producer, written.id_of(at)) for producer, at in every}
    assert set(found.edges) == {edge for edge in expected if set(edge) <= set(found.nodes)}


def test_an_operation_of_dynamos_graph_is_in_the_kernel_that_it_became(tmp_path: Path) -> None:
    hand = write_training_step(tmp_path / "hand.fxs")
    with SessionReader(hand.path) as reader:
        graph = next(graph for graph in reader.rows(model.Graph) if graph.stage == "dynamo")
        gelu = next(node for node in reader.nodes(graph) if node.name == "gelu")
        found = neighbourhood(reader, gelu.id)
    assert found.kernels[gelu.id].language != "extern"
    assert [found.nodes[node].name for node in found.steps] == ["gelu", "fc1", "x", "fc2", "output"]
