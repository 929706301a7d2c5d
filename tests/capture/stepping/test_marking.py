"""These tests check regions marked by hand: what a mark covers, its possible errors, and how torch
cuts the region out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

from fx_explorer.capture.stepping.editing import apply_mark, cut, describe_cut
from fx_explorer.errors import UsageError
from fx_explorer.model import Mark


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x).sin()


class Stack(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer() for _ in range(11)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.cos()


@pytest.fixture
def graph() -> torch.fx.GraphModule:
    """Dynamo's graph of Stack."""
    return dynamo_graph(Stack(), torch.ones(2, 4))


def dynamo_graph(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.fx.GraphModule:
    seen: list[torch.fx.GraphModule] = []

    def backend(module: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        seen.append(module)
        return module.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend)(*inputs)
    return seen[0]


def marked(module: torch.fx.GraphModule) -> dict[str, object]:
    return {
        node.name: node.meta["custom"] for node in module.graph.nodes if node.meta.get("custom")
    }


def calls(module: torch.fx.GraphModule) -> list[str]:
    return [node.name for node in module.graph.nodes if node.op.startswith("call")]


def test_a_module_mark_takes_what_lies_below_it_and_no_namesake(
    graph: torch.fx.GraphModule,
) -> None:
    names = apply_mark(graph, Mark("one", module="layers.1"))
    assert names == calls(graph)[2:4], "not those of layers.10"
    assert apply_mark(graph, Mark("linear", module="layers.1.fc")) == names[:1]


def test_a_line_mark_takes_a_call_with_all_it_leads_to(graph: torch.fx.GraphModule) -> None:
    lines, first = inspect.getsourcelines(Stack.forward)
    call = first + next(i for i, line in enumerate(lines) if "layer(x)" in line)
    names = apply_mark(graph, Mark("layers", file=__file__, first_line=call, last_line=call))
    assert names == calls(graph)[:-1], "all but the cos"


def test_a_mark_is_the_annotation_torch_would_have_put_there(graph: torch.fx.GraphModule) -> None:
    (first, second, *_) = calls(graph)
    next(node for node in graph.graph.nodes if node.name == first).meta["custom"] = {"mine": 1}
    configs: dict[str, object] = {"max_fusion_size": 2, "triton.cudagraphs": False}
    assert apply_mark(graph, Mark("r", nodes=(second, first), configs=configs)) == [first, second]
    region = {"inductor_region": "r", "inductor_configs": configs}
    assert marked(graph) == {
        first: {"mine": 1, "compile_with_inductor": region},
        second: {"compile_with_inductor": region},
    }


CANNOT_BE = (
    (Mark("r"), "empty: name nodes, a module or source lines"),
    (Mark(" ", module="layers"), "needs a name"),
    (Mark("r", nodes=("nope", "cos")), "no node nope"),
    (Mark("r", nodes=("output",)), "output cannot be compiled"),
    (Mark("r", module="layer"), "no node was traced in module 'layer'; there are layers.0"),
    (Mark("r", file=__file__, first_line=1, last_line=2), "no node comes from lines 1 to 2"),
    (Mark("r", file="other.py", first_line=1, last_line=2), "no node comes from other.py"),
    (
        Mark("r", module="layers", configs={"max_fuson_size": 1}),
        "no torch._inductor.config entry max_fuson_size",
    ),
)


def test_a_mark_that_cannot_be_says_why_and_changes_nothing(graph: torch.fx.GraphModule) -> None:
    for mark, message in CANNOT_BE:
        with pytest.raises(UsageError, match=message):
            apply_mark(graph, mark)
        assert marked(graph) == {}


def test_a_region_that_would_wait_for_itself_falls_into_pieces() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(x.sin().cos()).tan()

    module = dynamo_graph(function, torch.ones(3))
    sine, cosine, sigmoid, tangent = [
        node for node in module.graph.nodes if node.op.startswith("call")
    ]
    whole = cut(module, [sine, cosine])
    assert whole.pieces == ((sine.name, cosine.name),)
    assert describe_cut("r", whole) == 'region "r" is one piece of 2 nodes'
    split = cut(module, [sine, cosine, tangent])
    assert split.pieces == ((sine.name, cosine.name), (tangent.name,))
    assert sigmoid.name in describe_cut("r", split)
    assert "2 pieces (2 + 1 nodes)" in describe_cut("r", split)
