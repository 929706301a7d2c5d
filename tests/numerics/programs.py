"""These programs each register one fault with torch: a decomposition, a pass, a lowering or the text
of a kernel that computes something else. ``FAULTS`` says where it must be found.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One program with a fault."""

    text: str
    stage: str
    operation: str
    code: str
    """The user's line."""
    sentence: str
    """Part of a reason that must be given."""
    options: tuple[str, ...] = ()
    """Options of the command line."""
    kernel_code: str = ""
    """Part of the kernel's line that must be shown."""

    @property
    def line(self) -> int:
        lines = [line.strip() for line in self.text.split("\n")]
        return lines.index(self.code) + 1


TWO_INPUTS = """
example_inputs = (torch.linspace(-2, 2, 64).view(8, 8), torch.linspace(1, 3, 64).view(8, 8))
"""

DECOMPOSITION = Fault(
    """import torch
from torch._inductor.decomposition import decompositions, fast_random_decomps

def wrong_hardswish(x):
    return x * torch.clamp(x + 3, 0, 6) / 5

decompositions[torch.ops.aten.hardswish.default] = wrong_hardswish
fast_random_decomps.cache_clear()  # a warm worker has compiled already

def model(x, y):
    z = x * y
    z = torch.nn.functional.hardswish(z)
    return z + 1
"""
    + TWO_INPUTS,
    "decomposition",
    "aten.hardswish.default",
    "z = torch.nn.functional.hardswish(z)",
    "wrong_hardswish (",
)

POST_GRAD_PASS = Fault(
    """import torch
import torch._inductor.config

def add_to_sub(graph):
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.add.Tensor:
            with graph.inserting_before(node):
                new = graph.call_function(torch.ops.aten.sub.Tensor, node.args, node.kwargs)
            new.meta.update(node.meta)
            node.replace_all_uses_with(new)
            graph.erase_node(node)

torch._inductor.config.post_grad_custom_pre_pass = add_to_sub

def model(x, y):
    z = x * 3
    z = z + y
    return z.relu()
"""
    + TWO_INPUTS,
    "post_grad",
    "aten.sub.Tensor",
    "z = z + y",
    "in place of add (aten.add.Tensor)",
)

CHANGED_IN_PLACE = Fault(
    POST_GRAD_PASS.text.replace(
        """    for node in list(graph.nodes):
        if node.target is torch.ops.aten.add.Tensor:
            with graph.inserting_before(node):
                new = graph.call_function(torch.ops.aten.sub.Tensor, node.args, node.kwargs)
            new.meta.update(node.meta)
            node.replace_all_uses_with(new)
            graph.erase_node(node)
""",
        """    for node in graph.nodes:
        if node.target is torch.ops.aten.add.Tensor:
            node.target = torch.ops.aten.sub.Tensor
""",
    ),
    "post_grad",
    "aten.sub.Tensor",
    "z = z + y",
    "in place of add (aten.add.Tensor)",
)

JOINT_PASS = Fault(
    """import torch
import torch._inductor.config

def three_to_four(graph):
    for node in graph.nodes:
        if node.target is torch.ops.aten.mul.Tensor and node.args[1] == 3:
            node.args = (node.args[0], 4)

torch._inductor.config.joint_custom_post_pass = three_to_four

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x):
        y = self.fc(x)
        y = y * 3
        return y.tanh()

model = Model()
example_inputs = (torch.linspace(-2, 2, 32).view(4, 8),)
""",
    "joint",
    "aten.mul.Tensor",
    "y = y * 3",
    "became aten.mul.Tensor",
)

PRE_GRAD_PASS = Fault(
    """import torch
import torch._inductor.config

def relu_to_sigmoid(graph):
    for node in graph.nodes:
        if node.target is torch.relu:
            node.target = torch.sigmoid

torch._inductor.config.pre_grad_custom_pass = relu_to_sigmoid

def model(x, y):
    z = x * 3 + y
    return torch.relu(z)
"""
    + TWO_INPUTS,
    "pre_grad",
    "torch.sigmoid",
    "return torch.relu(z)",
    "in place of relu",
)

LOWERING = Fault(
    """import torch
from torch._inductor import graph, lowering
from torch._inductor.virtualized import ops

def wrong(x):
    def element(value):
        return ops.tanh(ops.mul(value, ops.constant(1.1, torch.float32)))
    return lowering.make_pointwise(element)(x)

lowering.lowerings[torch.ops.aten.tanh.default] = wrong

def model(x, y):
    z = x * 3 + y
    z = z.tanh()
    return z.sum(-1)
"""
    + TWO_INPUTS,
    "code",
    "aten.tanh.default",
    "z = z.tanh()",
    "With aten.tanh.default called in eager mode and the rest compiled, the graph's results equal",
)

