"""Regions: two parts of a model marked with annotate, to be found again in every later graph, forward and backward."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.fx.traceback import annotate


class Marked(nn.Module):
    """With ``--backend regional_inductor`` only the two marked parts are compiled, each on its own."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.value = nn.Linear(width, width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x)
        with annotate({"compile_with_inductor": {"inductor_region": "attention"}}):
            weights = F.softmax(self.query(x) @ x.transpose(-1, -2), dim=-1)
            x = x + weights @ self.value(x)
        x = torch.tanh(x)
        with annotate({"compile_with_inductor": {"inductor_region": "mlp"}}):
            x = x + self.down(F.silu(self.up(x)))
        return x.sum(-1)


model = Marked()
example_inputs = (torch.randn(2, 8, 32),)
