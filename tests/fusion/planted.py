"""Thirteen functions whose kernels Inductor does not fuse, each for another reason. As a script it
compiles all of them and has Inductor log what it fuses.
"""

from __future__ import annotations

import torch


def transposed(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    soft = torch.softmax(x, 0)
    return torch.softmax(soft, 1), soft


def shifted(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    exp = x.exp()
    return exp[1:] - exp[:-1], exp


def other_sizes(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sum(0), (x[:32] * 2).cos()


def whole_first(x: torch.Tensor) -> torch.Tensor:
    total = x.sum()
    return x / total


def opaque(x: torch.Tensor) -> torch.Tensor:
    sine = x.sin()
    return torch.sort(sine).values.cos()


def library(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ weight)


def scan(x: torch.Tensor) -> torch.Tensor:
    return torch.cumsum(x.sin(), 0) * 2


def mutated(x: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
    into.copy_(x.sin().flip(0))
    return into.roll(1, 0).cos() + 1


def gathered(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    cosine = x.cos()
    return cosine[index].sum(1), cosine


def normalized_twice(x: torch.Tensor) -> torch.Tensor:
    rows = x / x.norm(dim=1, keepdim=True)
    return rows / rows.norm(dim=0, keepdim=True)


def many(*parts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    added = parts[0]
    for part in parts[1:]:
        added = added + part.sin()
    return added, added.sum(1)


def batch_norm(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.batch_norm(x, None, None, training=True).relu()


def unrolled(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    soft = torch.softmax(x[:4], 1)
    return soft.sum(0), soft


def cases() -> list[tuple[object, ...]]:
    x = torch.linspace(-1, 1, 256 * 128).reshape(256, 128)
    index = torch.arange(255, -1, -1)
    return [
        (transposed, x),
        (shifted, x),
        (other_sizes, x),
        (whole_first, x),
        (opaque, x),
        (library, x, x.t().contiguous()),
        (scan, x),
        (mutated, x, x.clone()),
        (gathered, x, index),
        (normalized_twice, x),
        (many, *(torch.full((64, 64), float(i)) for i in range(70))),
        (batch_norm, x.reshape(8, 16, 16, 16)),
        (unrolled, x),
    ]


if __name__ == "__main__":
    torch._logging.set_logs(fusion=True)
    for function, *arguments in cases():
        torch.compile(function)(*arguments)
