"""A target that leaves Inductor a choice of memory layouts: convolutions of a contiguous input."""

from __future__ import annotations

import torch


class Convolved(torch.nn.Module):
    """Two convolutions, and a product of matrices."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Conv2d(16, 32, 3, padding=1)
        self.second = torch.nn.Conv2d(32, 32, 3, padding=1)
        self.head = torch.nn.Linear(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.second(torch.relu(self.first(x)))
        return self.head(x.mean((2, 3)))


convolved = Convolved().eval().requires_grad_(requires_grad=False)

example_inputs = (torch.ones(2, 16, 28, 28),)
