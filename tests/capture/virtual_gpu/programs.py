"""This script has small programs of many kinds: ``programs.py NAME …`` compiles the named ones,
with a backward if the program has one.

Those that were recorded on a real GPU, here on the CPU, and some that have no counterpart there.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path

import report
import torch
from torch import nn

sys.path.append(str(Path(__file__).parents[3]))  # behind what is installed
from tests.golden_gpu.programs import PROGRAMS, Program, program


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRUCell(64, 128), nn.Linear(128, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = x.new_zeros(x.shape[1], 128)
        for step in range(x.shape[0]):
            hidden = self.cell(x[step], hidden)
        return self.out(hidden)


@program
def recurrent_loop(device: str) -> Program:
    return Program(Recurrent().to(device), (torch.randn(6, 16, 64, device=device),))


@program
def optimizer_step(device: str) -> Program:
    parameters = [torch.randn(128, 64, device=device, requires_grad=True) for _ in range(6)]
    for parameter in parameters:
        parameter.grad = torch.randn(128, 64, device=device)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, capturable=False, foreach=True)
    return Program(lambda: optimizer.step(), ())


@program
def value_dependent(device: str) -> Program:
    def run(x: torch.Tensor) -> torch.Tensor:
        y = x.abs().sum()
        return y.sqrt() if y.item() > 0 else y.neg()

    return Program(run, (torch.randn(1000, device=device),))


def compile_and_run(name: str) -> None:
    torch.manual_seed(0)
    one = PROGRAMS[name]("cpu")
    output = torch.compile(one.call, dynamic=one.dynamic, options=one.options or None)(
        *one.arguments
    )
    outputs = [
        each
        for each in (output if isinstance(output, tuple) else (output,))
        if getattr(each, "requires_grad", False)
    ]
    if outputs:
        sum(each.float().sum() for each in outputs).backward()


if __name__ == "__main__":
    report.run_all(
        {name: functools.partial(compile_and_run, name) for name in sys.argv[1:] or PROGRAMS}
    )