KERNEL_TEXT = Fault(
    """import torch
from torch._inductor.codegen import cpp

cpp.CppOverrides.cos = staticmethod(lambda x: f"std::sin({x})")
cpp.CppVecOverrides.cos = staticmethod(lambda x: f"{x}.sin()")

def model(x, y):
    z = x * 3 + y
    z = z.cos()
    return (z * 2).sum(-1)
"""
    + TWO_INPUTS,
    "code",
    "aten.cos.default",
    "z = z.cos()",
    "With aten.cos.default called in eager mode",
    kernel_code="sin",
)

LARGE_RESULT = Fault(
    """import torch
from torch._inductor import lowering
from torch._inductor.virtualized import ops

lower_sum = lowering.lowerings[torch.ops.aten.sum.dim_IntList]

def wrong(x, axis=None, keepdims=False, *, dtype=None):
    def element(value):
        return ops.mul(value, ops.constant(0.9, torch.float32))
    return lower_sum(lowering.make_pointwise(element)(x), axis, keepdims, dtype=dtype)

lowering.lowerings[torch.ops.aten.sum.dim_IntList] = wrong

def model(x, y):
    z = (x * 3 + y).sin()
    z = z.sum(-1)
    return z.exp()

example_inputs = (
    torch.linspace(-2, 2, 4096).view(64, 64), torch.linspace(1, 3, 4096).view(64, 64)
)
""",
    "code",
    "aten.sum.dim_IntList",
    "z = z.sum(-1)",
    "With aten.sum.dim_IntList called in eager mode and the rest compiled",
)
"""A later result is so large that the rounding of its size would hide the wrong sum."""

TRITON_TEXT = Fault(
    """import torch
from torch._inductor.codegen import triton

triton.TritonKernelOverrides.cos = staticmethod(lambda x: f"tl_math.sin({x})")

def model(x, y):
    z = x * 3 + y
    z = z.cos()
    return (z * 2).sum(-1)
"""
    + TWO_INPUTS,
    "code",
    "aten.cos.default",
    "z = z.cos()",
    "With aten.cos.default called in eager mode",
    kernel_code="tl_math.sin(",
)

TRITON_MAXIMUM = Fault(
    """import torch
from torch._inductor.codegen import triton

def wrong(a, b):
    return f"triton_helpers.minimum({a}, {b})"

triton.TritonKernelOverrides.maximum = staticmethod(wrong)

def model(x, y):
    z = x * 3
    z = torch.maximum(z, y)
    return z + 1
"""
    + TWO_INPUTS,
    "code",
    "aten.maximum.default",
    "z = torch.maximum(z, y)",
    "With aten.maximum.default called in eager mode",
    kernel_code="triton_helpers.minimum(",
)

BACKWARD = Fault(
    """import torch
from torch._inductor import graph, lowering
from torch._inductor.virtualized import ops

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return torch.erf(gradient * 2 * x)

def wrong(x):
    return lowering.make_pointwise(lambda a: ops.mul(a, ops.constant(1.2, torch.float32)))(x)

lowering.lowerings[torch.ops.aten.erf.default] = wrong

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(8, 8)

    def forward(self, x):
        return Square.apply(self.fc(x)).sum()

model = Model()
example_inputs = (torch.linspace(-2, 2, 32).view(4, 8),)
""",
    "code",
    "aten.erf.default",
    "return torch.erf(gradient * 2 * x)",
    "With aten.erf.default called in eager mode",
)

OUT_OF_RANGE = Fault(
    """import torch

def model(p):
    return torch.flip(torch.repeat_interleave(torch.flatten(p + 1.0), 2), [0])

example_inputs = (torch.arange(4.0).view(2, 2),)
""",
    "code",
    "prims.rev.default",
    "return torch.flip(torch.repeat_interleave(torch.flatten(p + 1.0), 2), [0])",
    "The kernel reads outside its inputs",
    ("--dynamic",),
)

CAST_LEFT_OUT = Fault(
    """import torch

def model(x):
    y = x * 1.003
    y = y - x
    return y > 0.007

example_inputs = (torch.linspace(1, 2, 256).to(torch.bfloat16),)
""",
    "code",
    "aten.gt.Scalar",
    "return y > 0.007",
    "so fusion left out a cast",
)

FAULTS = {
    "decomposition": DECOMPOSITION,
    "post-grad pass": POST_GRAD_PASS,
    "lowering": LOWERING,
    "out of range": OUT_OF_RANGE,
    "changed in place": CHANGED_IN_PLACE,
    "joint pass": JOINT_PASS,
    "pre-grad pass": PRE_GRAD_PASS,
    "kernel text": KERNEL_TEXT,
    "backward": BACKWARD,
    "cast left out": CAST_LEFT_OUT,
    "large result": LARGE_RESULT,
}
"""Name of a fault → its program. The first four are tried in each run of the tests."""

QUICKEST = 4

GPU_FAULTS = {name: fault for name, fault in FAULTS.items() if name != "kernel text"} | {
    "Triton text": TRITON_TEXT,
    "Triton maximum": TRITON_MAXIMUM,
}
"""The same for a GPU, whose kernels are in Triton: ``python -m benchmarks.faults_on_gpu``."""
