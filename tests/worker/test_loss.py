"""These tests check the scalar that backward starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from fx_explorer.program.calling import find_loss


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor([float(value) for value in values], requires_grad=True)


@dataclass
class Output:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


class Pair(NamedTuple):
    first: torch.Tensor
    second: list[torch.Tensor]


def test_the_outputs_own_loss_is_taken_as_attribute_or_key() -> None:
    assert find_loss(Output(leaf(1, 2), leaf(7).sum())) == 7
    assert find_loss({"loss": leaf(3, 4), "logits": leaf(1)}) == 7


def test_without_a_loss_all_floating_outputs_are_summed_however_nested() -> None:
    nested = Pair(leaf(1, 2), [leaf(3), {"x": (leaf(4), torch.ones(9), "text")}])
    assert find_loss(nested) == 10
    assert find_loss(Output(leaf(5), loss=None)) == 5


def test_a_loss_without_gradient_does_not_hide_the_outputs_that_have_one() -> None:
    assert find_loss(Output(leaf(5), loss=torch.tensor(3.0))) == 5


def test_complex_outputs_count_with_both_parts() -> None:
    value = torch.tensor([1 + 2j], requires_grad=True)
    loss = find_loss(value)
    assert loss == 3
    assert not loss.is_complex()


def test_nothing_differentiable_gives_none() -> None:
    assert find_loss((torch.ones(2), torch.ones(2).argmax(), None, "x")) is None
