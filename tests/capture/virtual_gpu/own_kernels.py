"""This script has Triton kernels as people write them, after Triton's own tutorials, called from
compiled functions.
"""

from __future__ import annotations

import sys

import report
import torch
import triton
import triton.language as tl
from kernels_elsewhere import hard_swish_kernel
from torch.library import triton_op, wrap_triton


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, count, BLOCK: tl.constexpr):
    place = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    inside = place < count
    x = tl.load(x_ptr + place, mask=inside)
    y = tl.load(y_ptr + place, mask=inside)
    tl.store(out_ptr + place, x + y, mask=inside)


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    add_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), BLOCK=1024)
    return out


def vector_add() -> None:
    torch.compile(lambda x, y: added(x.sin(), y).cos())(torch.randn(4096), torch.randn(4096))


@triton.jit
def softmax_kernel(
    out_ptr,
    in_ptr,
    in_row_stride,
    out_row_stride,
    rows,
    columns,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    first_row = tl.program_id(0)
    row_step = tl.num_programs(0)
    for row in tl.range(first_row, rows, row_step, num_stages=STAGES):
        column = tl.arange(0, BLOCK)
        inside = column < columns
        values = tl.load(in_ptr + row * in_row_stride + column, mask=inside, other=-float("inf"))
        shifted = values - tl.max(values, axis=0)
        numerator = tl.exp(shifted)
        denominator = tl.sum(numerator, axis=0)
        tl.store(out_ptr + row * out_row_stride + column, numerator / denominator, mask=inside)


def softmax() -> None:
    def run(x):
        rows, columns = x.shape
        out = torch.empty_like(x)
        block = triton.next_power_of_2(columns)
        softmax_kernel[(64,)](
            out, x, x.stride(0), out.stride(0), rows, columns, BLOCK=block, STAGES=2
        )
        return out

    torch.compile(run)(torch.randn(1823, 781))


CONFIGS = [
    triton.Config(
        {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP": 8}, num_stages=3, num_warps=4
    ),
    triton.Config(
        {"BLOCK_M": 32, "BLOCK_N": 64, "BLOCK_K": 32, "GROUP": 8}, num_stages=4, num_warps=2
    ),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def matmul_kernel(
    # pointers
    a_ptr,
    b_ptr,
    c_ptr,
    # sizes
    M,
    N,
    K,
    # strides
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
    ACTIVATION: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    blocks_m = tl.cdiv(M, BLOCK_M)
    blocks_n = tl.cdiv(N, BLOCK_N)
    in_group = GROUP * blocks_n
    group = pid // in_group
    first_m = group * GROUP
    group_size = min(blocks_m - first_m, GROUP)
    block_m = first_m + ((pid % in_group) % group_size)
    block_n = (pid % in_group) // group_size

    rows = (block_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    columns = (block_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    inner = tl.arange(0, BLOCK_K)
    a_place = a_ptr + (rows[:, None] * stride_am + inner[None, :] * stride_ak)
    b_place = b_ptr + (inner[:, None] * stride_bk + columns[None, :] * stride_bn)

    sums = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BLOCK_K)):
        a = tl.load(a_place, mask=inner[None, :] < K - k * BLOCK_K, other=0.0)
        b = tl.load(b_place, mask=inner[:, None] < K - k * BLOCK_K, other=0.0)
        sums = tl.dot(a, b, sums)
        a_place += BLOCK_K * stride_ak
        b_place += BLOCK_K * stride_bk
    if ACTIVATION == "leaky_relu":
        sums = leaky_relu(sums)

    out_rows = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
    out_columns = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    c_place = c_ptr + stride_cm * out_rows[:, None] + stride_cn * out_columns[None, :]
    tl.store(
        c_place, sums.to(tl.float16), mask=(out_rows[:, None] < M) & (out_columns[None, :] < N)
    )


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


def matmul() -> None:
    def run(a, b):
        (M, K), (_, N) = a.shape, b.shape
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)  # noqa: E731
        strides = (a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1))
        matmul_kernel[grid](a, b, c, M, N, K, *strides, ACTIVATION="leaky_relu")
        return c

    torch.compile(run)(
        torch.randn(512, 256, dtype=torch.float16), torch.randn(256, 512, dtype=torch.float16)
    )


@triton.jit
def layer_norm_kernel(
    x_ptr,
    out_ptr,
    weight_ptr,
    bias_ptr,
    mean_ptr,
    rstd_ptr,
    stride,
    width,
    eps,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0)
    out_ptr += row * stride
    x_ptr += row * stride

    mean = 0
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        sums += tl.load(x_ptr + column, mask=column < width, other=0.0).to(tl.float32)
    mean = tl.sum(sums, axis=0) / width

    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + column, mask=column < width, other=0.0).to(tl.float32)
        x = tl.where(column < width, x - mean, 0.0)
        squares += x * x
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / width + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)

    for first in range(0, width, BLOCK):
        column = first + tl.arange(0, BLOCK)
        inside = column < width
        weight = tl.load(weight_ptr + column, mask=inside)
        bias = tl.load(bias_ptr + column, mask=inside)
        x = tl.load(x_ptr + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(out_ptr + column, (x - mean) * rstd * weight + bias, mask=inside)


def layer_norm() -> None:
    def run(x, weight, bias):
        rows, width = x.shape
        out = torch.empty_like(x)
        mean = torch.empty((rows,), dtype=torch.float32, device=x.device)
        rstd = torch.empty((rows,), dtype=torch.float32, device=x.device)
        layer_norm_kernel[(rows,)](
            x, out, weight, bias, mean, rstd, x.stride(0), width, 1e-5, BLOCK=1024
        )
        return out * 2

    torch.compile(run)(torch.randn(128, 2048), torch.randn(2048), torch.randn(2048))


def imported() -> None:
    def run(x):
        out = torch.empty_like(x)
        hard_swish_kernel[(triton.cdiv(x.numel(), 512),)](x, out, x.numel(), BLOCK=512)
        return out

    torch.compile(run)(torch.randn(4096))


@triton.jit
def scale_kernel(x_ptr, out_ptr, count, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(
        out_ptr + place, tl.load(x_ptr + place, mask=place < count) * FACTOR, mask=place < count
    )


def used_twice() -> None:
    def run(x):
        double, triple = torch.empty_like(x), torch.empty_like(x)
        grid = (triton.cdiv(x.numel(), 256),)
        scale_kernel[grid](x, double, x.numel(), FACTOR=2, BLOCK=256)
        scale_kernel[grid](x, triple, x.numel(), FACTOR=3, BLOCK=256)
        return double, triple

    torch.compile(run)(torch.randn(4096))


@triton_op("fx_explorer_tests::own_add", mutates_args=())
def own_add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(add_kernel)[(triton.cdiv(x.numel(), 1024),)](x, y, out, x.numel(), 1024)
    return out


def operator() -> None:
    torch.compile(lambda x, y: own_add(x, y).sin())(torch.randn(4096), torch.randn(4096))


@triton.jit
def square_kernel(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < count)
    tl.store(out_ptr + place, x * x, mask=place < count)


@triton.jit
def square_backward_kernel(x_ptr, grad_ptr, out_ptr, count, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + place, mask=place < count)
    grad = tl.load(grad_ptr + place, mask=place < count)
    tl.store(out_ptr + place, 2 * x * grad, mask=place < count)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        square_kernel[(triton.cdiv(x.numel(), 256),)](x, out, x.numel(), BLOCK=256)
        return out

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        square_backward_kernel[(triton.cdiv(x.numel(), 256),)](
            x, grad.contiguous(), out, x.numel(), BLOCK=256
        )
        return out


def with_backward() -> None:
    linear = torch.nn.Linear(64, 64)
    torch.compile(lambda x: Square.apply(linear(x).relu()))(torch.randn(8, 64)).sum().backward()


PROGRAMS = (vector_add, softmax, matmul, layer_norm, imported, used_twice, operator, with_backward)

if __name__ == "__main__":
    wanted = sys.argv[1:]
    report.run_all({run.__name__: run for run in PROGRAMS if not wanted or run.__name__ in wanted})
