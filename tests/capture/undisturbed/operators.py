"""This module has programs whose operators are unusual: control flow, transforms, attention,
regions that are compiled once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


def conditional() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,))

    return f(torch.ones(3)), f(-torch.ones(3))


def loop() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> Any:
        return while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))

    return f(torch.ones(3))


def scan() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> Any:
        return associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")

    return f(torch.ones(4, 2))


def mapped() -> Any:
    from torch._higher_order_ops.map import map as mapped_over

    return torch.compile(lambda x, y: mapped_over(lambda one, y: one * 2 + y, x, y))(
        torch.ones(3, 2), torch.ones(2)
    )


def region_compiled_once() -> Any:
    @torch.compiler.nested_compile_region
    def block(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x @ x)

    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        return block(block(x)) + 1

    return f(torch.randn(4, 4))


def vectorized() -> Any:
    return torch.compile(torch.vmap(lambda x, y: x.dot(y)))(torch.ones(3, 4), torch.ones(3, 4))


def functional_gradient() -> Any:
    return torch.compile(torch.func.grad(lambda x: (x.sin() ** 2).sum()))(torch.ones(4))


def jacobian() -> Any:
    return torch.compile(torch.func.jacrev(lambda x: x * x.sum()))(torch.ones(3))


def forward_mode() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> Any:
        return torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))

    return f(torch.ones(3))


def functional_call() -> Any:
    net = nn.Linear(3, 2)
    parameters = {name: p * 2 for name, p in net.named_parameters()}
    return torch.compile(lambda p, x: torch.func.functional_call(net, p, (x,)))(
        parameters, torch.ones(1, 3)
    )


def attention() -> Any:
    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return torch.compile(f)(*(torch.randn(1, 2, 8, 4) for _ in range(3)))


def flexible_attention() -> Any:
    mask = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 64, 64, device="cpu")

    def f(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return flex_attention(q, k, v, block_mask=mask)  # type: ignore[return-value]

    with torch.no_grad():
        return torch.compile(f)(*(torch.randn(1, 1, 64, 16) for _ in range(3)))


def flexible_attention_alone() -> Any:
    """Without torch.compile around it torch compiles it by itself."""
    with torch.no_grad():
        return torch.compile(flex_attention)(*(torch.randn(1, 1, 64, 16) for _ in range(3)))


def autocast_inside() -> Any:
    @torch.compile
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
        return y.float() + 1

    return f(torch.randn(4, 4))


def recurrent() -> Any:
    net = nn.GRU(4, 4)
    return torch.compile(net)(torch.randn(3, 1, 4))[0]


def convolution_and_norm() -> Any:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
    torch.compile(net)(torch.randn(2, 3, 8, 8)).sum().backward()
    return net[0].weight.grad, net[1].running_mean


def transformer_layer() -> Any:
    net = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    torch.compile(net)(torch.randn(2, 5, 8)).sum().backward()
    return net.linear1.weight.grad


def embedding_and_loss() -> Any:
    net = nn.Embedding(11, 4)

    @torch.compile
    def f(ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(net(ids) @ net.weight.t(), ids)

    f(torch.tensor([1, 2, 3, 10])).backward()
    return net.weight.grad


def sorting_and_indexing() -> Any:
    @torch.compile
    def f(x: torch.Tensor, i: torch.Tensor) -> Any:
        values, order = x.sort(descending=True)
        y = torch.zeros(6).index_add(0, i, values[:3])
        y[i] = 2.0
        return y, order, x.topk(2).values, torch.where(x > 0, x, -x)

    return f(torch.randn(6), torch.tensor([0, 2, 4]))


def ahead_of_time_backends() -> Any:
    x = torch.randn(3, requires_grad=True)
    torch.compile(lambda x: x.tanh().sum(), backend="aot_eager")(x).backward()
    return x.grad, torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))


def modes_of_compile() -> Any:
    f = torch.compile(lambda x: (x @ x).relu(), mode="max-autotune-no-cudagraphs")
    g = torch.compile(
        lambda x: (x @ x).relu(), options={"epilogue_fusion": False, "max_fusion_size": 2}
    )
    x = torch.randn(8, 8)
    return f(x), g(x)
