"""This script has programs that say ``cuda`` themselves, or have kernels that run only on a GPU."""

from __future__ import annotations

import report
import torch
import triton
import triton.language as tl
from torch import nn
from torch.library import triton_op, wrap_triton
from torch.nn.attention.flex_attention import flex_attention


@triton.jit
def add_kernel(x, y, out, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    tl.store(out + place, tl.load(x + place, inside) + tl.load(y + place, inside), inside)


@triton_op("fx_explorer_tests::add", mutates_args=())
def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(add_kernel)[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), 1024)
    return out


def own_kernel() -> None:
    def run(x, y):
        out = torch.empty_like(x)
        add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
        return out.relu()

    torch.compile(run)(torch.randn(4096), torch.randn(4096))


def own_operator() -> None:
    torch.compile(lambda x, y: add(x, y).sin())(torch.randn(4096), torch.randn(4096))


def flex_backward() -> None:
    def causal(score, batch, head, query, key):
        return torch.where(query >= key, score, -float("inf"))

    heads = [torch.randn(1, 4, 512, 64, dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
    torch.compile(lambda q, k, v: flex_attention(q, k, v, score_mod=causal))(
        *heads
    ).sum().backward()


def moved_to_cuda() -> None:
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    compiled = torch.compile(model)
    for _ in range(2):
        loss = (
            compiled(torch.randn(4, 32).to("cuda")).square().mean()
            + torch.tensor([1.0, 2.0], device="cuda").sum()
        )
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def made_on_cuda() -> None:
    def run(x):
        return (x + torch.arange(8, device="cuda") @ torch.ones(8, 8, device=x.device)).softmax(-1)

    torch.compile(run)(torch.zeros(4, 8, device="cuda"))


PROGRAMS = (own_kernel, own_operator, flex_backward, moved_to_cuda, made_on_cuda)

if __name__ == "__main__":
    report.run_all({run.__name__: run for run in PROGRAMS})
