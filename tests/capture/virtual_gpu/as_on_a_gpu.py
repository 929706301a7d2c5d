"""This script has programs for which torch decides by the device before there is a graph to move."""

from __future__ import annotations

import sys

import report
import torch
import torch.nn.functional as F
from torch import nn


def optimizer() -> None:
    parameters = [nn.Parameter(torch.randn(16, 8)) for _ in range(3)]
    for parameter in parameters:
        parameter.grad = torch.randn(16, 8)
    step = torch.optim.AdamW(parameters).step
    torch.compile(lambda: step())()


def channels_last() -> None:
    layer = nn.Conv2d(8, 16, 3).to(memory_format=torch.channels_last)
    torch.compile(layer)(
        torch.randn(2, 8, 32, 32).to(memory_format=torch.channels_last)
    ).sum().backward()


def fast_path() -> None:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval().requires_grad_(False)
    torch.compile(layer)(torch.randn(2, 16, 64))


def nested() -> None:
    sentences = torch.nested.nested_tensor(
        [torch.randn(3, 8), torch.randn(5, 8)], layout=torch.jagged
    )
    torch.compile(lambda x: x.sin() * 2)(sentences)


def mask() -> None:
    heads = [torch.randn(2, 8, 64, 64, dtype=torch.float16, requires_grad=True) for _ in range(3)]
    seen = torch.ones(64, 64, dtype=torch.bool).tril()
    torch.compile(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, seen))(
        *heads
    ).sum().backward()


def lstm() -> None:
    """With ``cuda``: an LSTM is not compiled, and its tensors have no content."""
    layer = nn.LSTM(16, 32).cuda()
    nn.init.trunc_normal_(layer.weight_hh_l0, std=0.02)
    output = torch.compile(lambda x: layer(x.sin())[0].cos())(torch.randn(5, 2, 16, device="cuda"))
    output.sum().backward()


def questions() -> None:
    def asks(x: torch.Tensor) -> torch.Tensor:
        return x.sin() if torch.cuda.is_available() else x.cos()

    torch.compile(asks, fullgraph=True)(torch.randn(8))


PROGRAMS = {
    run.__name__: run
    for run in (optimizer, questions, channels_last, fast_path, nested, mask, lstm)
}

if __name__ == "__main__":
    report.run_all({name: PROGRAMS[name] for name in sys.argv[1:]})
