"""This module describes what one Inductor graph became: its kernels, their calls, the calls of
libraries, and the FX nodes behind each.

Here are plain values and no hooks. Nodes are named as in the post-grad graph that was lowered;
lines count from 1; 0 means "not known".
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from fx_explorer.capture.aot.saved_tensors import StoredOutput
from fx_explorer.capture.inductor.autotuner_choices import TemplateChoice
from fx_explorer.capture.own_kernels import CopiedLines
from fx_explorer.capture.torch_compat.versions import size_hint_of
from fx_explorer.model.library_call import Layout, LibraryCall
from fx_explorer.model.rows.kernels import KernelLanguage


@dataclass(frozen=True, slots=True)
class GeneratedCall:
    """One call of a kernel in the wrapper."""

    line: int
    """Line of the output code."""
    nodes: tuple[str, ...]
    """Every node computed by this call, in graph order."""
    line_nodes: tuple[tuple[int, str], ...] = ()
    """(line of the kernel's source, node), as seen while that line was written for this call."""
    choices: tuple[TemplateChoice, ...] = ()
    """All choices there were for a template or library call, the one that was taken first (on a GPU
    the fastest).
    """
    alone: LibraryCall | None = None
    """How a library call is made alone, where that was asked for and can be done."""


@dataclass(frozen=True, slots=True)
class GeneratedKernel:
    """One generated function, or one library call (``language`` ``extern``); repeated layers share
    it, with a call each.
    """

    name: str
    """``cpp_fused_gelu_0``, ``extern_kernels.addmm``,
    ``torch.ops.aten._scaled_dot_product_flash_attention.default``.
    """
    language: KernelLanguage
    source: str
    """The code between the triple quotes of the output code, from the line after the opening ones;
    empty for ``extern``.
    """
    first_line: int
    """Line of the output code where ``source`` starts; for ``extern`` the line of the call."""
    calls: tuple[GeneratedCall, ...]
    estimated_bytes: int = -1
    """What one call reads and writes; -1 where Inductor was not asked."""
    estimated_flops: int = -1
    copied: tuple[CopiedLines, ...] = ()
    """The lines of a user's kernel that are those of the user's files; empty for other kernels."""
    runs: tuple[str, ...] = ()
    """Graphs that it runs: a conditional's branches, a loop's condition and body, a region. Then it
    is no library call.
    """

    @property
    def choices(self) -> tuple[TemplateChoice, ...]:
        """Return the choices there were for the first call. They are the same for each call, but
        for the nodes.
        """
        return self.calls[0].choices


@dataclass(frozen=True, slots=True)
class LoweredKernels:
    """The kernels of one post-grad graph (GraphLowering, torch/_inductor/graph.py)."""

    module: torch.fx.GraphModule
    """The post-grad graph; its nodes are the ones named."""
    graph_id: int | None
    subgraph: str
    """Name of the function in the output code for a nested graph (cond, while_loop,
    invoke_subgraph); empty for the whole.
    """
    parent: torch.fx.GraphModule | None
    """The graph that holds the higher-order op, for a nested graph."""
    is_backward: bool
    is_inference: bool
    output_code: str
    """The module Inductor wrote; a nested graph has that of the whole. Empty when code generation
    failed.
    """
    kernels: tuple[GeneratedKernel, ...]
    """The kernels, in the order of their first calls."""
    without_kernel: Mapping[str, str] = field(default_factory=dict)
    """Call node that no kernel computes → why. Empty when code generation failed."""
    error: str = ""
    """First line of what stopped code generation; the kernels are those generated before it."""
    problems: tuple[str, ...] = ()
    """What this recording could not find out, and why."""
    outputs: tuple[StoredOutput, ...] = ()
    """What the graph returns, in order; empty when code generation failed."""


# Library calls of a wrapper, found on its lines and made alone.


def library_call(line: str, lowering: Any) -> LibraryCall | None:
    """Return the call on a line of output code; None where there is none that can be made alone: it
    is not of ATen's own, or it takes something else than tensors of known sizes.
    """
    call = _call(line)
    if call is None or not ast.unparse(call.func).startswith(_LIBRARIES):
        return None
    tensors, numbers = [], []
    names = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    for name in sorted(names - _IMPORTED):
        value = _given(name, lowering)
        if isinstance(value, Layout):
            tensors.append((name, value))
        elif value is not None:
            numbers.append((name, value))
        else:
            return None
    return LibraryCall(ast.unparse(call), tuple(tensors), tuple(numbers))


def prepared(call: LibraryCall) -> Callable[[], object]:
    """Return a function that makes the call and returns what it returns. The tensors that it is
    given are there already, and are zeros.
    """
    given = {name: _zeros(layout) for name, layout in call.tensors}
    code = compile(call.text, "<a library call of output code>", "eval")
    names = {**_imported(), **given, **dict(call.numbers)}
    return lambda: eval(code, names)


_LIBRARIES = ("torch.ops.aten.", "aten.", "extern_kernels.")

_IMPORTED = frozenset(
    ["torch", "aten", "extern_kernels", "reinterpret_tensor", "device", "inf", "nan"]
)
"""Names that output code imports (torch/_inductor/codegen/wrapper.py, ``write_header``)."""


def _imported() -> dict[str, Any]:
    from torch._inductor.select_algorithm import (
        extern_kernels,
    )  # a large part of Inductor, which is there when it compiles

    return {
        "torch": torch,
        "aten": torch.ops.aten,
        "extern_kernels": extern_kernels,
        "reinterpret_tensor": torch._C._dynamo.guards._reinterpret_tensor,
        "device": torch.device,
        "inf": float("inf"),
        "nan": float("nan"),
    }


def _call(line: str) -> ast.Call | None:
    try:
        statement = ast.parse(line.strip()).body
    except SyntaxError:
        return None
    match statement:
        case [ast.Assign(value=ast.Call() as call)] | [ast.Expr(value=ast.Call() as call)]:
            return call
    return None


def _given(name: str, lowering: Any) -> Layout | int | None:
    """Return what a name of the output code stands for: a buffer, an input, a constant or a
    size.
    """
    value = lowering.name_to_buffer.get(name, lowering.graph_inputs.get(name))
    if value is None:
        constant = lowering.constants.get(name)
        if constant is not None:
            return _layout(constant.shape, constant.stride(), constant.dtype, constant.device)
        value = next((symbol for symbol in _symbols(lowering) if symbol.name == name), None)
    if value is None:
        return None
    if not hasattr(value, "get_stride"):
        return _number(value, lowering)
    sizes, strides = _numbers(value.get_size(), lowering), _numbers(value.get_stride(), lowering)
    if sizes is None or strides is None:
        return None
    return _layout(sizes, strides, value.get_dtype(), value.get_device())


def _symbols(lowering: Any) -> Iterator[Any]:
    """Yield the symbols that stand for sizes of the graph's inputs."""
    for given in lowering.graph_inputs.values():
        for size in given.get_size() if hasattr(given, "get_size") else [given]:
            yield from getattr(size, "free_symbols", ())


def _layout(
    shape: Iterable[int], stride: Iterable[int], dtype: torch.dtype, device: torch.device
) -> Layout:
    return Layout(tuple(shape), tuple(stride), str(dtype).removeprefix("torch."), str(device))


def _numbers(values: Iterable[Any], lowering: Any) -> tuple[int, ...] | None:
    """Return sizes as numbers; None where one of them is not known."""
    numbers = []
    for value in values:
        number = _number(value, lowering)
        if number is None:
            return None
        numbers.append(number)
    return tuple(numbers)


def _number(value: Any, lowering: Any) -> int | None:
    try:
        return size_hint_of(lowering.sizevars, value)
    except (TypeError, ValueError, NotImplementedError):  # a size that only the data determines
        return None


def _zeros(layout: Layout) -> torch.Tensor:
    dtype = getattr(torch, layout.dtype)
    return torch.empty_strided(
        layout.shape, layout.stride, dtype=dtype, device=layout.device
    ).zero_()
