"""These tests check how DistributedDataParallel cuts Dynamo's graph into buckets: each is recorded
by itself, for the backend that the user asked for. Expected values are counted by that backend,
which keeps the graphs it was given.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from fx_explorer import model
from fx_explorer.instruments.breaks.grouped import distinct_breaks
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader
from tests.conftest import Captured, OpenedReader

PROGRAM = """
import json
import os

import torch
import torch.distributed as dist
from functorch.compile import make_boxed_func
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
given = []


def keep(module, inputs):
    given.append([node.name for node in module.graph.nodes])
    return make_boxed_func(module.forward)


mine = aot_autograd(fw_compiler=keep)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 512)
        self.second = nn.Linear(512, 1024)
        self.third = nn.Linear(1024, 4)

    def forward(self, x):
        x = self.first(x).relu()
        return self.third(self.second(x).sin()).sum()


compiled = torch.compile(DistributedDataParallel(Net(), bucket_cap_mb=1), backend=mine)
for _ in range(2):
    compiled(torch.ones(2, 16)).backward()
print(json.dumps(given))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ddp") / "in_buckets.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def session(program: Path, captured: Captured, reader: OpenedReader) -> SessionReader:
    return reader(captured(program, "--build"))


def test_every_graph_that_the_backend_was_given_is_recorded(session: SessionReader) -> None:
    given = json.loads(
        next(line.text for line in session.rows(model.ConsoleLine) if line.text.startswith("[["))
    )
    recorded = [
        [node.name for node in session.nodes(graph)]
        for stage in ("forward", "backward")
        for graph in session.rows(model.Graph, stage=stage)
    ]
    assert sorted(recorded) == sorted(given)
    assert len(given) == 4


def test_the_graphs_of_a_bucket_name_it_and_are_linked_in_it_down_to_dynamos(
    session: SessionReader,
) -> None:
    graphs = {graph.id: graph for graph in session.rows(model.Graph)}
    stages = Counter(
        graph.label for graph in graphs.values() if graph.stage in ("joint", "forward", "backward")
    )
    assert set(stages) == {"bucket 1 of 2", "bucket 2 of 2"}
    graph_of = {node.id: graph for graph in graphs.values() for node in session.nodes(graph)}
    pairs = [(graph_of[link.child], graph_of[link.parent]) for link in session.rows(model.Link)]
    assert pairs
    assert all(child.label == parent.label or parent.stage == "dynamo" for child, parent in pairs)
    traced = {parent.id for child, parent in pairs if child.stage == "joint"}
    assert {graphs[one].stage for one in traced} == {"dynamo"}


def test_each_bucket_saves_for_its_own_backward(session: SessionReader) -> None:
    graph_of = {
        node.id: graph.label for graph in session.rows(model.Graph) for node in session.nodes(graph)
    }
    saved = session.rows(model.SavedTensor)
    assert {graph_of[one.producer] for one in saved} == {"bucket 1 of 2", "bucket 2 of 2"}
    assert all(graph_of[one.producer] == graph_of[one.consumer] for one in saved)


def test_the_backend_is_the_one_that_the_program_asked_for(session: SessionReader) -> None:
    assert {row.backend for row in session.rows(model.Compilation)} == {"mine"}
    assert {row.backend for row in session.rows(model.SupportReport)} == {"mine"}
    assert {row.backend for row in session.rows(model.BackendEntry)} <= {"mine"}


def test_breaks_that_the_wrapper_makes_are_no_problem_of_the_users(session: SessionReader) -> None:
    breaks = distinct_breaks(session)
    assert breaks
    assert all(one.is_wrappers for one in breaks)
    facts = overview(session)
    assert not [fact for fact in facts if fact.severity == "problem"]
    assert [fact.text for fact in facts if "DDPOptimizer" in fact.text] == [
        "torch split the graph of Net.forward into 2 buckets (DDPOptimizer)."
    ]
