"""Twelve small functions with planted aliases and changes, and what must be said of each. They were
written down before they were looked at; where torch does otherwise, it says so here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

Function = Callable[..., object]


def only_computes(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def flattens(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sin(), x.view(-1)


def passes_through(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x, x.cos()


def two_views(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 2
    return y.view(-1), y.t()


def base_and_view(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y = x * 2
    return y, y[0]


def adds_in_place(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


def scales_in_place(x: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    return x.sum()


def transposes_in_place(x: torch.Tensor) -> torch.Tensor:
    x.t_()
    return x + 1


def writes_a_row(x: torch.Tensor) -> torch.Tensor:
    x[0].fill_(3)
    return x.sum()


def steps(weight: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        weight.sub_(0.1)
    return weight * 2


def adds_to_overlapping(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    a.add_(1)
    return a + b


class Normalizes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.norm(x)
        return result


def plain() -> tuple[torch.Tensor, ...]:
    return (torch.randn(4, 4),)


def with_gradient() -> tuple[torch.Tensor, ...]:
    return (torch.randn(4, 4, requires_grad=True),)


def computed_with_gradient() -> tuple[torch.Tensor, ...]:
    return (torch.randn(4, 4, requires_grad=True).clone(),)


def overlapping() -> tuple[torch.Tensor, ...]:
    base = torch.zeros(8)
    return base[:6], base[2:]


@dataclass(frozen=True)
class Planted:
    """A function with its inputs, and the facts to be found, as ``(role, name or position, kind,
    name of the base, bytes that are copied back)``.
    """

    make: Callable[[], Function]
    inputs: Callable[[], tuple[torch.Tensor, ...]]
    facts: tuple[tuple[str, str, str, str, int], ...]
    bases: int = 0
    """Tensors that the graph returns besides, because results are views of them."""


PLANTED = {
    "only_computes": Planted(lambda: only_computes, with_gradient, ()),
    "flattens": Planted(
        lambda: flattens, with_gradient, (("output", "output 1", "alias_of_input", "input x", 0),)
    ),
    # Expected was an output that is the input. Dynamo returns it without the graph.
    "passes_through": Planted(lambda: passes_through, with_gradient, ()),
    "two_views": Planted(
        lambda: two_views,
        with_gradient,
        (
            ("output", "output 0", "alias_of_intermediate_save_as_output", "", 0),
            ("output", "output 1", "alias_of_intermediate", "", 0),
        ),
        bases=1,
    ),
    "base_and_view": Planted(
        lambda: base_and_view,
        with_gradient,
        (("output", "output 1", "alias_of_intermediate_base_is_user_output", "output 0", 0),),
    ),
    "adds_in_place": Planted(
        lambda: adds_in_place, plain, (("input", "input x", "mutated_in_graph", "", 0),)
    ),
    "scales_in_place": Planted(
        lambda: scales_in_place,
        computed_with_gradient,
        (("input", "input x", "mutated_out_graph", "", 64),),
    ),
    # Expected was a change of sizes after the graph. Dynamo breaks the graph at ``t_``.
    "transposes_in_place": Planted(lambda: transposes_in_place, plain, ()),
    "writes_a_row": Planted(
        lambda: writes_a_row, plain, (("input", "input x", "mutated_in_graph", "", 0),)
    ),
    "steps": Planted(
        lambda: steps, with_gradient, (("input", "input weight", "mutated_in_graph", "", 0),)
    ),
    "adds_to_overlapping": Planted(
        lambda: adds_to_overlapping,
        overlapping,
        (
            ("input", "input a", "mutated_in_graph", "input b", 0),
            # Expected was a change of b as well. AOTAutograd says that of their common base only.
            ("input", "input b", "not_mutated", "input a", 0),
        ),
    ),
    "Normalizes": Planted(
        Normalizes,
        with_gradient,
        (
            ("input", "buffer norm.num_batches_tracked", "mutated_in_graph", "", 0),
            ("input", "buffer norm.running_mean", "mutated_in_graph", "", 0),
            ("input", "buffer norm.running_var", "mutated_in_graph", "", 0),
        ),
    ),
}
