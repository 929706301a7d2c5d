"""These tests check that the three kinds of models compute the same as without compiling: results
and every gradient.
"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from sample_models.convnet import ConvNet
from sample_models.mlp import MLP
from sample_models.transformer import Transformer, example_inputs
from tests.exhaustive import one_of
from tests.sample_backends.conftest import Attention, compiled

MODELS = {
    "mlp": (MLP, (4, 32)),
    "mlp with sizes that fill no tile": (lambda: MLP(67, 131, 19), (33, 67)),
    "transformer block": (Attention, (2, 9, 32)),
    "convnet": (ConvNet, (2, 3, 16, 16)),
}


def gradients(model: nn.Module, x: torch.Tensor) -> dict[str, torch.Tensor | None]:
    return {
        "input": x.grad,
        **{name: parameter.grad for name, parameter in model.named_parameters()},
    }


@pytest.mark.parametrize("name", MODELS)
def test_results_and_gradients_are_those_of_the_uncompiled_model(name: str) -> None:
    make, sizes = MODELS[name]
    ours = make()
    theirs = copy.deepcopy(ours)
    x = torch.randn(sizes, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    for _ in range(2):  # twice: gradients add up, and running statistics go on
        result, expected = compiled(ours)(x), theirs(y)
        torch.testing.assert_close(result, expected)
        weights = torch.randn_like(expected)
        result.backward(weights)
        expected.backward(weights)
    torch.testing.assert_close(gradients(ours, x), gradients(theirs, y))
    torch.testing.assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()))


@pytest.mark.parametrize("name", one_of(2, MODELS))
def test_inference_gives_what_the_uncompiled_model_gives(name: str) -> None:
    make, sizes = MODELS[name]
    model = make().eval()
    x = torch.randn(sizes)
    with torch.no_grad():
        torch.testing.assert_close(compiled(model)(x), model(x))


def test_a_loss_and_attention_of_pytorchs_fall_back_and_train_alike() -> None:
    ours = Transformer(layers=1)
    theirs = copy.deepcopy(ours)
    inputs = example_inputs()
    result, expected = compiled(ours)(**inputs), theirs(**inputs)
    torch.testing.assert_close(result.logits, expected.logits)
    result.loss.backward()
    expected.loss.backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad)


def test_a_product_is_as_near_to_float64_as_pytorchs() -> None:
    a, b = torch.randn(150, 700), torch.randn(700, 90)
    exact = a.double() @ b.double()
    ours, theirs = (compiled(torch.mm)(a, b) - exact).abs().max(), (a @ b - exact).abs().max()
    assert ours < 3 * theirs
