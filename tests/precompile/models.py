"""This module has the models of these tests, and functions that compile them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.fx.traceback as fx_traceback

from fx_explorer.precompile import CompiledFunction, Guards, Precompile


def eager(graph: torch.fx.GraphModule, inputs: object) -> object:
    """Return the graph uncompiled: this compiler leaves it as it is."""
    return graph.forward


class MLP(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = torch.nn.Linear(8, 16)
        self.fc2 = torch.nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.nn.functional.gelu(self.fc1(x)))


class Block(torch.nn.Module):
    """A transformer block; attention and mlp are annotated with plain strings, and touch."""

    def __init__(self, size: int = 16) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)
        self.qkv = torch.nn.Linear(size, 3 * size)
        self.out = torch.nn.Linear(size, size)
        self.up = torch.nn.Linear(size, 2 * size)
        self.down = torch.nn.Linear(2 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with fx_traceback.annotate({"compile_with_inductor": "attention"}):
            q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
            weights = torch.softmax(q @ k.transpose(-1, -2) / 4.0, -1)
            x = x + self.out(weights @ v)
        with fx_traceback.annotate({"compile_with_inductor": "mlp"}):
            return x + self.down(torch.nn.functional.gelu(self.up(x)))


class Transformer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList([Block(), Block()])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x.sum(-1)


@dataclass
class Compiled:
    model: torch.nn.Module
    gm: torch.fx.GraphModule
    guards: Guards
    inputs: tuple[torch.Tensor, ...]
    run: CompiledFunction
    rebuilt: Guards


def compiled(model: torch.nn.Module, *inputs: torch.Tensor, compiler: object = None) -> Compiled:
    gm, _, guards, inputs = Precompile.dynamo(model, *inputs)
    run, rebuilt = Precompile.aot_autograd(gm, guards, compiler=compiler)
    return Compiled(model, gm, guards, inputs, run, rebuilt)
