"""These tests check that the Python written from rows computes the same as FX's own ``gm.code``,
which comes from the live graphs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from benchmarks.models import build, inputs
from fx_explorer.analysis.graph_files import graph_script
from fx_explorer.analysis.graph_python import graph_code
from fx_explorer.capture.recording.state import Recording
from fx_explorer.model import Graph
from tests.capture.recorded import Compile, record
from tests.exhaustive import IS_EXHAUSTIVE

Program = Callable[[Compile], object]


def trained(model: nn.Module, *arguments: Any, **named: Any) -> Program:
    def program(compile_: Compile) -> None:
        output = compile_(model)(*arguments, **named)
        first = next(
            one
            for one in tree_leaves(output)
            if isinstance(one, torch.Tensor) and one.requires_grad
        )
        first.sum().backward()

    return program


def of_benchmarks(name: str) -> Program:
    given = inputs(name)
    return (
        trained(build(name), **given) if isinstance(given, dict) else trained(build(name), *given)
    )


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(
            x.sum() > 0, lambda y: self.linear(y) + 1, lambda y: self.linear(y).cos(), (x,)
        )


class EveryKindOfArgument(nn.Module):
    """Slices, devices, dtypes, infinities, keywords, lists, tuples, an index of a tensor, sizes
    that are not known.
    """

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor([True, False, True, True]))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        filled = x.masked_fill(self.mask, float("-inf")).cpu()
        rows = torch.arange(x.shape[0], device=x.device, dtype=torch.int64)
        picked = x[rows.flip(0), ..., 1:3]
        halves = torch.cat([picked, picked * 0.5], dim=-1).to(
            torch.bfloat16, memory_format=torch.contiguous_format
        )
        return (
            filled.softmax(-1),
            halves.float() ** 2,
            x.clamp(min=-1.0, max=1e308 * 10),
            torch.stack(x.split(2, 1)),
        )


class AttributesAndComplexNumbers(nn.Module):
    """What Dynamo reads off tensors with getattr, and a constant with two parts."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x.T @ x).mT.sum() + x.data.sum() + (torch.complex(x, x) * (2 - 3j)).real.sum()


def with_dynamic_sizes(compile_: Compile) -> None:
    model, x = EveryKindOfArgument(), torch.randn(6, 4, requires_grad=True)
    torch._dynamo.mark_dynamic(x, 0)
    compile_(model)(x)[1].sum().backward()


PROGRAMS: dict[str, Program] = {
    "regions": of_benchmarks("regions"),
    "branches": trained(Branches(), torch.randn(3, 4)),
    "arguments": trained(EveryKindOfArgument(), torch.randn(3, 4, requires_grad=True)),
    "attributes": trained(AttributesAndComplexNumbers(), torch.randn(3, 4, requires_grad=True)),
    "dynamic": with_dynamic_sizes,
}
if IS_EXHAUSTIVE:
    PROGRAMS |= {name: of_benchmarks(name) for name in ("mlp", "convnet", "transformer")}
    PROGRAMS["dropout"] = trained(
        nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4)), torch.randn(3, 4)
    )


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> dict[int, torch.fx.GraphModule]:
    """Return the id of each recorded graph → a copy of FX's graph when it was recorded."""
    found: dict[int, torch.fx.GraphModule] = {}
    add_graph = Recording.add_graph

    def kept(self: Recording, module: torch.fx.GraphModule, *arguments: Any, **named: Any) -> Any:
        recorded = add_graph(self, module, *arguments, **named)
        graph = copy.deepcopy(module.graph)
        graph.set_codegen(
            torch.fx.graph.CodeGen()
        )  # the inputs one by one, where AOTAutograd groups them
        found[recorded.graph.id] = torch.fx.GraphModule(module, graph)
        return recorded

    monkeypatch.setattr(Recording, "add_graph", kept)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_code_of_every_graph_computes_what_gm_code_does(
    name: str, live: dict[int, torch.fx.GraphModule], tmp_path: Path
) -> None:
    with record(tmp_path / "s.fxs", PROGRAMS[name]) as reader:
        graphs = [graph for graph in reader.rows(Graph) if not graph.parent]
        assert {graph.stage for graph in graphs} >= {
            "dynamo",
            "joint",
            "forward",
            "backward",
            "post_grad",
        }
        for graph in graphs:
            script: dict[str, Any] = {}
            exec(graph_script(reader, graph, ["test"]), script)  # for its inputs
            written: dict[str, Any] = {}
            exec(graph_code(reader, graph).text, written)
            own, fx = written["GraphModule"](), live[graph.id]
            for node in fx.graph.find_nodes(op="get_attr"):
                value = getattr(fx, str(node.target))
                if isinstance(value, torch.Tensor):
                    setattr(own, str(node.target), value)
            assert_same(called(own, script["inputs"]()), called(fx, script["inputs"]()))


def called(module: nn.Module, arguments: tuple[Any, ...]) -> list[Any]:
    torch.manual_seed(1)
    with torch.no_grad():
        return [*tree_leaves(module(*arguments)), *tree_leaves(arguments)]


def assert_same(left: list[Any], right: list[Any]) -> None:
    assert len(left) == len(right)
    for one, other in zip(left, right, strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
            assert one.stride() == other.stride()
        else:
            assert one == other


def test_each_line_of_the_code_stands_for_the_node_that_it_computes(tmp_path: Path) -> None:
    with record(tmp_path / "s.fxs", PROGRAMS["branches"]) as reader:
        graph = reader.rows(Graph, stage="dynamo", parent=0)[0]
        text = graph_code(reader, graph)
        nodes = {
            node.id: node
            for one in reader.rows(Graph, stage="dynamo")
            for node in reader.nodes(one)
        }
        assert set(text.node_of_line.values()) == set(nodes)
        for line, node in text.node_of_line.items():
            if nodes[node].op != "output":
                assert nodes[node].name in text.lines[line]
