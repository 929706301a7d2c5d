"""This module has small programs of many kinds, for a device of the caller's choice.

`PROGRAMS[name](device)` answers a :class:`Program`. ``record.py`` builds them on a real GPU, the
tests on the CPU for a virtual one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F


@dataclass(frozen=True)
class Program:
    """A Program is compiled: ``call(*arguments)``, with a backward if any of its outputs requires
    one.
    """

    call: Callable[..., Any]
    arguments: tuple[torch.Tensor, ...]
    dynamic: bool | None = None
    options: dict[str, Any] = field(default_factory=dict)


PROGRAMS: dict[str, Callable[[str], Program]] = {}


def program(build: Callable[[str], Program]) -> Callable[[str], Program]:
    """Enter a program under the name of the function that builds it."""
    PROGRAMS[build.__name__] = build
    return build


@program
def mlp(device: str) -> Program:
    model = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)).to(device)
    return Program(model, (torch.randn(64, 512, device=device),))


@program
def mlp_of_odd_shapes(device: str) -> Program:
    model = nn.Sequential(nn.Linear(515, 1023), nn.ReLU(), nn.Linear(1023, 511)).to(device)
    return Program(model, (torch.randn(63, 515, device=device),))


@program
def layer_norm(device: str) -> Program:
    return Program(nn.LayerNorm(4096).to(device), (torch.randn(32, 128, 4096, device=device),))


@program
def softmax(device: str) -> Program:
    return Program(
        lambda x: torch.softmax(x, -1),
        (torch.randn(128, 50257, device=device, requires_grad=True),),
    )


def _heads(device: str, dtype: torch.dtype) -> tuple[torch.Tensor, ...]:
    return tuple(
        torch.randn(2, 8, 256, 64, dtype=dtype, device=device, requires_grad=True) for _ in range(3)
    )


@program
def attention_written_out(device: str) -> Program:
    return Program(
        lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / 8.0, -1) @ v,
        _heads(device, torch.float16),
    )


@program
def fused_attention(device: str) -> Program:
    def call(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q.sin(), k, v, is_causal=True).relu()

    return Program(call, _heads(device, torch.bfloat16))


class Block(nn.Module):
    """A transformer block with dropout, which draws from the device's random numbers."""

    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        q, k, v = (
            self.qkv(self.norm1(x))
            .view(batch, time, 3, self.heads, width // self.heads)
            .permute(2, 0, 3, 1, 4)
        )
        attended = (
            F.scaled_dot_product_attention(q, k, v, is_causal=True)
            .transpose(1, 2)
            .reshape(batch, time, width)
        )
        x = x + self.dropout(self.out(attended))
        return x + self.mlp(self.norm2(x))


@program
def transformer_block(device: str) -> Program:
    return Program(Block().to(device), (torch.randn(4, 128, 256, device=device),))


@program
def transformer_block_in_autocast(device: str) -> Program:
    block = Block().to(device)

    def call(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=torch.bfloat16):
            return block(x)

    return Program(call, (torch.randn(4, 128, 256, device=device),))


@program
def convolutions(device: str) -> Program:
    first = (nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
    last = (
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )
    return Program(
        nn.Sequential(*first, *last).to(device), (torch.randn(8, 3, 64, 64, device=device),)
    )


@program
def embedding(device: str) -> Program:
    model = nn.Sequential(nn.Embedding(50000, 256), nn.LayerNorm(256)).to(device)
    return Program(model, (torch.randint(0, 50000, (16, 64), device=device),))


class Rotary(nn.Module):
    """RMS norm and rotary embedding as a Llama has them."""

    def __init__(self, width: int = 512, heads: int = 8) -> None:
        super().__init__()
        self.heads, self.weight = heads, nn.Parameter(torch.ones(width))
        self.q = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = (
            x
            * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype)
            * self.weight
        )
        q = self.q(normed).view(*x.shape[:2], self.heads, -1)
        frequencies = 1.0 / (
            10000 ** (torch.arange(0, q.shape[-1], 2, device=x.device).float() / q.shape[-1])
        )
        angles = torch.outer(torch.arange(x.shape[1], device=x.device).float(), frequencies)
        cos, sin = (
            torch.cat([f, f], -1)[None, :, None].to(q.dtype) for f in (angles.cos(), angles.sin())
        )
        left, right = q.chunk(2, -1)
        return q * cos + torch.cat([-right, left], -1) * sin


@program
def rms_norm_and_rotary(device: str) -> Program:
    return Program(
        Rotary().to(device, torch.bfloat16),
        (torch.randn(2, 128, 512, dtype=torch.bfloat16, device=device),),
    )


@program
def cross_entropy(device: str) -> Program:
    head = nn.Linear(256, 32000, bias=False).to(device)
    targets = torch.randint(0, 32000, (128,), device=device)
    return Program(
        lambda x, y: F.cross_entropy(head(x), y), (torch.randn(128, 256, device=device), targets)
    )


@program
def dynamic_batch(device: str) -> Program:
    model = nn.Sequential(nn.Linear(256, 512), nn.SiLU(), nn.LayerNorm(512)).to(device)
    return Program(model, (torch.randn(37, 256, device=device),), dynamic=True)


@program
def graph_break(device: str) -> Program:
    def call(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos() + 1

    return Program(call, (torch.randn(1000, device=device),))


@program
def scans_and_sorts(device: str) -> Program:
    def call(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.cumsum(-1), x.sort(-1)[0], x.topk(4)[0], x.var(0), x.argmax(-1)

    return Program(call, (torch.randn(64, 512, device=device),))


@program
def matmul_template(device: str) -> Program:
    linear = nn.Linear(1024, 1024).to(device, torch.bfloat16)
    options = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
    x = torch.randn(512, 1024, dtype=torch.bfloat16, device=device)
    return Program(lambda x: F.relu(linear(x)), (x,), options=options)
