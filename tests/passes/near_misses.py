"""Functions in which one thing keeps a pattern of Inductor's, or a user's, from matching."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.pattern_matcher import (
    Arg,
    CallFunction,
    Match,
    PatternMatcherPass,
    fwd_only,
    register_graph_pattern,
    register_replacement,
)

aten = torch.ops.aten


def heads() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(2, 4, 16, 8) for _ in range(3)]


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """The one that matches."""
    return torch.matmul(q, k.transpose(-2, -1)).div(2.0).softmax(dim=-1).matmul(v)


def scale_is_a_tensor(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scale = torch.full((), 2.0) + q.sum()
    return torch.matmul(q, k.transpose(-2, -1)).div(scale).softmax(dim=-1).matmul(v)


def mask_is_a_number(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)).div(2.0) + 1.0
    return scores.softmax(dim=-1).matmul(v)


def probabilities_are_returned(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    probabilities = torch.matmul(q, k.transpose(-2, -1)).div(2.0).softmax(dim=-1)
    return probabilities.matmul(v), probabilities


def scale_is_missing(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.matmul(q, k.transpose(-2, -1)).abs().softmax(dim=-1).matmul(v)


def sum_is_larger(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return x @ w + b


def matrices() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(8, 8), torch.randn(8, 8), torch.randn(3, 8, 8)]


# A user's own patterns, applied before Inductor's over the graph after AOTAutograd.

OWN = PatternMatcherPass(pass_name="own_patterns")


def sum_then_relu(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x + y)


def replacement(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.clamp(x + y, min=0)


def is_wide(match: Match) -> bool:
    width = match.args[0].meta["val"].shape[-1]
    least = 64
    if width < least:  # noqa: SIM103 - what is told of it is this line
        return False
    return True


@register_graph_pattern(
    CallFunction(aten.sub.Tensor, CallFunction(aten.mul.Tensor, Arg(), 2.0), Arg()),
    pass_dict=OWN,
)
def doubled_difference(match: Match, x: Any, y: Any) -> None:
    match.replace_by_example(lambda x, y: x + x - y, [x, y])


@register_graph_pattern(CallFunction(aten.sin.default, Arg()), extra_check=is_wide, pass_dict=OWN)
def wide_sine(match: Match, x: Any) -> None:
    match.replace_by_example(torch.cos, [x])


@register_graph_pattern(CallFunction(aten.sinh.default, Arg()), pass_dict=OWN)
def never_there(match: Match, x: Any) -> None:
    match.replace_by_example(torch.cosh, [x])


def register_own() -> None:
    """Register the traced pattern once."""
    if not OWN.patterns.get(("call_function", aten.relu.default)):
        examples = [torch.randn(4, 4), torch.randn(4, 4)]
        register_replacement(sum_then_relu, replacement, examples, fwd_only, OWN)


def apply_own(graph: torch.fx.Graph) -> None:
    OWN.apply(graph)


Program = Callable[..., Any]


def relu_of_difference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x - y)


def sigmoid_of_sum(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x + y)


def sum_is_used_twice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    total = x + y
    return torch.relu(total) * total


def tripled_difference(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x * 3.0 - y


def narrow_sine(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sin() + y


def two_squares() -> list[torch.Tensor]:
    return [torch.ones(16, 16), torch.full((16, 16), 2.0)]


def scores_are_cast(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.matmul(q, k.transpose(-2, -1)).div(2.0).to(torch.bfloat16)
    return scores.softmax(dim=-1).to(torch.float32).matmul(v)


CASES: list[tuple[Program, Callable[[], list[torch.Tensor]]]] = [
    (attention, heads),
    (scale_is_a_tensor, heads),
    (mask_is_a_number, heads),
    (probabilities_are_returned, heads),
    (scale_is_missing, heads),
    (scores_are_cast, heads),
    (sum_is_larger, matrices),
    (relu_of_difference, two_squares),
    (sigmoid_of_sum, two_squares),
    (sum_is_used_twice, two_squares),
    (tripled_difference, two_squares),
    (narrow_sine, two_squares),
]
