"""The texts of the synthetic session: a Llama's source, the operations of one layer, and C++ as
Inductor might write it.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

SOURCE_PATH = "llama.py"

SOURCE = '''"""A small Llama, for benchmarks of the explorer."""

import torch
from torch import nn
from torch.nn import functional as F


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        variance = x.pow(2).mean(-1, keepdim=True)
        x = x * torch.rsqrt(variance + self.eps)
        return self.weight * x


def rotate_half(x):
    left, right = x.chunk(2, dim=-1)
    return torch.cat((-right, left), dim=-1)


def apply_rotary(x, cos, sin):
    return x * cos + rotate_half(x) * sin


class Attention(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(size, size, bias=False)
        self.k_proj = nn.Linear(size, size, bias=False)
        self.v_proj = nn.Linear(size, size, bias=False)
        self.o_proj = nn.Linear(size, size, bias=False)

    def forward(self, x, cos, sin):
        batch, length, size = x.shape
        shape = (batch, length, self.heads, size // self.heads)
        q = self.q_proj(x).view(shape).transpose(1, 2)
        k = self.k_proj(x).view(shape).transpose(1, 2)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        q = apply_rotary(q, cos, sin)
        k = apply_rotary(k, cos, sin)
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x.transpose(1, 2).reshape(batch, length, size)
        return self.o_proj(x)


class MLP(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size, 4 * size, bias=False)
        self.up_proj = nn.Linear(size, 4 * size, bias=False)
        self.down_proj = nn.Linear(4 * size, size, bias=False)

    def forward(self, x):
        gate = F.silu(self.gate_proj(x))
        up = self.up_proj(x)
        return self.down_proj(gate * up)


class Layer(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.attention_norm = RMSNorm(size)
        self.attention = Attention(size, heads)
        self.mlp_norm = RMSNorm(size)
        self.mlp = MLP(size)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.mlp(self.mlp_norm(x))


class Llama(nn.Module):
    def __init__(self, layers: int, size: int = 4096, heads: int = 32, vocabulary: int = 32000) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, size)
        self.layers = nn.ModuleList(Layer(size, heads) for _ in range(layers))
        self.norm = RMSNorm(size)
        self.head = nn.Linear(size, vocabulary, bias=False)

    def forward(self, tokens, cos, sin):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))
'''


class Op(NamedTuple):
    """One Dynamo node of a layer and what AOTAutograd makes of it."""

    name: str
    target: str
    code: str
    """The source line it stands on (its beginning is enough)."""
    function: str
    module: str
    forward: tuple[str, ...]
    backward: tuple[str, ...]


def _norm(module: str) -> list[Op]:
    where = ("RMSNorm.forward", module)
    return [
        Op("pow", "pow", "variance = x.pow(2)", *where, ("pow",), ("mul", "mul", "pow")),
        Op("mean", "mean", "variance = x.pow(2)", *where, ("mean",), ("expand", "div")),
        Op("add", "_operator.add", "x = x * torch.rsqrt", *where, ("add",), ()),
        Op(
            "rsqrt", "torch.rsqrt", "x = x * torch.rsqrt", *where, ("rsqrt",), ("pow", "mul", "mul")
        ),
        Op(
            "mul",
            "_operator.mul",
            "x = x * torch.rsqrt",
            *where,
            ("mul",),
            ("mul", "mul", "sum", "add"),
        ),
        Op(
            "mul",
            "_operator.mul",
            "return self.weight * x",
            *where,
            ("mul",),
            ("mul", "mul", "sum", "view"),
        ),
    ]


def _linear(code: str, function: str, module: str) -> list[Op]:
    forward = ("permute", "view", "mm", "_unsafe_view")
    backward = ("view", "permute", "mm", "permute", "permute", "mm", "view", "add")
    return [Op("linear", "torch.nn.functional.linear", code, function, module, forward, backward)]


def _heads(code: str, module: str) -> list[Op]:
    function = "Attention.forward"
    return [
        *_linear(code, function, module),
        Op("view", "view", code, function, module, ("view",), ("view",)),
        Op("transpose", "transpose", code, function, module, ("permute",), ("permute", "clone")),
    ]


def _rotary() -> list[Op]:
    half, whole = ("rotate_half", "attention"), ("apply_rotary", "attention")
    return [
        Op(
            "chunk",
            "chunk",
            "left, right = x.chunk",
            *half,
            ("split", "getitem", "getitem"),
            ("cat",),
        ),
        Op("neg", "_operator.neg", "return torch.cat", *half, ("neg",), ("neg",)),
        Op("cat", "torch.cat", "return torch.cat", *half, ("cat",), ("slice", "slice")),
        Op("mul", "_operator.mul", "return x * cos", *whole, ("mul",), ("mul",)),
        Op("mul", "_operator.mul", "return x * cos", *whole, ("mul",), ("mul",)),
        Op("add", "_operator.add", "return x * cos", *whole, ("add",), ("add",)),
    ]


_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu"


class Layer:
    """What one layer is made of."""

    OPS: ClassVar[tuple[Op, ...]] = (
        *_norm("attention_norm"),
        *_heads("q = self.q_proj(x)", "attention.q_proj"),
        *_heads("k = self.k_proj(x)", "attention.k_proj"),
        *_heads("v = self.v_proj(x)", "attention.v_proj"),
        *_rotary(),
        *_rotary(),
        Op(
            "scaled_dot_product_attention",
            "torch.nn.functional.scaled_dot_product_attention",
            "x = F.scaled_dot_product_attention",
            "Attention.forward",
            "attention",
            (_ATTENTION, "getitem", "getitem"),
            (_ATTENTION + "_backward", "getitem", "getitem", "getitem"),
        ),
        Op(
            "transpose",
            "transpose",
            "x = x.transpose(1, 2)",
            "Attention.forward",
            "attention",
            ("permute",),
            ("permute",),
        ),
        Op(
            "reshape",
            "reshape",
            "x = x.transpose(1, 2)",
            "Attention.forward",
            "attention",
            ("view",),
            ("view",),
        ),
        *_linear("return self.o_proj(x)", "Attention.forward", "attention.o_proj"),
        Op(
            "add",
            "_operator.add",
            "x = x + self.attention",
            "Layer.forward",
            "attention",
            ("add",),
            ("add",),
        ),
        *_norm("mlp_norm"),
        *_linear("gate = F.silu", "MLP.forward", "mlp.gate_proj"),
        Op(
            "silu",
            "torch.nn.functional.silu",
            "gate = F.silu",
            "MLP.forward",
            "mlp",
            ("sigmoid", "mul"),
            ("sigmoid", "full", "sub", "mul", "add", "mul", "mul"),
        ),
        *_linear("up = self.up_proj(x)", "MLP.forward", "mlp.up_proj"),
        Op(
            "mul",
            "_operator.mul",
            "return self.down_proj",
            "MLP.forward",
            "mlp",
            ("mul",),
            ("mul", "mul"),
        ),
        *_linear("return self.down_proj", "MLP.forward", "mlp.down_proj"),
        Op(
            "add",
            "_operator.add",
            "return x + self.mlp",
            "Layer.forward",
            "mlp",
            ("add",),
            ("add",),
        ),
    )


def line_of(code: str) -> int:
    """The line (from 1) of the source that has this code."""
    return SOURCE[: SOURCE.index(code)].count("\n") + 1


def kernel_code(name: str, statements: int) -> str:
    """C++ with one statement for each node, the first of them on line 5."""
    body = "".join(
        f"        auto tmp{i + 1} = tmp{i} * tmp{max(0, i - 1)};\n" for i in range(statements)
    )
    return (
        f'extern "C"  void {name}(const float* in_ptr0, float* out_ptr0)\n{{\n'
        "    for(int64_t x0=static_cast<int64_t>(0L); x0<static_cast<int64_t>(8388608L); x0+=static_cast<int64_t>(1L))\n"
        "    {   auto tmp0 = at::vec::Vectorized<float>::loadu(in_ptr0 + x0);\n"
        f"{body}"
        f"        tmp{statements}.store(out_ptr0 + x0);\n    }}\n}}\n"
    )
