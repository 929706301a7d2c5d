"""Graph breaks of five kinds: what each line does to the graph, torch's reason for it, and how to get rid of it."""

import time

import torch
from torch import nn


@torch.compiler.disable
def outside(x: torch.Tensor) -> torch.Tensor:
    return x.clamp(min=0.0)


class Breaks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        print("the shape is", x.shape)  # a call with a side effect
        x = torch.relu(x)
        if x.sum() > 0:  # a branch on the value of a tensor
            x = x * 2
        x = self.second(x)
        torch._dynamo.graph_break()  # one that was asked for
        x = outside(x + 1)  # a function that was left out on purpose
        time.sleep(0.0)  # a call into C that Dynamo does not know
        return x.sigmoid()


model = Breaks()
example_inputs = (torch.randn(4, 8),)
