"""Start here: two linear layers and an activation; see one graph go forward and backward and GELU become a kernel."""

import torch
from torch import nn


class MLP(nn.Module):
    def __init__(self, features: int = 32, hidden: int = 64, classes: int = 10) -> None:
        super().__init__()
        self.fc1 = nn.Linear(features, hidden)
        self.fc2 = nn.Linear(hidden, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = nn.functional.gelu(self.fc1(x))
        return self.fc2(hidden)


example_inputs = (torch.randn(4, 32),)
