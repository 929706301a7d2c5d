"""Hits a graph break."""

import torch


def cut(x):
    torch._dynamo.graph_break()
    return x.sin()


torch.compile(cut, backend="eager")(torch.ones(3))
print("the child hit a graph break", flush=True)
