"""These tests check nested compile regions and other operations that hold graphs: each graph is
shown as its own, and links never cross.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._inductor import compile_fx

from fx_explorer.analysis.nested_regions import nested_regions
from fx_explorer.analysis.whole_session import totals
from fx_explorer.instruments.kernels.counts import kernels_by_direction
from fx_explorer.instruments.kernels.view import kernels_table
from fx_explorer.model import AFTER_PASSES, Artifact, Graph, Kernel, LineNode, Node, SavedTensor
from fx_explorer.overview.outline import outline
from fx_explorer.overview.overview import overview
from fx_explorer.session import SessionReader
from tests.capture.recorded import Compile, failures, record
from tests.exhaustive import in_exhaustive_runs, with_others

region = torch.compiler.nested_compile_region


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(8, 8), nn.Linear(8, 8)

    @region
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.fc2(F.gelu(self.fc1(x)))


class Net(nn.Module):
    """Net has a region called three times: one call has an input without a gradient, two calls are
    alike.
    """

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return F.gelu(self.head(x) + x)


@region
def gate(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x @ w) * F.gelu(x)


@region
def other(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x @ w).relu() + F.gelu(x)


def two_regions(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        x = gate(x, w)
        x = other(x, w)
    return (x + F.gelu(x)).sum()


@region
def inner(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * x.cos()


@region
def outer(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return inner(inner(x) @ w).cos()


def region_in_region(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (outer(outer(x, w), w).sin() + 1).sum()


def branches(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.cond(
        x.sum() > 0,
        lambda a, b: F.gelu(a @ b) + a.sin(),
        lambda a, b: (a @ b).cos() * F.gelu(a),
        (x, w),
    ).sum()


def checkpointed(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    from torch.utils.checkpoint import checkpoint

    y: torch.Tensor = checkpoint(lambda a: F.gelu(a @ w).sin(), x, use_reentrant=False)
    return (y + F.gelu(x)).sum()


class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, w)
        return F.gelu(x @ w)

    @staticmethod
    def backward(ctx: Any, g: torch.Tensor) -> Any:  # type: ignore[override]
        x, w = ctx.saved_tensors
        return g @ w.t() + F.gelu(g), x.t() @ g


def own_function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    result: torch.Tensor = Own.apply(x, w)
    return (result + F.gelu(x)).sum()


Torchs = list[tuple[list[str], list[str], list[str]]]


@dataclass(frozen=True)
class Step:
    """A training step as it was recorded, and what torch partitioned meanwhile: (joint, forward,
    backward), each as lines of code; the whole graph last.
    """

    reader: SessionReader
    partitioned: Torchs


Record = Callable[..., Step]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Record]:
    """``recorded(program, dynamic=…)`` → its training step, recorded the first time."""
    folder = tmp_path_factory.mktemp("regions")
    steps: dict[tuple[object, bool | None], Step] = {}

    def record_once(program: Callable[..., Any], dynamic: bool | None = None) -> Step:
        key = program, dynamic
        if key not in steps:
            steps[key] = record_step(folder / f"{len(steps)}.fxs", program, dynamic)
        return steps[key]

    yield record_once
    for step in steps.values():
        step.reader.close()


def record_step(path: Path, program: Callable[..., Any], dynamic: bool | None) -> Step:
    partitioned: Torchs = []
    original = compile_fx.partition_fn

    def partition_fn(joint: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
        before = _lines(joint)
        forward, backward = original(joint, *args, **kwargs)
        partitioned.append((before, _lines(forward), _lines(backward)))
        return forward, backward

    def train(compile_: Compile) -> None:
        is_net = program is Net
        compiled = compile_(Net() if is_net else program)
        given = (torch.randn(4, 8),) if is_net else inputs()
        compiled(*given).sum().backward()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_fx, "partition_fn", partition_fn)
        return Step(record(path, train, dynamic=dynamic), partitioned)


def _lines(module: torch.fx.GraphModule) -> list[str]:
    return [f"{node.name} {node.op} {node.target}" for node in module.graph.nodes]


def _recorded(reader: SessionReader, graph: Graph) -> list[tuple[str, str]]:
    return [(node.name, node.op) for node in reader.nodes(graph)]


def _names(lines: list[str]) -> list[tuple[str, str]]:
    return [(line.split(" ")[0], line.split(" ")[1]) for line in lines]


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(8, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)


@pytest.mark.parametrize("dynamic", with_others([None], [True]))
def test_each_region_has_its_own_graphs_and_the_graph_around_it_its_own(
    recorded: Record, dynamic: bool | None
) -> None:
    step = recorded(Net, dynamic)
    reader = step.reader
    assert not failures(reader)
    *regions, whole = step.partitioned
    assert regions
    for number, stage in enumerate(("joint", "forward", "backward")):
        graphs = [graph for graph in reader.rows(Graph, stage=stage) if graph.name != AFTER_PASSES]
        assert [_recorded(reader, graph) for graph in graphs if not graph.parent] == [
            _names(whole[number])
        ]
        inner = sorted(_recorded(reader, graph) for graph in graphs if graph.parent)
        assert inner == sorted(_names(lines[number]) for lines in regions)
        assert all(graph.label == ("Block.forward" if graph.parent else "") for graph in graphs)
    # What the whole one keeps: values of its own forward graph that its own backward graph takes.
    (_, forward, backward) = whole
    kept = {name for name, op in _names(backward) if op == "placeholder"} & {
        name for name, _ in _names(forward)
    }
    assert {row.name for row in reader.rows(SavedTensor)} == kept


def _region_calls(forward: list[str]) -> int:
    return sum("invoke_subgraph" in line and "call_function" in line for line in forward)


def test_calls_of_a_region_are_counted_and_its_ir_is_linked_to_its_own_nodes(
    recorded: Record,
) -> None:
    """torch 2.13 puts the first call, whose input needs no gradient, into the graph around it; 2.11
    compiles it for itself.
    """
    step = recorded(Net)
    reader = step.reader
    *regions, (_, forward, _) = step.partitioned
    compiled, inlined = len(regions), 3 - _region_calls(forward)
    (use,) = nested_regions(reader)
    assert (use.label, use.calls, use.compiled, use.inlined) == (
        "Block.forward",
        3,
        compiled,
        inlined,
    )
    (told,) = [fact.text for fact in overview(reader) if "nested region" in fact.text]
    times = {1: "once", 2: "twice", 3: "3 times"}[compiled]
    around = f"; torch inlined {inlined} call into the surrounding graph" if inlined else ""
    traced = ", traced twice, reused once" if use.traced else ""
    assert told == (
        f"The nested region Block.forward is called 3 times{traced} and compiled {times}{around}."
    )
    entries = [
        (entry.title, entry.detail, entry.depth)
        for entry in outline(reader)
        if entry.title.startswith("Joint graph")
    ]
    titles = [(title, depth) for title, _, depth in entries if AFTER_PASSES not in title]
    assert titles == [("Joint graph", 1), *[("Joint graph · Block.forward", 2)] * compiled]
    assert entries[1][1].endswith("called 2 times")
    for direction in ("forward", "backward"):
        graphs = {g.id: g.label for g in reader.rows(Graph, stage="post_grad", direction=direction)}
        for artifact in reader.rows(Artifact, stage="schedule", direction=direction):
            nodes = reader.by_ids(
                Node, {row.node for row in reader.rows(LineNode, artifact=artifact.id)}
            )
            (label,) = {graphs[node.graph] for node in nodes}
            assert artifact.title.endswith(label or "fusion")


PROGRAMS = with_others([region_in_region, branches], [checkpointed, two_regions, own_function])


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_node_is_linked_to_the_line_it_came_from(
    recorded: Record, program: Callable[..., torch.Tensor]
) -> None:
    reader = recorded(program).reader
    assert not failures(reader)
    rows = {node.id: node for graph in reader.rows(Graph) for node in reader.nodes(graph)}
    stages = {graph.id: graph for graph in reader.rows(Graph)}
    checked = 0
    for node in rows.values():
        if stages[node.graph].stage == "dynamo" or not node.op.startswith("call_"):
            continue
        parents = [rows[link.parent] for link in reader.parents([node.id])]
        assert parents, f"{node.name} of {stages[node.graph]} is linked to nothing"
        where = {(parent.file, parent.line) for parent in parents if parent.file}
        # The user's stack of a node is torch's own account of where it came from.
        assert not node.file or not where or (node.file, node.line) in where, (node, parents)
        checked += 1
    assert checked > 60


@in_exhaustive_runs
def test_two_regions_with_the_same_operations_are_told_apart(recorded: Record) -> None:
    reader = recorded(two_regions).reader
    assert sorted((use.label, use.calls) for use in nested_regions(reader)) == [
        ("gate", 2),
        ("other", 2),
    ]
    joints = {g.label: g for g in reader.rows(Graph, stage="joint")}
    assert set(joints) == {"", "gate", "other"}
    for label, function in (("gate", gate), ("other", other)):
        first = (
            function.__wrapped__.__code__.co_firstlineno if hasattr(function, "__wrapped__") else 0
        )
        lines = {node.line for node in reader.nodes(joints[label]) if node.line}
        assert len(lines) == 1
        assert not first or lines == {first + 2}
        dynamo = [g.id for g in reader.rows(Graph, stage="dynamo") if g.label == label]
        level = [node.id for node in reader.nodes(joints[label]) if node.op == "call_function"]
        while (nodes := reader.by_ids(Node, level)) and nodes[0].graph not in dynamo:
            level = [link.parent for link in reader.parents(level)]
        assert {node.graph for node in nodes} <= set(dynamo)


def test_a_conditional_and_a_region_are_no_library_calls(recorded: Record) -> None:
    reader = recorded(branches).reader
    conditionals = [kernel for kernel in reader.rows(Kernel) if kernel.runs]
    assert {kernel.name for kernel in conditionals} == {"torch.cond"}
    for kernel in conditionals:
        told = {
            g.name
            for g in reader.rows(Graph, stage="post_grad", direction=kernel.direction)
            if g.parent
        }
        assert set(kernel.runs) == told
        code = reader.text(reader.get(Artifact, kernel.output_code).text).split("\n")
        assert "if " in code[kernel.first_line - 1] or kernel.runs[0] in "\n".join(
            code[kernel.first_line - 1 :][:12]
        )
    (forward,) = [found for found in kernels_by_direction(reader) if found.direction == "forward"]
    assert forward.control == ("conditional",)
    assert not {"Conditional", "InvokeSubgraph", "torch.cond"} & set(forward.libraries)
    rows = [row for row in kernels_table(reader).rows if "torch.cond" in row.cells]
    (detail,) = {row.detail().text for row in rows if "forward" in row.cells}
    assert detail.startswith("A conditional: it runs true_graph_0 (")
    assert " or false_graph_0 (" in detail


def test_a_region_in_the_kernels_is_a_call_of_it_and_shared_kernels_count_once(
    recorded: Record,
) -> None:
    step = recorded(Net)
    reader = step.reader
    (forward,) = [found for found in kernels_by_direction(reader) if found.direction == "forward"]
    assert (
        totals(reader).kernels
        == sum(not kernel.runs for kernel in reader.rows(Kernel))
        < reader.count(Kernel)
    )
    assert forward.control == ("call of a region",) * _region_calls(step.partitioned[-1][1])
    (code, *_) = [
        reader.text(a.text) for a in reader.rows(Artifact, kind="output_code", direction="forward")
    ]
    assert forward.generated == code.count("= async_compile.")
