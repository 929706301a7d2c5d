"""These tests check programs with DTensor: the placement of each tensor is shown, and all of them
are recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.testing._internal.distributed.fake_pg import FakeStore

from fx_explorer.analysis.input_names import InputNames
from fx_explorer.model import Graph, Node, SavedTensor
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, failures, record


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    """Two ranks that split a small network and a matrix, as the first of them sees it."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        yield record(tmp_path_factory.mktemp("dtensor") / "two.fxs", program)
    finally:
        dist.destroy_process_group()


def program(compile_: Compile) -> None:
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    compile_(model)(torch.ones(4, 8)).sum().backward()
    given = distribute_tensor(torch.ones(8, 8), mesh, [Shard(0)])
    weight = distribute_tensor(torch.ones(8, 8), mesh, [Replicate()]).requires_grad_()
    compile_(product)(given, weight).backward()


def product(given: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    local: torch.Tensor = (given @ weight).to_local()  # type: ignore[attr-defined]
    return local.relu().sum()


def values(reader: SessionReader, stage: str) -> dict[str, str]:
    graphs = [graph.id for graph in reader.rows(Graph) if graph.stage == stage]
    nodes = [node for graph in graphs for node in reader.rows(Node, graph=graph)]
    return {node.name: node.value for node in nodes}


def test_all_of_it_is_recorded(reader: SessionReader) -> None:
    assert failures(reader) == []


def test_placements_and_mesh_are_shown(reader: SessionReader) -> None:
    given = values(reader, "dynamo")["l_given_"]
    assert given == (
        "DTensor(_local_tensor: f32[4, 8], device_mesh: DeviceMesh(tp=2), placements: Shard(0))"
    )
    weights = [text for name, text in values(reader, "dynamo").items() if "weight" in name]
    for placement in (Shard(0), Shard(1), Replicate()):
        written = str(placement) if isinstance(placement, Replicate) else f"Shard({placement.dim})"
        assert any(written.rstrip("()") in text for text in weights)
    partial = f"Partial({Partial().reduce_op})"
    assert any(partial in text for text in values(reader, "dynamo").values())


def test_a_mesh_is_no_tensor_that_is_saved(reader: SessionReader) -> None:
    saved = list(reader.rows(SavedTensor))
    assert saved
    assert all("Mesh" not in row.dtype and "Script" not in row.dtype for row in saved)


def test_the_mesh_of_a_tensor_is_not_called_as_the_tensor(reader: SessionReader) -> None:
    graphs = [graph.id for graph in reader.rows(Graph) if graph.stage == "joint"]
    inputs = [
        node
        for graph in graphs
        for node in reader.rows(Node, graph=graph)
        if node.op == "placeholder"
    ]
    names = InputNames(reader).of(inputs)
    meshes = {names[node.id].name for node in inputs if node.value.endswith("device_mesh")}
    tensors = {names[node.id].name for node in inputs if node.shape is not None}
    assert "given.device_mesh" in meshes
    assert "given" in tensors
    assert not meshes & tensors
