"""These tests check which operations are left to PyTorch, and why, against counts made by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from sample_backends.small import small
from sample_backends.small_backend.partition import has_order, partitioned, segments_of
from sample_backends.small_backend.support import SmallSupport
from sample_models.convnet import ConvNet
from sample_models.mlp import MLP
from tests.sample_backends.conftest import Attention


def graphs(model: torch.nn.Module, x: torch.Tensor) -> list[GraphModule]:
    """The ATen graphs of a training step: forward, backward."""
    found = []

    def keep(graph_module: GraphModule, inputs: object) -> object:
        found.append(partitioned(graph_module, SmallSupport()))
        return graph_module.forward

    torch._dynamo.reset()
    keep_boxed = torch._functorch.aot_autograd.make_boxed_compiler(keep)
    torch.compile(model, backend=aot_autograd(fw_compiler=keep_boxed))(x).sum().backward()
    return found


def left_to_pytorch(cut: GraphModule) -> Counter[str]:
    """Count operators outside of segments. Views next to a segment cost nothing and are not
    counted.
    """
    names = [
        node.target.name()
        for node in cut.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
    ]
    return Counter(name.removeprefix("aten::").partition(".")[0] for name in names)


VIEWS = {"t", "view", "detach", "permute", "unsqueeze", "expand", "transpose", "unbind"}


def test_an_mlp_is_one_segment_forward_and_one_backward() -> None:
    for cut in graphs(MLP(), torch.randn(4, 32)):
        assert len(segments_of(cut)) == 1
        assert left_to_pytorch(cut).keys() <= VIEWS


def test_of_a_transformer_block_pytorch_runs_one_operator_which_cuts_the_backward_in_two() -> None:
    forward, backward = graphs(Attention(), torch.randn(2, 8, 32))
    assert len(segments_of(forward)) == 1
    assert left_to_pytorch(forward).keys() <= VIEWS
    assert len(segments_of(backward)) == 2
    assert left_to_pytorch(backward) - Counter(dict.fromkeys(VIEWS, 99)) == {
        "stack": 1
    }  # the gradient of unbind


def test_of_a_convnet_pytorch_runs_what_is_not_in_the_registry() -> None:
    forward, backward = graphs(ConvNet(), torch.randn(2, 3, 16, 16))
    # 5 convolutions, 4 batch norms, each of which counts its calls in an int64, and one mean: see
    # sample_models/convnet.py
    assert left_to_pytorch(forward) - Counter(dict.fromkeys(VIEWS, 99)) == {
        "convolution": 5,
        "_native_batch_norm_legit_functional": 4,
        "add": 4,
        "mean": 1,
    }
    assert left_to_pytorch(backward) - Counter(dict.fromkeys(VIEWS, 99)) == {
        "convolution_backward": 5,
        "native_batch_norm_backward": 4,
    }


def reasons(
    function: Callable[..., object], *inputs: torch.Tensor, **options: object
) -> dict[str, str]:
    graph_module = make_fx(lambda *given: function(*given), **options)(*inputs)
    support = SmallSupport()
    calls = [node for node in graph_module.graph.nodes if node.op == "call_function"]
    return {node.name: support.reason({}, node) for node in calls}


def test_every_refusal_has_a_reason() -> None:
    x, tracing = torch.randn(3, 4), {"tracing_mode": "fake"}
    assert reasons(F.relu, x, **tracing) == {"relu": ""}
    assert reasons(torch.sin, x, **tracing) == {"sin": "it is not in the registry"}
    assert reasons(F.relu, x.double(), **tracing) == {
        "relu": "a tensor is of float64, not of float32"
    }
    assert reasons(F.relu, x[:0], **tracing) == {"relu": "a tensor has no elements"}
    assert reasons(F.relu, x.view(3, 4, 1, 1, 1, 1, 1), **tracing) == {
        "relu": "a tensor has 7 dimensions, more than 6"
    }
    assert (
        reasons(lambda x: x.sum(dtype=torch.float64), x, **tracing)["sum_1"]
        == "a tensor is of float64, not of float32"
    )
    assert (
        reasons(lambda x: torch.addmm(x, x, x.t(), alpha=0), x[:, :3], **tracing)["addmm"]
        == "alpha is 0, beta is 1"
    )
    assert (
        reasons(F.relu, x, tracing_mode="symbolic")["relu"] == "a size is not known before the call"
    )


def test_the_backend_declares_its_support() -> None:
    assert isinstance(small.operator_support, torch.fx.passes.operator_support.OperatorSupportBase)  # type: ignore[attr-defined]


def test_random_numbers_are_drawn_in_the_order_of_the_graph() -> None:
    def draws(x: torch.Tensor) -> object:
        late = torch.rand_like(x.relu()).relu()
        early = torch.rand(3).sin()
        return late + early.relu() + torch.rand_like(late)

    graph_module = make_fx(draws, tracing_mode="fake")(torch.randn(3))
    expected = [node.name for node in graph_module.graph.nodes if has_order(node)]
    cut = partitioned(graph_module, SmallSupport())
    assert len(expected) == 3
    assert [
        node.name for node in cut.graph.nodes if node.op == "call_function" and has_order(node)
    ] == expected


def test_the_graph_that_is_given_stays_as_it_is() -> None:
    graph_module = make_fx(lambda x: (x @ x).relu().sin(), tracing_mode="fake")(torch.randn(3, 3))
    before = graph_module.print_readable(print_output=False)
    partitioned(graph_module, SmallSupport())
    assert graph_module.print_readable(print_output=False) == before
