"""Small programs of many kinds, as a script: ``programs.py NAME …`` compiles those, with a backward where one has any."""

from __future__ import annotations

import sys
from collections.abc import Callable

import report
import torch
import torch.nn.functional as F
from torch import nn

PROGRAMS: dict[str, Callable[[], None]] = {}


def program(make: Callable[[], tuple]) -> Callable[[], tuple]:
    """``make`` returns (function or module, its arguments, options of torch.compile if any)."""

    def run() -> None:
        torch.manual_seed(0)
        torch._dynamo.reset()
        function, arguments, *options = make()
        output = torch.compile(function, **(options[0] if options else {}))(*arguments)
        outputs = [one for one in (output if isinstance(output, tuple) else (output,)) if getattr(one, "requires_grad", False)]
        if outputs:
            sum(one.float().sum() for one in outputs).backward()

    PROGRAMS[make.__name__] = run
    return make


@program
def mlp():
    return nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)), (torch.randn(64, 512),)


@program
def odd_shapes():
    return nn.Sequential(nn.Linear(515, 1023), nn.ReLU(), nn.Linear(1023, 511)), (torch.randn(63, 515),)


@program
def layer_norm():
    return nn.LayerNorm(4096), (torch.randn(32, 128, 4096),)


@program
def softmax():
    return lambda x: torch.softmax(x, -1), (torch.randn(128, 50257, requires_grad=True),)


def heads(dtype: torch.dtype) -> list[torch.Tensor]:
    return [torch.randn(2, 8, 256, 64, dtype=dtype, requires_grad=True) for _ in range(3)]


@program
def fused_attention():
    return lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), heads(torch.bfloat16)


@program
def manual_attention():
    return lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2) / 8.0, -1) @ v, heads(torch.float16)


class Block(nn.Module):
    def __init__(self, width: int = 256, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, time, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, time, width)
        x = x + self.dropout(self.out(attended))
        return x + self.mlp(self.after(x))


@program
def transformer_block():
    return Block(), (torch.randn(4, 128, 256),)


@program
def autocast_block():
    block = Block()

    def run(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return block(x)

    return run, (torch.randn(4, 128, 256),)


@program
def convolutions():
    layers = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)),
    )
    return layers, (torch.randn(8, 3, 64, 64),)


@program
def embedding():
    return nn.Sequential(nn.Embedding(50000, 256), nn.LayerNorm(256)), (torch.randint(0, 50000, (16, 64)),)


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
def recurrent_loop():
    return Recurrent(), (torch.randn(6, 16, 64),)


class RotaryQuery(nn.Module):
    def __init__(self, width: int = 512, heads: int = 8) -> None:
        super().__init__()
        self.weight, self.heads, self.query = nn.Parameter(torch.ones(width)), heads, nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6).to(x.dtype) * self.weight
        query = self.query(normed).view(*x.shape[:2], self.heads, -1)
        size = query.shape[-1]
        inverse = 1.0 / (10000 ** (torch.arange(0, size, 2, device=x.device).float() / size))
        angles = torch.outer(torch.arange(x.shape[1], device=x.device).float(), inverse)
        cos, sin = (torch.cat([part, part], -1)[None, :, None].to(query.dtype) for part in (angles.cos(), angles.sin()))
        first, second = query.chunk(2, -1)
        return query * cos + torch.cat([-second, first], -1) * sin


@program
def rms_norm_rotary():
    return RotaryQuery().to(torch.bfloat16), (torch.randn(2, 128, 512, dtype=torch.bfloat16),)


@program
def cross_entropy():
    head = nn.Linear(256, 32000, bias=False)
    return lambda x, y: F.cross_entropy(head(x), y), (torch.randn(128, 256), torch.randint(0, 32000, (128,)))


@program
def dynamic_batch():
    layers = nn.Sequential(nn.Linear(256, 512), nn.SiLU(), nn.LayerNorm(512))
    return layers, (torch.randn(37, 256),), {"dynamic": True}


@program
def optimizer_step():
    parameters = [torch.randn(128, 64, requires_grad=True) for _ in range(6)]
    for parameter in parameters:
        parameter.grad = torch.randn(128, 64)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, capturable=False, foreach=True)
    return lambda: optimizer.step(), ()


@program
def matmul_template():
    linear = nn.Linear(1024, 1024).to(torch.bfloat16)
    tuned = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}
    return lambda x: F.relu(linear(x)), (torch.randn(512, 1024, dtype=torch.bfloat16),), {"options": tuned}


@program
def two_graphs():
    def run(x):
        y = x.sin()
        print("a graph break")
        return y.cos() + 1

    return run, (torch.randn(1000),)


@program
def value_dependent():
    def run(x):
        y = x.abs().sum()
        return y.sqrt() if y.item() > 0 else y.neg()

    return run, (torch.randn(1000),)


@program
def scan_sort_topk():
    return lambda x: (x.cumsum(-1), x.sort(-1)[0], x.topk(4)[0], x.var(0), x.argmax(-1)), (torch.randn(64, 512),)


if __name__ == "__main__":
    report.run_all({name: PROGRAMS[name] for name in sys.argv[1:] or PROGRAMS})
