"""These tests check the collectives and redistributions of graphs: against CommDebugMode, which
counts the collectives of the same program in eager mode, and against the process groups themselves.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.debug import CommDebugMode
from torch.testing._internal.distributed.fake_pg import FakeStore

from fx_explorer import model
from fx_explorer.instruments.values.collectives import (
    collectives,
    describe_between,
    is_collective,
    operator_name,
    redistributions,
)
from fx_explorer.instruments.values.figures import values_of_graphs
from fx_explorer.instruments.values.view import NO_COLLECTIVE, collectives_table
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, failures, record


@pytest.fixture(scope="module")
def mesh() -> Iterator[DeviceMesh]:
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=8)
    try:
        yield init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
    finally:
        dist.destroy_process_group()


class Program:
    """A step of tensor parallelism: an explicit redistribution, and two that operators need."""

    def __init__(self, mesh: DeviceMesh) -> None:
        self.x = DTensor.from_local(torch.ones(4, 16), mesh, [Shard(0), Replicate()])
        first = DTensor.from_local(torch.ones(16, 8), mesh, [Replicate(), Shard(1)])
        second = DTensor.from_local(torch.ones(8, 16), mesh, [Replicate(), Shard(0)])
        self.first = first.detach().requires_grad_()
        self.second = second.detach().requires_grad_()

    def step(self, x: DTensor, first: DTensor, second: DTensor) -> torch.Tensor:
        hidden = torch.relu(x @ first)
        whole = hidden.redistribute(placements=[Shard(0), Replicate()])
        result = (hidden @ second).relu()
        return result.to_local().sum() + whole.to_local().sum()

    def run(self, compile_it: Compile) -> None:
        compile_it(self.step)(self.x, self.first, self.second).backward()


@pytest.fixture(scope="module")
def session(mesh: DeviceMesh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SessionReader]:
    path = tmp_path_factory.mktemp("collectives") / "tensor_parallel.fxs"
    with record(path, Program(mesh).run) as reader:
        yield reader


def test_nothing_fails(session: SessionReader) -> None:
    assert failures(session) == []


def test_they_are_those_that_comm_debug_mode_counts(
    session: SessionReader, mesh: DeviceMesh
) -> None:
    with CommDebugMode() as counting:
        Program(mesh).run(lambda function: function)
    eager: Counter[str] = Counter()
    for operator, count in counting.get_comm_counts().items():
        eager[str(operator).rpartition(".")[2]] += count
    [joint, *_] = session.rows(model.Graph, stage="joint")
    traced = Counter(
        operator_name(node.target)
        for node in session.nodes(joint)
        if node.op == "call_function" and is_collective(node.target)
    )
    assert traced == eager
    # A pass merges two gathers of one gradient, and says so nowhere else.
    compiled = Counter(collective.operator for collective in collectives(session))
    assert eager - compiled == Counter({"all_gather_into_tensor": 1})
    assert "A pass merged it with an equal collective" in collectives_table(session).notice


def test_they_are_those_of_the_generated_code(session: SessionReader) -> None:
    called: Counter[str] = Counter()
    for row in session.rows(model.Artifact, kind="output_code"):
        calls = re.findall(
            r"torch\.ops\._c10d_functional\.(\w+?)_?\.default\(", session.text(row.text)
        )
        called.update(name for name in calls if name != "wait_tensor")
    assert Counter(collective.operator for collective in collectives(session)) == called


def test_each_has_its_group_bytes_and_line(session: SessionReader, mesh: DeviceMesh) -> None:
    gather = next(
        collective
        for collective in collectives(session)
        if collective.operator == "all_gather_into_tensor" and collective.direction == "forward"
    )
    group = mesh.get_group("tp")
    assert gather.group == group.group_name
    assert gather.group_size == dist.get_world_size(group) == 4
    # A rank has f32[4, 8] of the hidden activations, and gathers four of them.
    assert gather.size_bytes == 4 * (4 * 8 * 4)
    source = Path(__file__).read_text().splitlines()
    assert source[gather.line - 1].strip().startswith("whole = hidden.redistribute(")


def test_each_is_a_part_of_a_redistribution(session: SessionReader) -> None:
    by_change = {
        f"{row.before} → {row.after}": [collective.operator for collective in members]
        for row, members in redistributions(session)
    }
    assert by_change["Shard(0), Shard(1) → Shard(0), Replicate()"] == ["all_gather_into_tensor"]
    # relu takes no partial sums: torch scatters them.
    assert by_change["Shard(0), Partial(sum) → Shard(0), Shard(0)"] == ["reduce_scatter_tensor"]
    for collective in collectives(session):
        assert collective.redistribution is not None
        assert collective.redistribution.mesh == "dp=2, tp=4"


def test_process_groups_are_asked_of_torch(session: SessionReader, mesh: DeviceMesh) -> None:
    groups = {row.name: row for row in session.rows(model.ProcessGroup)}
    group = mesh.get_group("tp")
    assert groups[group.group_name].ranks == tuple(dist.get_process_group_ranks(group))
    assert groups[group.group_name].description == "mesh_tp"


def test_inputs_are_described_with_mesh_and_placements(
    session: SessionReader, mesh: DeviceMesh
) -> None:
    texts = {value.name: value.text for value in values_of_graphs(session)}
    program = Program(mesh)
    assert program.first.placements == (Replicate(), Shard(1))
    assert texts["input first"] == (
        "Input first is a DTensor f32[16, 32], Replicate(), Shard(1) on the mesh dp=2, tp=4; this "
        "rank has f32[16, 8]."
    )


def overlapping(x: torch.Tensor, w: torch.Tensor, group: str) -> torch.Tensor:
    started = torch.ops._c10d_functional.all_reduce(x * 2, "sum", group)
    product = (x @ w) @ w
    summed: torch.Tensor = torch.ops._c10d_functional.wait_tensor(started)
    return summed + product


def test_what_runs_meanwhile_is_read_off_the_generated_code(
    mesh: DeviceMesh, tmp_path: Path
) -> None:
    group = mesh.get_group("tp").group_name

    def program(compile_it: Compile) -> None:
        compile_it(overlapping)(torch.ones(8, 8), torch.ones(8, 8), group)

    with record(tmp_path / "overlap.fxs", program) as reader:
        [collective] = collectives(reader)
        assert collective.between is not None
        assert collective.between.is_of_code
        code = next(
            reader.text(row.text) for row in reader.rows(model.Artifact, kind="output_code")
        )
        body = code[code.index("def call(") :]
        start = body.index("torch.ops._c10d_functional.all_reduce_.default(")
        wait = body.index("torch.ops._c10d_functional.wait_tensor.default(")
        products = body[start:wait].count("extern_kernels.mm(")
        assert collective.between.names.count("extern_kernels.mm") == products
        if not products:
            assert describe_between(collective) == "nothing: the graph waits for it at once"


def test_with_eager_kernels_the_order_is_the_graphs(mesh: DeviceMesh, tmp_path: Path) -> None:
    group = mesh.get_group("tp").group_name

    def program(compile_it: Compile) -> None:
        compile_it(overlapping)(torch.ones(8, 8), torch.ones(8, 8), group)

    with record(tmp_path / "graph.fxs", program, backend="aot_eager") as reader:
        [collective] = collectives(reader)
        assert collective.between is not None
        assert not collective.between.is_of_code
        assert collective.between.names == ("mm", "mm_1")
        answer = collectives_table(reader).answer
        assert answer.endswith("Other work runs during each of them.")


def test_a_wait_right_after_the_start_is_said(mesh: DeviceMesh, tmp_path: Path) -> None:
    def program(compile_it: Compile) -> None:
        def reduce(x: torch.Tensor) -> torch.Tensor:
            summed: torch.Tensor = functional.all_reduce(x, "sum", mesh["tp"])
            return summed + (x @ x)

        compile_it(reduce)(torch.ones(8, 8))

    with record(tmp_path / "alone.fxs", program, backend="aot_eager") as reader:
        assert collectives_table(reader).answer == (
            "1 collective, 256 B in all: 1 × all_reduce. Nothing runs meanwhile: the graph waits "
            "for it at once."
        )


def test_a_graph_without_any_says_so(tmp_path: Path) -> None:
    def program(compile_it: Compile) -> None:
        compile_it(torch.sin)(torch.ones(3))

    with record(tmp_path / "none.fxs", program, backend="aot_eager") as reader:
        assert collectives_table(reader).empty == NO_COLLECTIVE


def test_partial_sums_are_no_sum_yet(mesh: DeviceMesh) -> None:
    # What the words of placements rely on.
    assert repr(Partial()) == "Partial(sum)"
