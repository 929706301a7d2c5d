"""This module has programs whose first size varies: torch makes it a symbol, and derives sizes,
strides, offsets and storages from it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


def _varied(
    function: Callable[..., torch.Tensor], *shapes: tuple[int, ...], module: nn.Module | None = None
) -> Any:
    """Call a compiled function with two first sizes, and with a third marked before; return all
    results and gradients.
    """
    found: list[torch.Tensor] = []
    for sizes, mark in (((4, 6), False), ((7, 9), True)):
        torch._dynamo.reset()
        compiled = torch.compile(function)
        for rows in sizes:
            given = [torch.randn(rows, *shape, requires_grad=True) for shape in shapes]
            if mark:
                for one in given:
                    torch._dynamo.mark_dynamic(one, 0)
            made = compiled(*given)
            made.float().sum().backward()
            gradients = [
                one.grad
                for one in (*given, *(module.parameters() if module else ()))
                if one.grad is not None
            ]
            found += [made.detach(), *(gradient.clone() for gradient in gradients)]
    return found


def rows_of_a_batch() -> Any:
    return _varied(lambda x: (x + x[0].sin() * x[-1].cos()).sum() + x[1].exp().mean(), (3,))


def parts_of_a_batch() -> Any:
    def parts(x: torch.Tensor) -> torch.Tensor:
        head, tail = x[:2], x[2:]
        middle = x.narrow(0, 1, 2).relu()
        return (
            head.sum()
            + tail.sigmoid().mean()
            + middle.prod()
            + x[::2].tanh().sum()
            + x.select(0, 2).pow(2).sum()
        )

    return _varied(parts, (3, 2))


def split_and_joined() -> Any:
    def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, dim=1)
        return torch.cat([a.exp(), y, b.sin()], 1) @ torch.stack([x[0], x[1], y[0]], 1).sum(
            1
        ).repeat(2)[:12].reshape(12, 1)

    return _varied(joined, (4,), (4,))


def views_with_arithmetic() -> Any:
    def viewed(x: torch.Tensor) -> torch.Tensor:
        rows = x.size(0)
        flat = x.view(-1).reshape(rows * 2, -1).t().contiguous().view(3, 2, rows)
        return flat.permute(2, 0, 1).flatten(1).unsqueeze(0).expand(2, rows, 6).transpose(0, 1)[
            0
        ].sin().sum() * (rows + 1)

    return _varied(viewed, (2, 3))


def strided_and_unfolded() -> Any:
    def strided(x: torch.Tensor) -> torch.Tensor:
        diagonal = x.unfold(1, 3, 2).cos()
        return (
            diagonal.sum()
            + x.as_strided((2, 3), (1, 2)).sin().sum()
            + x.flip(0)[0].exp().sum()
            + x.roll(1, 0)[0].sum()
        )

    return _varied(strided, (7,))


def positions_made_of_sizes() -> Any:
    def positions(x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        mask = torch.ones(rows, rows, dtype=torch.bool).tril()
        scores = (x @ x.t()).masked_fill(~mask, float("-inf")).softmax(-1)
        return scores @ x + torch.arange(rows).unsqueeze(1) / rows

    return _varied(positions, (5,))


def picked_by_index() -> Any:
    def picked(x: torch.Tensor) -> torch.Tensor:
        order = x.detach().argsort(dim=0)
        top, where = x.topk(2, dim=0)
        spread = torch.zeros_like(x).scatter_add(0, order, x.sin())
        return x.gather(0, order).cumsum(0) + spread + top[0] + x.index_select(0, where[0]).sum()

    return _varied(picked, (3,))


def convolutions_of_a_batch() -> Any:
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
    )
    return _varied(lambda x: net(x).log_softmax(-1), (2, 4, 4), module=net)


def attention_of_a_batch() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return _varied(lambda x: layer(x)[0], (5, 8), module=layer)


def attention_over_a_length() -> Any:
    def attended(x: torch.Tensor) -> torch.Tensor:
        heads = x.view(-1, 2, 4).transpose(0, 1).unsqueeze(0)
        return F.scaled_dot_product_attention(heads, heads.sin(), heads.cos(), is_causal=True)[
            0, 0, 0
        ]

    return _varied(attended, (8,))


def loops_over_steps() -> Any:
    cell = nn.GRUCell(3, 4)

    def stepped(x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(x.size(0), 4)
        for step in x.unbind(1):
            state = cell(step, state)
        return state[0]

    return _varied(stepped, (3, 3), module=cell)


def written_in_place() -> Any:
    def written(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[0] = x[1]
        y[1:].mul_(x[:-1])
        y.t()[1].add_(1)
        return y[-1].sum() + y[:, 0].prod()

    return _varied(written, (3,))


def rows_that_leave() -> Any:
    """A view of a row leaves the graph, whose storage is as large as the batch."""
    compiled = torch.compile(lambda x: (x[1], x[1:].sin(), x.view(-1)[2:5]))
    found = []
    for rows in (4, 6, 5):
        given = torch.randn(rows, 3)
        found += [*compiled(given), given]
    return found


def rows_in_small_types() -> Any:
    def small(x: torch.Tensor) -> torch.Tensor:
        half = x.to(torch.bfloat16)
        return (
            (half[0] * half[1]).float()
            + half.mean(0)
            + (x[0] > 0)
            + x.to(torch.int8)[1].clamp(0, 3)
        )

    return _varied(small, (4,))


def rows_counted_in_the_data() -> Any:
    compiled = torch.compile(lambda x: x[x[:, 0] > 0].sin().sum(0) + x.nonzero().size(0))
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        return [compiled(torch.randn(rows, 3)) for rows in (4, 6, 5)]
