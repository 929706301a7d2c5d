"""The model of the kept screens: two blocks of a transformer's kind, a print between them, and a loss."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, 4 * width)
        self.out = nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.gelu(self.hidden(self.norm(x)))
        return x + self.out(hidden)


class Net(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first = Block(width)
        self.second = Block(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        print("between the blocks")
        x = self.second(x)
        return torch.softmax(x, -1).mean()
