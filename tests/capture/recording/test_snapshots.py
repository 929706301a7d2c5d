"""These tests check the copies of the graphs that torch.compile produces, at Dynamo and after
AOTAutograd.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.fx import GraphModule

from fx_explorer.capture.graph_copies import snapshot
from fx_explorer.capture.torch_compat.patching import patched
from tests.capture.lowering import fresh_compiler


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.GELU())
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps.add_(1)
        y = torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (self.layers(x),))
        return y + torch.tensor([1.0, 2.0])[1]


@contextlib.contextmanager
def graphs_of(stages: dict[str, tuple[GraphModule, list[Any]]]) -> Iterator[None]:
    from torch._inductor import compile_fx as module

    def keep(name: str) -> Any:
        def make(original: Any) -> Any:
            def function(gm: GraphModule, inputs: list[Any], *args: Any, **kwargs: Any) -> Any:
                stages.setdefault(name, (gm, list(inputs)))
                return gm.forward if name == "dynamo" else original(gm, inputs, *args, **kwargs)

            return function

        return make

    with fresh_compiler(), patched(module, "compile_fx", keep("dynamo")):
        yield


@pytest.fixture(scope="module")
def dynamo() -> tuple[GraphModule, list[Any]]:
    stages: dict[str, tuple[GraphModule, list[Any]]] = {}
    with graphs_of(stages):
        torch.compile(Model())(torch.ones(2, 8))
    return stages["dynamo"]


def described(module: GraphModule) -> list[Any]:
    nested: list[Any] = [
        described(child) for child in module.children() if isinstance(child, GraphModule)
    ]
    return [
        (n.op, n.target, n.name, repr(n.args), repr(n.kwargs), n.type) for n in module.graph.nodes
    ] + nested


def test_a_copy_has_the_same_nodes_meta_and_code(dynamo: tuple[GraphModule, list[Any]]) -> None:
    module, _ = dynamo
    copied = snapshot(module)
    assert described(copied) == described(module)
    assert copied.print_readable(print_output=False) == module.print_readable(print_output=False)
    for mine, theirs in zip(copied.graph.nodes, module.graph.nodes, strict=True):
        assert mine.meta == theirs.meta
        assert mine.meta is not theirs.meta
        assert getattr(mine, "_dynamo_source", None) is getattr(theirs, "_dynamo_source", None)
    assert copied.meta == module.meta
    assert copied.compile_subgraph_reason is module.compile_subgraph_reason
    assert copied._param_name_to_source is module._param_name_to_source
    copied.graph.lint()


def test_a_copy_computes_the_same_on_the_same_tensors(
    dynamo: tuple[GraphModule, list[Any]],
) -> None:
    module, inputs = dynamo
    copied = snapshot(module)
    assert torch.equal(copied(*inputs)[0], module(*inputs)[0])
    tensors = dict(module.named_buffers(remove_duplicate=False))
    assert all(
        tensor is tensors[name] for name, tensor in copied.named_buffers(remove_duplicate=False)
    )


def test_editing_the_copy_leaves_the_original_alone(dynamo: tuple[GraphModule, list[Any]]) -> None:
    module, inputs = dynamo
    before, code, result = described(module), module.code, module(*inputs)[0]
    copied = snapshot(module)
    for child in (copied, *(c for c in copied.children() if isinstance(c, GraphModule))):
        for node in list(child.graph.nodes):
            node.meta.clear()
            if node.op in ("call_function", "call_method"):
                node.target, node.op = torch.neg, "call_function"
        child.recompile()
    assert described(module) == before
    assert module.code == code
    assert all(node.meta for node in module.graph.nodes if node.op == "call_function")
    assert torch.equal(module(*inputs)[0], result)
