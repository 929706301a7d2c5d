"""These tests compare where nodes of passes and of AOTAutograd come from with what torch did.

The expectations were read off torch's own texts: the graphs before and after each pass, with
``TORCH_LOGS=aot_joint_graph,post_grad_graphs`` and ``trace.provenance_tracking_level = 1``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from fx_explorer import model
from fx_explorer.session import SessionReader
from tests.capture.recorded import record


class Training(nn.Module):
    """Its graphs change three buffers, draw random numbers, and fold constants in the backward."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = self.norm(x)
        kept = functional.dropout(normal, 0.5)
        self.steps.add_(1)
        positive = functional.relu(kept)
        return functional.log_softmax(positive, dim=-1)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SessionReader:
    def train(compile_it: Callable[[Any], Any]) -> None:
        compile_it(Training())(torch.randn(4, 8)).sum().backward()

    return record(tmp_path_factory.mktemp("histories") / "s.fxs", train)


def joint_graphs(session: SessionReader) -> list[model.Graph]:
    """Return the joint graph as it was traced, and as it was after the passes."""
    graphs = [graph for graph in session.rows(model.Graph) if graph.stage == "joint"]
    return sorted(graphs, key=lambda graph: graph.id)


def parents(session: SessionReader, node: model.Node) -> tuple[set[str], set[str]]:
    """Return the names of the nodes that a node is linked to, and the evidence."""
    links = session.rows(model.Link, child=node.id)
    nodes = session.by_ids(model.Node, [link.parent for link in links])
    return {parent.name for parent in nodes}, {link.how for link in links}


def origins_of_copies(
    session: SessionReader, graph: model.Graph
) -> list[tuple[set[str], set[str]]]:
    copies = session.rows(model.Node, graph=graph.id, target="aten.copy_.default")
    return [parents(session, node) for node in copies]


def test_what_is_written_into_an_input_comes_from_the_call_that_computed_it(
    session: SessionReader,
) -> None:
    joint, _ = joint_graphs(session)
    origins = origins_of_copies(session, joint)
    # The number of batches, the running mean and variance of one call, and the steps.
    assert [names for names, _ in origins] == [{"add_"}, {"normal"}, {"normal"}, {"add__1"}]
    assert {evidence for _, hows in origins for evidence in hows} == {"written_back"}


def test_without_gradients_it_comes_from_there_too(tmp_path: Path) -> None:
    def change(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        state.mul_(0.5)
        state[:, 0].add_(x[:, 0])
        return torch.cumsum(x, dim=-1)

    def program(compile_it: Callable[[Any], Any]) -> None:
        compile_it(change)(torch.randn(4, 16), torch.ones(4, 2))

    session = record(tmp_path / "s.fxs", program)
    (traced,) = session.rows(model.Graph, stage="forward")
    assert origins_of_copies(session, traced) == [({"add_"}, {"written_back"})]


@pytest.mark.parametrize(
    ("name", "replaced"),
    [("inductor_lookup_seed_default", "rand"), ("inductor_random_default", "rand")],
)
def test_what_passes_made_one_after_the_other_comes_from_what_the_first_replaced(
    session: SessionReader, name: str, replaced: str
) -> None:
    _, after = joint_graphs(session)
    (node,) = session.rows(model.Node, graph=after.id, name=name)
    assert parents(session, node) == ({replaced}, {"replaced"})


def test_a_folded_constant_comes_from_the_one_it_replaced_not_from_its_whole_line(
    session: SessionReader,
) -> None:
    _, after = joint_graphs(session)
    folded = [
        node
        for node in session.rows(model.Node, graph=after.id)
        if node.name.startswith("full_default")
    ]
    origins = [parents(session, node) for node in folded]
    assert ({"scalar_tensor"}, {"replaced"}) in origins
    assert all(len(names) == 1 for names, _ in origins)
