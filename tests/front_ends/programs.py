"""This module has targets that a front end has trouble with, each for one reason."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import nn


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x - 1  # BRANCH


class Iterated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for row in x:  # ITERATED
            x = x + row
        return x


class Counted(nn.Module):
    def forward(self, *xs: torch.Tensor) -> torch.Tensor:
        return xs[0] * len(xs)  # COUNTED


class Sized(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(x.shape[0]):  # SIZED
            x = x + i
        return x


class Item(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()  # ITEM


class Numpy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.from_numpy(x.detach().numpy())  # NUMPY


class Hidden(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Linear(4, 4)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers[0](x)  # HIDDEN


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.compile(lambda x: x + 1, backend="eager")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)  # INNER


class Returns(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        return {"x": x, "object": object()}


class Counter(nn.Module):
    """Writes to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.total += x.sum(0)
        return x + self.calls


class Silent(nn.Module):
    """Silent is a module that returns nothing, and writes to its input."""

    def forward(self, x: torch.Tensor) -> None:
        x.add_(1)


class Slow(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2000):
            time.sleep(0.05)
        return x


class Raises(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise KeyError("no such thing")  # RAISES


class Exits(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise SystemExit(7)


class CannotBeCopied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.register_buffer("total", torch.zeros(4))

    def __deepcopy__(self, memo: dict[int, Any]) -> CannotBeCopied:
        raise TypeError("there can be only one")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.total += x.sum(0)
        return x + self.calls


def function(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    return x.relu() * scale


def line_of(mark: str) -> int:
    """The line that ends with this word as a comment."""
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if line.rstrip().endswith(f"# {mark}"))
